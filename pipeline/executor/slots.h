// The memory of one stage's microbatches on its device: slots, each with a place for every part.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leat/gpu/buffer.h"
#include "leat/pipeline/stage.h"

namespace leat::pipeline {

/// Lays out slots. A value; it owns no memory.
class StageSlots {
 public:
  /// What the slots are for.
  struct Layout {
    StageMemory memory;         ///< of a sample
    std::uint64_t samples = 0;  ///< the most of a microbatch
    std::uint32_t slots = 0;
    bool is_last = false;         ///< the last stage: it gets no gradient of the output
    bool sends_gradient = false;  ///< the input's gradient goes to another rank
  };

  StageSlots() = default;
  /// Throws std::invalid_argument if the bytes overflow.
  explicit StageSlots(const Layout& layout);

  /// The bytes of all slots.
  [[nodiscard]] std::size_t bytes() const noexcept { return slot_bytes_ * layout_.slots; }
  /// The slots are in `memory`, of bytes() bytes, from here on.
  void place_in(const gpu::DeviceSpan& memory) noexcept { memory_ = memory; }

  [[nodiscard]] gpu::DeviceSpan input(std::uint32_t slot, std::uint64_t samples) const noexcept {
    return part(slot, input_, layout_.memory.input * samples);
  }
  [[nodiscard]] gpu::DeviceSpan output(std::uint32_t slot, std::uint64_t samples) const noexcept {
    return part(slot, output_, layout_.memory.output * samples);
  }
  [[nodiscard]] gpu::DeviceSpan kept(std::uint32_t slot, std::uint64_t samples) const noexcept {
    return part(slot, kept_, layout_.memory.kept * samples);
  }
  [[nodiscard]] gpu::DeviceSpan left(std::uint32_t slot, std::uint64_t samples) const noexcept {
    return part(slot, left_, layout_.memory.left * samples);
  }
  /// Empty for the last stage.
  [[nodiscard]] gpu::DeviceSpan output_gradient(std::uint32_t slot,
                                                std::uint64_t samples) const noexcept {
    if (layout_.is_last) return {};
    return part(slot, output_gradient_, layout_.memory.output * samples);
  }
  /// Empty unless the input's gradient goes to another rank.
  [[nodiscard]] gpu::DeviceSpan input_gradient(std::uint32_t slot,
                                               std::uint64_t samples) const noexcept {
    if (!layout_.sends_gradient) return {};
    return part(slot, input_gradient_, layout_.memory.input * samples);
  }

 private:
  [[nodiscard]] gpu::DeviceSpan part(std::uint32_t slot, std::size_t offset,
                                     std::size_t bytes) const noexcept {
    return {bytes == 0 ? nullptr : memory_.data() + slot * slot_bytes_ + offset, bytes};
  }

  Layout layout_;
  std::size_t input_ = 0;
  std::size_t output_ = 0;
  std::size_t kept_ = 0;
  std::size_t left_ = 0;
  std::size_t output_gradient_ = 0;
  std::size_t input_gradient_ = 0;
  std::size_t slot_bytes_ = 0;
  gpu::DeviceSpan memory_;
};

}  // namespace leat::pipeline
