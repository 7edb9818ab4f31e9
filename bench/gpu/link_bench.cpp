// What the link between host and device carries, in nvbandwidth's way: a kernel holds the stream
// until all copies are queued, the device's own events time them, the median of the samples counts,
// and the data of the last ones are verified.
//
//   <h2d|d2h>/<kind>/<size>/alone           one stream; kinds as in bench/gpu/link_memory.h
//   .../two_streams                         the copies alternate between two streams
//   .../under_compute                       while kernels run: the label says which. They begin
//                                           before the first copy and end after the last, which is
//                                           checked
//   .../<count>x<size>/<batched|separate>   tensors of a batch in one call of copy_async, or one
//                                           call for each
//
// Pageable memory is not held: CUDA copies it in the call, which would wait for the hold for ever.
//
// An iteration is a sample. Counters: GB_per_s (10^9 bytes, of the median sample), slowest (of all
// samples that count), copies (of a sample), and what was allocated for each copy, while sampling.
// Under compute those count that it lasted for; others are taken again beside more of it.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/gpu/device_main.h"
#include "bench/gpu/hold.h"
#include "bench/gpu/link_memory.h"
#include "bench/gpu/load.h"
#include "leat/gpu/event.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"

namespace {

using namespace bench;
using leat::gpu::Timing;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kSample = 256 * kMiB;  // a sample copies so much, where that is enough copies
constexpr std::size_t kMostCopies = 64;      // of a sample; queues hold 1024 operations
constexpr std::size_t kGroups = 8;           // of a sample of batches
constexpr std::int64_t kMostUnits = 400;     // of compute; likewise

struct Case {
  bool h2d = true;
  HostKind kind = HostKind::kPinned;
  std::size_t bytes = 0;    // of a copy
  std::size_t copies = 0;   // of a sample
  std::size_t tensors = 0;  // of a batch; 0: no batches
  bool batched = false;
  bool two_streams = false;
  bool under_compute = false;

  [[nodiscard]] std::size_t total() const noexcept { return bytes * copies; }
};

// What the benchmarks share; made when the first of them runs.
struct Lab {
  Lab(const leat::gpu::Device& on, std::size_t capacity)
      : device(on), memory(on, capacity), hold(on), first(on), second(on) {
    fill_pools(on, hold);
  }

  Load& load() {
    if (!load_) load_.emplace(device);
    return *load_;
  }

  const leat::gpu::Device device;
  LinkMemory memory;
  Hold hold;
  const leat::gpu::Stream first;
  const leat::gpu::Stream second;
  const leat::gpu::Event start{device, Timing::kOn};
  const leat::gpu::Event end{device, Timing::kOn};
  const leat::gpu::Event compute_runs{device};
  const leat::gpu::Event compute_end{device, Timing::kOn};
  const leat::gpu::Event second_done{device};
  std::uint64_t seed = 0;

