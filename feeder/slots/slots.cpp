#include "leat/feeder/slots/slots.h"

#include <cstdio>
#include <cstdlib>

namespace leat::feeder {

namespace {

// Of the tensors; those with rows have none yet.
std::vector<std::vector<std::int64_t>> shapes_of(const BatchLayout& layout) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (const TensorLayout& tensor : layout.tensors()) {
    std::vector<std::int64_t>& shape = shapes.emplace_back();
    if (tensor.per != RowPer::kBatch) shape.push_back(0);
    shape.insert(shape.end(), tensor.field.shape.begin(), tensor.field.shape.end());
  }
  return shapes;
}

}  // namespace

std::size_t rows_of(const TensorLayout& tensor, const BatchId& batch) noexcept {
  switch (tensor.per) {
    case RowPer::kSample: return batch.rows;
    case RowPer::kElement: return batch.element_rows;
    case RowPer::kOffset: return batch.samples + 1;
    case RowPer::kBatch: return 1;
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

DeviceSlot::DeviceSlot(const gpu::Device& device, gpu::DeviceSpan span,
                       const BatchLayout& layout_of_ring, std::size_t of_ring)
    : number(of_ring),
      memory(span),
      ready(device),
      streams(kMaxStreams),
      longest(layout_of_ring.staged().size()),
      shapes(shapes_of(layout_of_ring)),
      layout(&layout_of_ring) {
  for (std::size_t i = 0; i < kMaxStreams; ++i) released.emplace_back(device);
}

void DeviceSlot::take(const gpu::Device& device, PinnedSlot& from) {
  of_source.opaque.swap(from.of_source.opaque);
  if (of_source.layout != from.of_source.layout) {
    of_source.layout = from.of_source.layout;
    layout = of_source.layout.get();
    shapes = shapes_of(*layout);
  }
  if (memory.size() >= layout->bytes()) return;
  of_source.buffer.reset();
  of_source.buffer.emplace(device, layout->bytes());
  memory = of_source.buffer->span();
}

}  // namespace leat::feeder
