// Rates of copies into a ring of slots: memcpy(), and past the CPU's caches (feeder/slots/copy.h).
//
// The rings have 1/8, 1/2, 1 and 2 times the size of the L3 cache. A slot has 128 records, which
// are picked at random out of a source four times as large as the L3 cache. reader:1: a second
// thread sums each slot, as a device would fetch it, while the next ones are filled. Each thread
// has a CPU of its own. The time is the CPU time of filling a slot, without waiting for one, so
// that other programs disturb it less. To compare the two ways, let them take turns:
//
//   bench_feeder_copy --benchmark_repetitions=9 --benchmark_enable_random_interleaving=true
//                     --benchmark_report_aggregates_only=true
#include "leat/feeder/slots/copy.h"

#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using namespace leat::feeder;

constexpr std::size_t kRecords = 128;  // of a slot
constexpr std::size_t kWord = sizeof(std::uint64_t);

std::size_t l3() { return l3_bytes() > 0 ? l3_bytes() : std::size_t{32} << 20; }

// Memory that is there: of small pages, as those of a mapped file, or of huge ones, as an arena's.
std::span<std::byte> map(std::size_t bytes, int advice) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory");
  madvise(memory, bytes, advice);
  std::memset(memory, 1, bytes);
  return {static_cast<std::byte*>(memory), bytes};
}

std::span<const std::byte> source() {
  static const std::span<const std::byte> all = [] {
    const std::span<std::byte> memory = map(4 * l3(), MADV_NOHUGEPAGE);
    std::mt19937_64 random(1);
    for (std::size_t at = 0; at + kWord <= memory.size(); at += kWord) {
      const std::uint64_t word = random();
      std::memcpy(memory.data() + at, &word, kWord);
    }
    return memory;
  }();
  return all;
}

std::uint64_t sum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + kWord <= bytes.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, kWord);
    sum += word;
  }
  return sum;
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The n-th of the CPUs that this process may use.
void pin(int n) {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return set;
  }();
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && n-- == 0) CPU_SET(cpu, &one);
  }
  if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) != 0) {
    throw std::runtime_error("there is one CPU; a reader needs a second");
  }
}

void copies(benchmark::State& state) {
  const auto record = static_cast<std::size_t>(state.range(0));
  const Stores stores = state.range(2) == 0 ? Stores::kCached : fastest_stores();
  const bool with_reader = state.range(3) != 0;
  const std::size_t slot_bytes = kRecords * record;
  const std::size_t slots =
      std::max<std::size_t>(2, l3() * static_cast<std::size_t>(state.range(1)) / 8 / slot_bytes);
  static const std::span<std::byte> all = map(2 * l3() + (std::size_t{64} << 20), MADV_HUGEPAGE);
  const std::span<std::byte> ring = all.first(slots * slot_bytes);
  const std::size_t records = source().size() / record;
  std::mt19937_64 random(2);
  std::vector<std::uint64_t> order(records);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);

  std::uint64_t filled = 0;
  const auto fill = [&] {
    const std::span<std::byte> slot = ring.subspan(filled % slots * slot_bytes, slot_bytes);
    for (std::size_t i = 0; i < kRecords; ++i) {
      const std::size_t from = order[(filled * kRecords + i) % records] * record;
      copy_bytes(slot.data() + i * record, source().subspan(from, record), stores);
    }
    return slot;
  };
  std::atomic<std::uint64_t> ready{0};
  std::atomic<std::uint64_t> read{0};
  std::atomic<bool> ends{false};
  std::uint64_t sum = 0;
  const auto sum_slots = [&] {
    pin(1);
    for (std::uint64_t at = 0;; ++at) {
      while (ready.load(std::memory_order_acquire) == at) {
        if (ends.load(std::memory_order_acquire) && ready.load() == at) return;
        std::this_thread::yield();
      }
      sum += sum_of(ring.subspan(at % slots * slot_bytes, slot_bytes));
      read.store(at + 1, std::memory_order_release);
    }
  };
  pin(0);
  for (; filled < slots; ++filled) fill();  // so that all begin with the same in the caches
  std::thread reader;
  if (with_reader) reader = std::thread(sum_slots);
  if (with_reader) ready.store(filled, std::memory_order_release);
  std::span<std::byte> last;
  for (auto _ : state) {
    while (with_reader && read.load(std::memory_order_acquire) + slots == filled) {
      std::this_thread::yield();
    }
    const double before = cpu_seconds();
    last = fill();
    state.SetIterationTime(cpu_seconds() - before);
    ready.store(++filled, std::memory_order_release);
  }
  ends.store(true, std::memory_order_release);
  if (reader.joinable()) reader.join();
  static std::map<std::size_t, std::vector<std::uint64_t>> all_sums;  // by record size
  std::vector<std::uint64_t>& sums = all_sums[record];
  for (std::size_t i = sums.size(); i < records; ++i) {
    sums.push_back(sum_of(source().subspan(i * record, record)));
  }
  std::uint64_t expected = 0;
  for (std::uint64_t n = with_reader ? 0 : filled - 1; n < filled; ++n) {
    for (std::size_t i = 0; i < kRecords; ++i)
      expected += sums[order[(n * kRecords + i) % records]];
  }
  if ((with_reader ? sum : sum_of(last)) != expected) state.SkipWithError("wrong bytes");
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(slot_bytes));
}

BENCHMARK(copies)
    ->ArgNames({"record", "L3_eighths", "past_cache", "reader"})
    ->ArgsProduct({{8192, 150'000}, {1, 4, 8, 16}, {0, 1}, {0, 1}})
    ->UseManualTime()
    ->MinTime(0.05);

}  // namespace
