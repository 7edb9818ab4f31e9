#include "tests/feeder/trace/recorder.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace {

using leat::feeder::RecordedRange;

std::mutex mutex;
std::vector<RecordedRange> ranges;  // range n is the one at n - 1
std::size_t events = 0;
bool is_wrong = false;

nvtxRangeId_t start(const char* name) {
  const std::scoped_lock lock(mutex);
  RecordedRange& range = ranges.emplace_back();
  std::strncpy(range.name.data(), name, range.name.size() - 1);
  range.begin = ++events;
  return ranges.size();
}

void end(nvtxRangeId_t id) {
  const std::scoped_lock lock(mutex);
  if (id == 0 || id > ranges.size() || ranges[id - 1].end != 0) {
    is_wrong = true;
  } else {
    ranges[id - 1].end = ++events;
  }
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) std::size_t leat_recorded(RecordedRange* to,
                                                                 std::size_t most) {
  const std::scoped_lock lock(mutex);
  std::copy_n(ranges.begin(), std::min(most, ranges.size()), to);
  return is_wrong ? ~std::size_t{0} : ranges.size();
}

// NVTX calls it once. Returns whether this is a profiler.
// NOLINTNEXTLINE(readability-identifier-naming)
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t tables) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0 ||
      size <= NVTX_CBID_CORE_RangeEnd) {
    return 0;
  }
  *functions[NVTX_CBID_CORE_RangeStartA] = reinterpret_cast<NvtxFunctionPointer>(&start);
  *functions[NVTX_CBID_CORE_RangeEnd] = reinterpret_cast<NvtxFunctionPointer>(&end);
  return 1;
}
}