 private:
  std::optional<Load> load_;
};

// Enqueues the copies [from, to) of a sample, every `step`-th.
template <class To, class From>
void enqueue_copies(const leat::gpu::StreamRef& stream, const Case& c, To to, From from,
                    std::size_t first, std::size_t step) {
  for (std::size_t i = first; i < c.copies; i += step) {
    leat::gpu::copy_async(stream, to.subspan(i * c.bytes, c.bytes),
                          from.subspan(i * c.bytes, c.bytes));
  }
}

// The same, c.tensors in one call.
template <class Copy, class To, class From>
void enqueue_batches(const leat::gpu::StreamRef& stream, const Case& c, To to, From from) {
  std::array<Copy, kMostCopies> batch;
  for (std::size_t first = 0; first < c.copies; first += c.tensors) {
    for (std::size_t i = 0; i < c.tensors; ++i) {
      const std::size_t at = (first + i) * c.bytes;
      batch[i] = {to.subspan(at, c.bytes), from.subspan(at, c.bytes)};
    }
    leat::gpu::copy_async(stream, std::span<const Copy>(batch.data(), c.tensors));
  }
}

void enqueue(const leat::gpu::StreamRef& stream, const Case& c, const LinkMemory& memory,
             leat::gpu::PinnedSpan host, std::size_t first, std::size_t step) {
  if (c.h2d && c.batched) {
    enqueue_batches<leat::gpu::CopyToDevice>(stream, c, memory.device(), host);
  } else if (c.batched) {
    enqueue_batches<leat::gpu::CopyToHost>(stream, c, host, memory.device());
  } else if (c.h2d) {
    enqueue_copies(stream, c, memory.device(), host, first, step);
  } else {
    enqueue_copies(stream, c, host, memory.device(), first, step);
  }
}

// Seconds that the copies took on the device. `units` of compute run beside; sets `covered` to
// whether they lasted.
double sample(Lab& lab, const Case& c, std::int64_t units, bool& covered) {
  const leat::gpu::PinnedSpan host = lab.memory.host(c.kind);
  const bool held = c.kind != HostKind::kPageable;
  Load* const load = c.under_compute ? &lab.load() : nullptr;
  if (held) lab.hold.close(load != nullptr ? load->stream() : lab.first);
  if (load != nullptr) {
    load->enqueue();
    lab.compute_runs.record(load->stream());  // the first unit is over, the second begins
    for (std::int64_t i = 0; i < units; ++i) load->enqueue();
    lab.compute_end.record(load->stream());
    lab.first.wait(lab.compute_runs);
  }
  lab.start.record(lab.first);
  if (c.two_streams) {
    lab.second.wait(lab.start);
    enqueue(lab.first, c, lab.memory, host, 0, 2);
    enqueue(lab.second, c, lab.memory, host, 1, 2);
    lab.second_done.record(lab.second);
    lab.first.wait(lab.second_done);
  } else {
    enqueue(lab.first, c, lab.memory, host, 0, 1);
  }
  lab.end.record(lab.first);
  if (held) lab.hold.open();
  lab.end.sync();
  if (load != nullptr) {
    covered = !lab.compute_end.is_done();
    lab.compute_end.sync();
    covered = covered || leat::gpu::elapsed(lab.start, lab.compute_end) >=
                             leat::gpu::elapsed(lab.start, lab.end);
  }
  return seconds(leat::gpu::elapsed(lab.start, lab.end));
}

void refill(Lab& lab, const Case& c) {
  ++lab.seed;
  if (c.h2d) {
    LinkMemory::fill(lab.memory.host(c.kind), c.total(), lab.seed);
  } else {
    lab.memory.fill_device(c.total(), lab.seed);
  }
}

bool arrived(Lab& lab, const Case& c) {
  return c.h2d ? lab.memory.device_is(c.total(), lab.seed)
               : lab.memory.host_is(c.kind, c.total(), lab.seed);
}

void run(benchmark::State& state, Lab& lab, const Case& c) {
  bool covered = true;
  refill(lab, c);
  // Warm-up; and how many units of compute are longer than the copies.
  sample(lab, c, 2, covered);
  double expected = sample(lab, c, 2, covered);
  std::int64_t units = 0;
  const auto enough = [&] {
    const double needed = 1.5 * expected / seconds(lab.load().unit());
    return std::min(static_cast<std::int64_t>(needed) + 3, kMostUnits);
  };
  if (c.under_compute) {
    state.SetLabel(lab.load().name());
    units = enough();
    for (int tries = 0; tries < 5; ++tries) {
      expected = std::max(expected, sample(lab, c, units, covered));
      units = std::max(units, enough());
    }
  }
  std::vector<double> samples;
  samples.reserve(static_cast<std::size_t>(state.max_iterations));
  std::int64_t taken = 0;  // of which those count that compute, where it is asked for, lasted for
  std::int64_t again = 0;  // what it took besides
  Allocations refilling;   // what the last refill allocates is not the copies'
  Allocations refilled;
  const Allocations before;
  while (state.KeepRunning()) {
    if (++taken == static_cast<std::int64_t>(state.max_iterations)) {
      refilling = Allocations();
      refill(lab, c);  // the last samples' data are no earlier one's
      refilled = Allocations();
    }
    double took = sample(lab, c, units, covered);
    // A machine busy with others may have slowed the copies alone: again, beside more of it.
    for (int tries = 0; !covered && tries < 4; ++tries) {
      units = std::min(2 * units, kMostUnits);
      took = sample(lab, c, units, covered);
      ++again;
    }
    state.SetIterationTime(took);
    if (covered) samples.push_back(took);
  }
  Allocations begin = before;
  begin.heap += refilled.heap - refilling.heap;
  begin.cuda.events += refilled.cuda.events - refilling.cuda.events;
  count_allocations(state, lab.device, begin,
                    static_cast<double>(taken + again) * static_cast<double>(c.copies));
  if (!arrived(lab, c)) return fail(state, "wrong data");
  if (lab.hold.expired()) return fail(state, "a hold was not opened in time");
  if (2 * static_cast<std::int64_t>(samples.size()) < taken) {
    return fail(state, "compute ended before the copies");
  }
  const auto gigabytes = static_cast<double>(c.total()) * 1e-9;
  state.counters["GB_per_s"] = gigabytes / quantile(samples, 0.5);
  state.counters["slowest"] = gigabytes / quantile(samples, 1);
  state.counters["copies"] = static_cast<double>(c.copies);
  state.counters["samples"] = static_cast<double>(samples.size());
}

std::string size_name(std::size_t bytes) {
  return bytes >= kMiB ? std::to_string(bytes / kMiB) + "MiB"
                       : std::to_string(bytes / kKiB) + "KiB";
}

// The largest size that this machine has memory for, at most 512 MiB.
std::size_t largest_size(const leat::gpu::Device& device, bool quick) {
  if (quick) return 4 * kMiB;
  std::size_t available = 0;  // of the host
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key, rest; meminfo >> key && std::getline(meminfo, rest);) {
    if (key == "MemAvailable:") available = std::stoull(rest) * kKiB;
  }
  std::size_t size = 512 * kMiB;
  // Two pieces on the host, one on the device, which may be the host: half is left to others.
  while (size > 4 * kMiB && (6 * size > available || 2 * size > device.info().memory_bytes)) {
    size /= 2;
  }
  if (size < 512 * kMiB) {
    std::fprintf(stderr, "sizes above %s are left out: there is not enough memory\n",
                 size_name(size).c_str());
  }
  return size;
}

