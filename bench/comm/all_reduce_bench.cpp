// An all-reduce between fibers of one process: the transport "local", and beside it the loop that
// it cannot do without, between two barriers. bench/peers/comm/peer.h says what is measured. Where
// there are several GPUs, also "nccl" in their memory, with the bus bandwidth that nccl-tests
// tells.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers/comm/peer.h"
#include "leat/comm/communicator.h"
#include "leat/comm/transports/reduce.h"
#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace {

// The transport "local".
class Local {
 public:
  explicit Local(const std::vector<std::vector<float>>& /*data*/, int ranks)
      : ranks_(leat::comm::open("local:" + std::to_string(ranks))) {}
  void all_reduce(std::size_t rank, std::vector<float>& data) {
    ranks_[rank].all_reduce(data).await();
  }

 private:
  const std::vector<leat::comm::Communicator> ranks_;
};

// The transport "nccl": the data is copied to the GPUs at first, and summed up there, again and
// again.
class Nccl {
 public:
  explicit Nccl(const std::vector<std::vector<float>>& data, int ranks)
      : ranks_(leat::comm::open("nccl:" + std::to_string(ranks))) {
    for (const leat::comm::Communicator& one : ranks_) {
      const std::size_t bytes = data.front().size() * sizeof(float);
      memory_.emplace_back(*one.device(), bytes);
      pinned_.emplace_back(*one.device(), bytes);
      streams_.emplace_back(*one.device());
      std::memset(pinned_.back().data(), 0, bytes);  // sums that stay finite
      copy_async(streams_.back(), memory_.back().span(), pinned_.back().span());
      streams_.back().sync();
    }
  }
  void all_reduce(std::size_t rank, std::vector<float>& /*data*/) {
    const leat::comm::Elements data(memory_[rank].span(), leat::comm::DType::kFloat32);
    ranks_[rank].all_reduce(data).await();
  }
  // The last operation, with data whose sum is known.
  void check(std::size_t rank, std::vector<float>& data) {
    const std::size_t bytes = data.size() * sizeof(float);
    std::memcpy(pinned_[rank].data(), data.data(), bytes);
    copy_async(streams_[rank], memory_[rank].span(), pinned_[rank].span());
    streams_[rank].sync();
    all_reduce(rank, data);
    copy_async(streams_[rank], pinned_[rank].span(), memory_[rank].span());
    streams_[rank].sync();
    std::memcpy(data.data(), pinned_[rank].data(), bytes);
  }

 private:
  const std::vector<leat::comm::Communicator> ranks_;
  std::vector<leat::gpu::DeviceBuffer> memory_;
  std::vector<leat::gpu::PinnedBuffer> pinned_;
  std::vector<leat::gpu::Stream> streams_;
};

// Each rank sums a chunk of all inputs into all outputs, between two barriers of channels.
class Bare {
 public:
  Bare(std::vector<std::vector<float>>& data, int ranks) : arrived_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      inputs_.push_back({.data = data[static_cast<std::size_t>(rank)].data()});
      outputs_.push_back(data[static_cast<std::size_t>(rank)].data());
      go_on_.emplace_back(1);
    }
  }
  void all_reduce(std::size_t rank, std::vector<float>& data) {
    barrier(rank);
    const std::size_t n = inputs_.size();
    leat::comm::reduce(leat::comm::DType::kFloat32, leat::comm::Reduction::kSum, inputs_, outputs_,
                       data.size() * rank / n, data.size() * (rank + 1) / n);
    barrier(rank);
  }

 private:
  // Rank 0 hears of all others, and lets them go on.
  void barrier(std::size_t rank) {
    if (rank > 0) {
      arrived_.send(0);
      static_cast<void>(go_on_[rank].recv());
      return;
    }
    for (std::size_t i = 1; i < go_on_.size(); ++i) static_cast<void>(arrived_.recv());
    for (std::size_t i = 1; i < go_on_.size(); ++i) go_on_[i].send(0);
  }

  std::vector<leat::comm::Input> inputs_;
  std::vector<void*> outputs_;
  const leat::Channel<char> arrived_;
  std::vector<leat::Channel<char>> go_on_;
};

// As many operations as the state asks for; rank 0 tells their median.
template <class Contestant>
void measure(benchmark::State& state, std::vector<std::vector<float>>& data) {
  Contestant contestant(data, static_cast<int>(data.size()));
  const auto n = static_cast<std::int64_t>(state.max_iterations);
  peer::Batches batches(n);
  leat::TaskGroup group;
  for (std::size_t rank = 1; rank < data.size(); ++rank) {
    group.go([&, rank] {
      for (std::int64_t i = -1; i < n; ++i) contestant.all_reduce(rank, data[rank]);
    });
  }
  group.go([&] {
    contestant.all_reduce(0, data[0]);  // the first one makes what later ones use again
    batches.begin();
    for (auto _ : state) {
      contestant.all_reduce(0, data[0]);
      batches.end_operation();
    }
  });
  group.wait();
  state.counters["median_ns"] = batches.median();
  if constexpr (requires { contestant.check(0, data[0]); }) {  // 2 (n - 1) / n · bytes / time
    const auto ranks = static_cast<double>(data.size());
    state.counters["busbw_GB/s"] = 2 * (ranks - 1) / ranks * sizeof(float) *
                                   static_cast<double>(data[0].size()) / batches.median();
  }

  leat::TaskGroup last;
  for (std::size_t rank = 0; rank < data.size(); ++rank) {
    last.go([&, rank] {
      peer::fill(static_cast<int>(rank), data[rank].data(), data[rank].size());
      if constexpr (requires { contestant.check(rank, data[rank]); }) {
        contestant.check(rank, data[rank]);
      } else {
        contestant.all_reduce(rank, data[rank]);
      }
      if (!peer::is_sum(static_cast<int>(data.size()), data[rank].data(), data[rank].size())) {
        state.SkipWithError("wrong result");
      }
    });
  }
  last.wait();
}

template <class Contestant>
void all_reduce(benchmark::State& state) {
  const auto elements = static_cast<std::size_t>(state.range(1)) / sizeof(float);
  std::vector<std::vector<float>> data(static_cast<std::size_t>(state.range(0)),
                                       std::vector<float>(elements));
  try {
    leat::run([&] { measure<Contestant>(state, data); }, {.workers = 2});
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

void arguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ranks", "bytes"})->UseRealTime();
  for (const int ranks : {2, 4}) {
    for (const int bytes :
         {4, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20}) {
      bench->Args({ranks, bytes});
    }
  }
}
BENCHMARK_TEMPLATE(all_reduce, Local)->Name("local")->Apply(arguments);
BENCHMARK_TEMPLATE(all_reduce, Bare)->Name("bare")->Apply(arguments);

// A row for as many GPUs as there are.
[[maybe_unused]] const bool has_nccl = [] {
  const std::vector<leat::gpu::DeviceInfo> all = leat::gpu::list().devices;
  const auto gpus = std::ranges::count_if(
      all, [](const leat::gpu::DeviceInfo& one) { return one.name.starts_with("cuda:"); });
  if (gpus < 2) return false;
  auto* const row = benchmark::RegisterBenchmark("nccl", &all_reduce<Nccl>);
  row->ArgNames({"ranks", "bytes"})->UseRealTime();
  for (std::int64_t bytes = 4; bytes <= 256 << 20; bytes *= 8) row->Args({gpus, bytes});
  row->Args({gpus, 256 << 20});
  return true;
}();

}  // namespace
