// Traces put together by hand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "leat/overlap/trace/figures/analysis.h"
#include "leat/overlap/trace/model.h"
#include "leat/overlap/trace/readers/builder.h"

namespace overlap::trace {

/// Ops, calls and ranges, in any order; then report().
class Made {
 public:
  struct Op {
    const char* name = "kernel";
    std::uint64_t call = 0;  // its correlation; 0: none
    const char* stream = "7";
    std::int64_t device = 0;
    std::uint64_t bytes = 0;
    Memory memory = Memory::kUnknown;
  };
  void op(Kind kind, Time begin, Time end, const Op& of) {
    builder_.add(of.device, of.stream,
                 {.begin = begin,
                  .end = end,
                  .bytes = of.bytes,
                  .name = trace_->names.add(of.name),
                  .kind = kind,
                  .memory = of.memory},
                 {0, of.call});
  }
  void op(Kind kind, Time begin, Time end) { op(kind, begin, end, Op{}); }
  void call(const char* name, Time begin, Time end, std::uint64_t number = 0,
            const Thread& on = {1, 1}) {
    builder_.add(Call{begin, end, builder_.thread(on), trace_->names.add(name)}, {0, number});
  }
  void range(const std::string& name, Time begin, Time end, const Thread& on = {1, 1}) {
    builder_.add(Range{begin, end, builder_.thread(on), trace_->names.add(name)});
  }
  // A kernel, and its call that takes no time.
  void launched(Time called, Time begin, Time end, const char* name = "kernel") {
    call("cudaLaunchKernel", called, called, ++launches_);
    op(Kind::kCompute, begin, end, {.name = name, .call = launches_});
  }
  void format(const char* format) { trace_->format = format; }
  // The last call.
  TraceReport report(const AnalysisOptions& options = {}) {
    builder_.finish();
    return analyze(*trace_, options);
  }
  DeviceReport device(const AnalysisOptions& options = {}) { return report(options).devices.at(0); }

 private:
  std::unique_ptr<Trace> trace_ = std::make_unique<Trace>();
  Builder builder_{*trace_};
  std::uint64_t launches_ = 1000;
};

}  // namespace overlap::trace
