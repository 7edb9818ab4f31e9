#include "leat/feeder/slots/slots.h"

#include <cstdio>
#include <cstdlib>

namespace leat::feeder {

std::string name_of(const BatchId& batch) {
  return "batch " + std::to_string(batch.index) + " of epoch " + std::to_string(batch.epoch);
}

std::size_t rows_of(const TensorLayout& tensor, const BatchId& batch) noexcept {
  switch (tensor.per) {
    case RowPer::kSample: return batch.rows;
    case RowPer::kElement: return batch.element_rows;
    case RowPer::kOffset: return batch.samples + 1;
  }
  return 0;
}

const char* to_string(PinnedState state) noexcept {
  switch (state) {
    case PinnedState::kFree: return "free";
    case PinnedState::kFilling: return "filling";
    case PinnedState::kFilled: return "filled";
    case PinnedState::kCopying: return "copying";
  }
  return "?";
}

const char* to_string(DeviceState state) noexcept {
  switch (state) {
    case DeviceState::kFree: return "free";
    case DeviceState::kCopying: return "copying";
    case DeviceState::kReady: return "ready";
    case DeviceState::kLeased: return "leased";
    case DeviceState::kReleased: return "released";
  }
  return "?";
}

template <class State>
void SlotState<State>::fail(State found, State from, State to) noexcept {
  std::fprintf(stderr,
               "leat: assertion failed: a staging slot was to go from %s to %s, but is %s\n",
               to_string(from), to_string(to), to_string(found));
  std::abort();
}

template class SlotState<PinnedState>;
template class SlotState<DeviceState>;

PinnedSlot::PinnedSlot(const gpu::Device& device, gpu::PinnedSpan span, const BatchLayout& layout,
                       std::size_t of_rank, std::size_t of_ring)
    : number(of_ring),
      memory(span),
      rank(of_rank),
      copied(device),
      longest(layout.staged().size()) {
  positions.reserve(4);
}

DeviceSlot::DeviceSlot(const gpu::Device& device, gpu::DeviceSpan span, const BatchLayout& layout,
                       std::size_t of_ring)
    : number(of_ring),
      memory(span),
      ready(device),
      streams(kMaxStreams),
      longest(layout.staged().size()) {
  for (std::size_t i = 0; i < kMaxStreams; ++i) released.emplace_back(device);
  for (const TensorLayout& tensor : layout.tensors()) {
    std::vector<std::int64_t>& shape = shapes.emplace_back();
    shape.push_back(0);
    shape.insert(shape.end(), tensor.field.shape.begin(), tensor.field.shape.end());
  }
}

}  // namespace leat::feeder
