// Usage: same_bits local:N   or   mpirun ... same_bits mpi
//
// Sums of random bits, sizes and types, weighted too; each rank prints "<rank> <digest of all
// results>". Then the same few operations again and again: they allocate nothing, or the program
// says so and fails.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/completion.h"
#include "leat/comm/gradient_exchange.h"
#include "tests/support/counting_new.h"

namespace {

using namespace leat::comm;
using leat::gpu::DType;

constexpr int kCases = 60;

// FNV-1a.
void digest(std::uint64_t& hash, const std::vector<std::byte>& bytes) {
  for (const std::byte one : bytes) hash = (hash ^ std::to_integer<unsigned>(one)) * 1099511628211U;
}

// A number that all of its bytes may be, but no NaN: which NaN a sum has is the machine's choice.
void fill(std::vector<std::byte>& bytes, DType dtype, std::mt19937_64& random) {
  const std::size_t size = leat::gpu::size_of(dtype);
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    std::uint64_t bits = random();
    if (dtype == DType::kFloat32) bits &= ~(std::uint64_t{1} << 30);
    if (dtype == DType::kFloat64) bits &= ~(std::uint64_t{1} << 62);
    if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) bits &= ~(std::uint64_t{1} << 14);
    std::memcpy(bytes.data() + at, &bits, size);
  }
}

void run(Communicator& me) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32,
                              DType::kInt64,   DType::kFloat16, DType::kBFloat16};
  std::mt19937_64 shared(7);  // the same on all ranks
  std::mt19937_64 own(100 + static_cast<std::uint64_t>(me.rank()));
  auto pool = std::make_shared<leat::gpu::Pool<CompletionState>>();
  std::uint64_t hash = 14695981039346656037U;
  for (int i = 0; i < kCases; ++i) {
    const DType dtype = kTypes[shared() % std::size(kTypes)];
    const std::uint64_t count = shared() % (std::uint64_t{1} << (shared() % 20));
    const bool is_weighted = shared() % 2 == 0;
    const auto reduction = shared() % 4 == 0 ? Reduction::kMax : Reduction::kSum;
    const auto absent = static_cast<int>(shared() % 8);  // a rank that adds nothing, or none
    std::vector<std::byte> in(count * leat::gpu::size_of(dtype));
    std::vector<std::byte> out(in.size());
    fill(in, dtype, own);
    if (!is_weighted) {
      me.all_reduce(ConstElements(in.data(), count, dtype), Elements(out.data(), count, dtype),
                    reduction)
          .await();
    } else {
      Operation sum;
      sum.signature = {.kind = OperationKind::kAllReduce,
                       .dtype = dtype,
                       .is_weighted = true,
                       .count = count,
                       .number = std::uint64_t{1} << 40 | static_cast<std::uint64_t>(i)};
      sum.in = me.rank() == absent ? nullptr : in.data();
      sum.out = out.data();
      sum.samples = me.rank() == absent ? 0 : own() % 100;
      CompletionState::Ref state = pool->take();
      CompletionState::begin(state, me.transport(), sum);
      Completion(std::move(state)).await();
    }
    digest(hash, out);
  }
  std::printf("%d %016llx\n", me.rank(), static_cast<unsigned long long>(hash));
}

// All ranks run it as often.
std::size_t allocations_when_warm(const Communicator& me) {
  std::vector<float> small(10);
  std::vector<float> large(100'000);
  std::vector<float> first(1'000);
  std::vector<float> second(7);
  const auto span = [](std::vector<float>& data) {
    return leat::gpu::DeviceSpan(data.data(), data.size() * sizeof(float));
  };
  GradientExchange exchange(me, {{"a", span(first)}, {"b", span(second)}},
                            {.partition_bytes = 400, .credit_bytes = 1'000});
  return leat::support::allocations_of([&] {
    for (int i = 0; i < 30; ++i) {
      me.all_reduce(small).await();
      me.all_reduce(large).await();
      const int next = (me.rank() + 1) % me.size();
      const int previous = (me.rank() + me.size() - 1) % me.size();
      Completion received = me.recv(first, previous, 1);
      me.send(std::span(large).first(1'000), next, 1).await();
      received.await();
      exchange.begin_step(1);
      exchange.ready(1);
      exchange.ready(0);
      exchange.end_backward();
      exchange.await_all();
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::atomic<std::size_t> allocated = 0;
  std::vector<std::jthread> ranks;
  for (Communicator& one : open(argv[1])) {
    ranks.emplace_back([me = std::move(one), &allocated]() mutable {
      run(me);
      allocated += allocations_when_warm(me);
    });
  }
  ranks.clear();  // joins
  if (allocated == 0) return 0;
  std::printf("%zu allocations of operations that are warm\n", allocated.load());
  return 1;
}
