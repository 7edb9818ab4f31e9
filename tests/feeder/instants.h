// When each batch of an epoch was read, staged and done with: on a modelled device under virtual
// time, to be compared with arithmetic.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <ostream>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

// Counted from the start of the run.
struct Instants {
  Duration read = Duration::zero();
  Duration staged = Duration::zero();
  Duration done = Duration::zero();
  friend bool operator==(const Instants&, const Instants&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const Instants& at) {
  return out << "(r " << at.read.count() << ", c " << at.staged.count() << ", m " << at.done.count()
             << ")";
}

// Takes epoch 0, in which use(batch, stream) enqueues the consumer's kernel, and notes when each
// batch was staged and done with.
template <class Use>
void take_instants(Feed& feed, std::vector<Instants>& at, const Use& use) {
  const gpu::Device& device = feed.device();
  const gpu::Stream stream(device);
  const gpu::Stream probe(device);  // waits for the copies alone
  const gpu::Event start(device, gpu::Timing::kOn);
  start.record(probe);
  std::deque<gpu::Event> staged;
  for (Lease& batch : feed.epoch(0, stream)) {
    use(batch, stream);
    stream.launch_host([&done = at.at(batch.index()).done] { done = now().time_since_epoch(); });
    batch.on(probe);
    staged.emplace_back(device, gpu::Timing::kOn).record(probe);
  }
  stream.sync();
  probe.sync();
  ASSERT_EQ(staged.size(), at.size());
  for (std::size_t k = 0; k < at.size(); ++k) at[k].staged = elapsed(start, staged[k]);
}

}  // namespace leat::feeder
