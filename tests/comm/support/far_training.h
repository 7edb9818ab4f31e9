// Training with gradients on a device: all results are those of a plain loop.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>

#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/device.h"
#include "tests/comm/support/far_memory.h"
#include "tests/comm/support/training.h"

namespace leat::comm::support {

/// The steps of the plan on this rank. `syncs`: each step begins once what was written is there; of
/// what is empty no event tells.
inline void train_far(Communicator& me, Plan plan, const gpu::Device& device, bool syncs) {
  plan.options.device = device;
  FarMemory memory(device, plan);
  const auto rank = static_cast<std::size_t>(me.rank());
  GradientExchange exchange(me, memory.gradients, plan.options);
  std::mt19937 random(plan.seed + static_cast<std::uint32_t>(rank));
  for (std::size_t step = 0; step < plan.steps.size(); ++step) {
    const Plan::Step& what = plan.steps[step];
    for (std::size_t i = 0; i < memory.gradients.size(); ++i) {
      memory.write(i, gradient_of(plan, me.rank(), step, i));
    }
    if (syncs) memory.stream.sync();
    exchange.begin_step(what.samples[rank]);
    for (const std::size_t i : shuffled(memory.gradients.size(), random)) {
      if (what.is_given[rank][i]) exchange.ready(i, memory.stream);
    }
    exchange.end_backward();
    for (const std::size_t i : shuffled(memory.gradients.size(), random)) {
      const bool any = exchange.await(i, memory.stream);
      EXPECT_EQ(any, has_result(plan, step, i));
      EXPECT_TRUE(memory.read(i) ==
                  (any ? result_of(plan, step, i) : gradient_of(plan, me.rank(), step, i)))
          << "rank " << rank << ", step " << step << ", tensor " << i;
    }
  }
}

}  // namespace leat::comm::support
