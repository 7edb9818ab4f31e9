// What the machine itself takes: for the parts of which a runtime is made, and for double buffering
// by threads that never sleep. For comparison with what the other benchmarks of csp/ measure; no
// fiber runs here. Where there is an argument "workers", it is the number of threads. FutexWake, in
// latency_bench.cpp, is one more.

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "bench/csp/measure.h"
#include "bench/peers/csp/items.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/fiber/context_jump.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/fiber/stack.h"

namespace {

/// A lock that nobody else wants is taken and dropped: the least that an operation on a channel
/// costs which changes it.
void lock_unlock(benchmark::State& state) {
  leat::SpinLock lock;
  std::uint64_t value = 0;
  for (auto _ : state) {
    lock.lock();
    benchmark::DoNotOptimize(++value);
    lock.unlock();
  }
}
BENCHMARK(lock_unlock)->Name("LockUnlock")->UseRealTime();

/// Stacks in a ring, each of which switches to the next.
class Stacks {
 public:
  explicit Stacks(std::size_t count) : contexts_(count) {
    for (Member& member : contexts_) {
      member.stacks = this;
      member.stack = pool_.allocate(0);
      member.next = &(&member == &contexts_.back() ? contexts_.front() : *(&member + 1)).context;
      member.context.prepare(member.stack, &run, &member);
    }
    base_.adopt_current_thread();
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() {
    for (Member& member : contexts_) {
      member.context.discard();
      pool_.release(member.stack);
    }
  }

  /// So many switches, one to go there and one to come back among them.
  void switch_times(std::int64_t count) {
    left_ = count;
    base_.switch_to(*at_, exceptions_);
  }

 private:
  struct Member {
    Stacks* stacks = nullptr;
    leat::StackSpan stack;
    leat::Context context;
    leat::Context* next = nullptr;
  };

  [[noreturn]] static void run(void* argument) {
    auto& self = *static_cast<Member*>(argument);
    Stacks& all = *self.stacks;
    for (;;) {
      const bool last = --all.left_ <= 1;
      if (last) all.at_ = &self.context;
      self.context.switch_to(last ? all.base_ : *self.next, all.exceptions_);
    }
  }

  leat::StackPool pool_{std::size_t{256} << 10};
  std::vector<Member> contexts_;
  leat::Context base_;
  leat::Context::ExceptionState* exceptions_ = leat::Context::exceptions_of_thread();
  leat::Context* at_ = &contexts_.front().context;
  std::int64_t left_ = 0;
};

/// From stack to stack, round a ring of so many, with nothing else in between.
void bare_switch(benchmark::State& state) {
  Stacks stacks(static_cast<std::size_t>(state.range(0)));
  constexpr std::int64_t kAtOnce = 10'000;
  while (state.KeepRunningBatch(kAtOnce)) stacks.switch_times(kAtOnce);
}
BENCHMARK(bare_switch)->Name("BareSwitch")->Arg(2)->Arg(1000)->UseRealTime();

/// A million fibers' memory, asked of the system as the runtime does and written to for the first
/// time, a word in each page. An operation is the part of one fiber.
void first_touch(benchmark::State& state) {
  constexpr std::size_t kSlab = std::size_t{2} << 20;
  constexpr std::size_t kPage = 4096;
  constexpr std::int64_t kFibers = 1'000'000;
  constexpr std::size_t kSlabs = (kFibers * sizeof(leat::Fiber) + kSlab - 1) / kSlab;
  struct Free {
    void operator()(std::byte* slab) const { operator delete(slab, std::align_val_t(kSlab)); }
  };
  while (state.KeepRunningBatch(kFibers)) {
    std::vector<std::unique_ptr<std::byte[], Free>> slabs;
    for (std::size_t i = 0; i < kSlabs; ++i) {
      auto* const slab = static_cast<std::byte*>(operator new(kSlab, std::align_val_t(kSlab)));
      slabs.emplace_back(slab);
      madvise(slab, kSlab, MADV_HUGEPAGE);
      for (std::size_t at = 0; at < kSlab; at += kPage) slab[at] = std::byte{1};
      benchmark::ClobberMemory();
    }
    state.PauseTiming();
    slabs.clear();
    state.ResumeTiming();
  }
}
BENCHMARK(first_touch)->Name("FirstTouch")->UseRealTime();

using peer::Buffer;
using peer::copy;

Buffer buffer_of(std::int64_t kib) {
  return Buffer((static_cast<std::size_t>(kib) << 10) / sizeof(std::uint64_t), 1);
}

/// A count that one thread raises and another waits for.
struct alignas(64) Count {
  std::atomic<std::int64_t> value{0};
  void wait_for(std::int64_t least) const {
    while (value.load(std::memory_order_acquire) < least) leat::cpu_relax();
  }
  void set(std::int64_t to) { value.store(to, std::memory_order_release); }
};

/// What DoubleBuffer does with one pair, by a thread that makes both copies in turn, or by two that
/// hand the buffers over and look out for each other all the time.
void hand_off(benchmark::State& state) {
  const bool alone = state.range(1) == 1;
  Buffer source = buffer_of(state.range(0));
  Buffer target = source;
  std::array<Buffer, 2> between{source, source};
  peer::EndsInOrder received;
  const auto fill = [&](std::int64_t i) {
    source.front() = source.back() = static_cast<std::uint64_t>(i);
    copy(between[static_cast<std::size_t>(i % 2)], source);
  };
  const auto drain = [&](std::int64_t i) {
    copy(target, between[static_cast<std::size_t>(i % 2)]);
    received.add(target.front(), target.back());
  };
  const auto n = static_cast<std::int64_t>(state.max_iterations);
  while (state.KeepRunningBatch(n)) {
    if (alone) {
      for (std::int64_t i = 0; i < n; ++i) {
        fill(i);
        drain(i);
      }
      continue;
    }
    Count filled;
    Count drained;
    const std::jthread consumer([&] {
      for (std::int64_t i = 0; i < n; ++i) {
        filled.wait_for(i + 1);
        drain(i);
        drained.set(i + 1);
      }
    });
    for (std::int64_t i = 0; i < n; ++i) {
      drained.wait_for(i - 1);
      fill(i);
      filled.set(i + 1);
    }
    drained.wait_for(n);
  }
  bench::check(state, received.are(n));
}
BENCHMARK(hand_off)
    ->Name("HandOff")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{64, 256, 1024, 4096, 16384}, {1, 2}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

/// Two threads make one copy each, of buffers that are theirs alone: what the second CPU brings
/// where nothing is handed over.
void copy_apart(benchmark::State& state) {
  std::array<Buffer, 2> from{buffer_of(state.range(0)), buffer_of(state.range(0))};
  std::array<Buffer, 2> to = from;
  const auto n = static_cast<std::int64_t>(state.max_iterations);
  while (state.KeepRunningBatch(n)) {
    const auto work = [&](std::size_t i) {
      for (std::int64_t turn = 0; turn < n; ++turn) copy(to[i], from[i]);
    };
    const std::jthread other(work, 1);
    work(0);
  }
}
BENCHMARK(copy_apart)
    ->Name("CopyApart")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{64, 256, 1024, 4096, 16384}, {2}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
