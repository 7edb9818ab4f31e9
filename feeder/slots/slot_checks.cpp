#include "leat/feeder/slots/slot_checks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "leat/csp/error.h"

namespace leat::feeder {
namespace {

// Returns the index of the first byte that differs.
std::optional<std::size_t> difference(const std::byte* a, const std::byte* b, std::size_t bytes) {
  if (std::memcmp(a, b, bytes) == 0) return std::nullopt;
  return std::mismatch(a, a + bytes, b).first - a;
}

std::string name(const gpu::StreamRef& stream) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%#llx",
                static_cast<unsigned long long>(stream.handle()));
  return text.data();
}

}  // namespace

SlotChecks::Watched::Watched(const gpu::Device& device, std::size_t bytes)
    : copied(bytes), seen(device, bytes), poisoned(device) {}

SlotChecks::SlotChecks(const gpu::Device& device, const BatchLayout& layout,
                       std::size_t pinned_slots, std::size_t device_slots, CheckSlots what)
    : device_(device),
      layout_(layout),
      read_only_(what == CheckSlots::kReadOnly),
      stream_(std::make_shared<const gpu::Stream>(device)),
      poison_(device, layout.bytes()),
      copier_looks_(device, layout.bytes()),
      consumer_looks_(device, layout.bytes()),
      copier_looked_(device),
      consumer_looked_(device) {
  for (std::size_t i = 0; i < pinned_slots; ++i) fills_.emplace_back(device_, layout);
  std::ranges::fill(poison_.span().bytes(), kPoison);
  watched_.reserve(device_slots);
  for (std::size_t i = 0; i < device_slots; ++i) watched_.emplace_back(device, layout.bytes());
}

void SlotChecks::fail(const DeviceSlot& slot, std::size_t byte, const std::string& what,
                      const std::string& who) const {
  throw Error("leat: check_slots: device slot " + std::to_string(slot.number) + " of " +
              device_.name() + " " + what + " (" + layout_.place_of(byte, slot.longest) + "); " +
              who);
}

void SlotChecks::before_copy(DeviceSlot& slot, const PinnedSlot& from) {
  fills(from).expect_kept();
  Watched& watched = of(slot);
  const bool was_released = std::exchange(watched.was_released, false);
  if (!was_released) {
    gpu::copy_async(*stream_, slot.memory, poison_.span());
    watched.poisoned.record(*stream_);
  }
  stream_->wait(watched.poisoned);
  gpu::copy_async(*stream_, copier_looks_.span(), slot.memory);
  copier_looked_.record(*stream_);
  copier_looked_.await();
  if (was_released) expect_unchanged(slot);
  if (const auto at = difference(copier_looks_.data(), poison_.data(), layout_.bytes())) {
    fail(slot, *at, "was written to after its release",
         "release a batch after the work that uses it is enqueued, and bind every stream that "
         "does: " +
             watched.who);
  }
  for (const TensorLayout& tensor : layout_.staged()) {
    std::memcpy(watched.copied.data() + tensor.offset, from.memory.bytes().data() + tensor.offset,
                bytes_of(tensor, from));
  }
}

// Compares what the slot held at its release with what it was given.
void SlotChecks::expect_unchanged(const DeviceSlot& slot) const {
  const Watched& watched = watched_[slot.number];
  const std::byte* const seen = watched.seen.data();
  const std::span<const TensorLayout> tensors = layout_.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t begin = tensors[i].offset;
    const std::size_t behind = begin + bytes_of(tensors[i], slot);
    const std::size_t end = i + 1 < tensors.size() ? tensors[i + 1].offset : layout_.bytes();
    const bool is_staged = i < layout_.staged().size();
    if (read_only_ && is_staged) {
      if (const auto at = difference(seen + begin, watched.copied.data() + begin, behind - begin)) {
        fail(slot, begin + *at, "was changed while it was leased",
             "by a kernel that writes to its batch, or by a copy that came too early: " +
                 watched.who);
      }
    }
    if (const auto at = difference(seen + behind, poison_.data(), end - behind)) {
      fail(slot, behind + *at, "was written to behind the rows of its batch",
           "by a kernel or a transform that writes beyond its tensor: " + watched.who);
    }
  }
}

void SlotChecks::before_hand_out(DeviceSlot& slot) {
  const Watched& watched = of(slot);
  stream_->wait(slot.ready);
  gpu::copy_async(*stream_, consumer_looks_.span(), slot.memory);
  consumer_looked_.record(*stream_);
  consumer_looked_.await();
  for (const TensorLayout& tensor : layout_.staged()) {
    const std::size_t bytes = bytes_of(tensor, slot);
    if (const auto at = difference(consumer_looks_.data() + tensor.offset,
                                   watched.copied.data() + tensor.offset, bytes)) {
      fail(
          slot, tensor.offset + *at,
          "does not hold what was copied into it when it is handed out with " + name_of(slot.batch),
          watched.who.empty()
              ? "the batch's reader may be writing still; nobody has had the slot before"
              : "whoever had it before, or the batch's reader, may be writing still: " +
                    watched.who);
    }
  }
}

void SlotChecks::released(DeviceSlot& slot) {
  const std::shared_ptr<const gpu::Stream> stream = [&] {
    const std::scoped_lock lock(end_mutex_);
    return stream_;
  }();
  if (stream == nullptr) return;
  Watched& watched = of(slot);
  watched.who = name_of(slot.batch) + " was used on ";
  if (slot.bound == 0) watched.who += "no stream";
  for (std::size_t i = 0; i < slot.bound; ++i) {
    watched.who += (i == 0 ? "stream " : ", ") + name(*slot.streams[i]);
    stream->wait(slot.released[i]);
  }
  stream->wait(slot.ready);  // needed if the batch was never bound to a stream
  gpu::copy_async(*stream, watched.seen.span(), slot.memory);
  gpu::copy_async(*stream, slot.memory, poison_.span());
  watched.poisoned.record(*stream);
  watched.was_released = true;
}

void SlotChecks::end_stream() noexcept {
  std::shared_ptr<const gpu::Stream> ended;  // destroyed without the lock
  const std::scoped_lock lock(end_mutex_);
  stream_.swap(ended);
}

}  // namespace leat::feeder