void add(const leat::gpu::Device& device, const Options& options) {
  const std::size_t largest = largest_size(device, options.quick);
  // Made by the first benchmark that runs: listing them takes no memory.
  const auto lab = std::make_shared<std::unique_ptr<Lab>>();
  const auto add_case = [&](Case c, const std::string& name) {
    if (c.bytes > largest) return;
    const std::size_t most = std::min(kSample, largest) / c.bytes;
    c.copies = c.tensors != 0
                   ? std::min(kGroups, std::max<std::size_t>(most / c.tensors, 1)) * c.tensors
                   : std::clamp<std::size_t>(most, 1, kMostCopies);
    if (c.total() > largest) return;
    const std::string row = std::string(c.h2d ? "h2d/" : "d2h/") + to_string(c.kind) + "/" + name;
    benchmark::RegisterBenchmark(row.c_str(),
                                 [lab, device, largest, c](benchmark::State& state) {
                                   guarded(state, [&] {
                                     if (*lab == nullptr) {
                                       *lab = std::make_unique<Lab>(device, largest);
                                     }
                                     run(state, **lab, c);
                                   });
                                 })
        ->UseManualTime()
        ->Iterations(options.quick ? 5 : 15)
        ->Unit(benchmark::kMicrosecond);
  };

  const auto sizes = options.quick ? std::vector<std::size_t>{4 * kKiB, 256 * kKiB, 4 * kMiB}
                                   : std::vector<std::size_t>{
                                         4 * kKiB, 16 * kKiB, 64 * kKiB, 256 * kKiB, 1 * kMiB,
                                         4 * kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB, 512 * kMiB};
  for (const HostKind kind : {HostKind::kPageable, HostKind::kPinned, HostKind::kWriteCombined,
                              HostKind::kArena, HostKind::kShared}) {
    for (const bool h2d : {true, false}) {
      const Case base{.h2d = h2d, .kind = kind};
      const auto with = [&](std::size_t bytes) {
        Case c = base;
        c.bytes = bytes;
        return c;
      };
      for (const std::size_t bytes : sizes) add_case(with(bytes), size_name(bytes) + "/alone");
      if (kind != HostKind::kPinned && kind != HostKind::kArena) continue;
      for (const std::size_t bytes : {64 * kKiB, 4 * kMiB, 64 * kMiB}) {
        Case c = with(bytes);
        c.two_streams = true;
        add_case(c, size_name(bytes) + "/two_streams");
      }
      for (const std::size_t bytes : {64 * kKiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}) {
        Case c = with(bytes);
        c.under_compute = true;
        add_case(c, size_name(bytes) + "/under_compute");
      }
      for (const auto& [tensors, bytes] : {std::pair<std::size_t, std::size_t>{16, 4 * kKiB},
                                           {16, 64 * kKiB},
                                           {16, 1 * kMiB},
                                           {8, 8 * kMiB}}) {
        for (const bool batched : {false, true}) {
          Case c = with(bytes);
          c.tensors = tensors;
          c.batched = batched;
          add_case(c, std::to_string(tensors) + "x" + size_name(bytes) +
                          (batched ? "/batched" : "/separate"));
        }
      }
    }
  }
  // Of a small one: it says the same of where the pages are.
  for (const auto& [name, sharing] : {std::pair{"arena", leat::gpu::PageSharing::kPrivate},
                                      {"memfd", leat::gpu::PageSharing::kShared}}) {
    const leat::gpu::PinnedArena arena(device, std::min(largest, 64 * kMiB), sharing);
    benchmark::AddCustomContext(name, placement_of(arena));
  }
}

}  // namespace

int main(int argc, char** argv) { return run_on_device(argc, argv, &add); }
