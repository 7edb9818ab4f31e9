#include "leat/pipeline/executor/slots.h"

#include <limits>
#include <stdexcept>

namespace leat::pipeline {

StageSlots::StageSlots(const Layout& layout) : layout_(layout) {
  constexpr std::size_t kAlignment = 256;
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2;
  const auto add = [&](std::size_t& offset, std::size_t of_sample) {
    offset = slot_bytes_;
    if (of_sample == 0) return;
    if (layout.samples > (kMost - slot_bytes_) / of_sample) {
      throw std::invalid_argument("leat: pipeline: a microbatch's bytes overflow");
    }
    slot_bytes_ += (of_sample * layout.samples + kAlignment - 1) / kAlignment * kAlignment;
  };
  add(input_, layout.memory.input);
  add(output_, layout.memory.output);
  add(kept_, layout.memory.kept);
  add(left_, layout.memory.left);
  add(output_gradient_, layout.is_last ? 0 : layout.memory.output);
  add(input_gradient_, layout.sends_gradient ? layout.memory.input : 0);
  if (layout.slots != 0 && slot_bytes_ > kMost / layout.slots) {
    throw std::invalid_argument("leat: pipeline: a stage's activations overflow");
  }
}

}  // namespace leat::pipeline
