// All constants of the core that were chosen by measurement, each with its meaning and benefit.
//
// The figures are of bench/csp on a machine with two CPUs: from ./run bench techniques
// (bench/results/csp.md, "What each technique buys"), or from the change that brought the constant.
// A constant without a figure has none on record.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "leat/csp/base/hooks.h"
#include "leat/csp/clock.h"

namespace leat::tuning {

// ---- Which worker runs a fiber that was woken

/// The length from which slices count as long: a worker with long slices hands woken fibers to idle
/// workers. Slices of 2 to 7 us take longer on two workers than on one.
inline constexpr Duration kLongSlice = std::chrono::microseconds(7);
/// How long a worker leaves a handoff to the worker that ran the fiber last, before it takes the
/// fiber back. Two fibers that copy buffers of 256 KiB: 1.5 times as fast with two workers.
inline constexpr Duration kHandoffGrace = std::chrono::microseconds(1);
/// Fibers in a row from the run-next slot or the handoff while others stand in the ring. Without a
/// bound, two pairs of fibers that wake each other starve the ring.
inline constexpr int kLongestStreak = 64;
/// The same where slices are long.
inline constexpr int kLongestStreakOfLong = 16;

// ---- When a worker takes fibers from another one's ring (Worker::is_worth_stealing)
//
// Stealing too soon costs more than it gains: two senders and a select woke a second worker again
// and again, at 5 us of the first worker's time each. Contended cache lines make slices longer,
// which makes a steal look more worthwhile than it is.

/// A ring with this many fibers or more is not small.
inline constexpr std::uint32_t kSmallQueue = 16;
/// A small ring is stolen from when it has stood still for this long behind one fiber.
inline constexpr Duration kStealAfterFew = std::chrono::microseconds(4);
/// A larger ring, or a ring whose owner runs other fibers, is left alone for this long: its owner
/// may be filling it, or about to run it.
inline constexpr Duration kStealAfterMany = std::chrono::microseconds(50);
/// After that, a ring that moves is stolen from if its owner would need this long for the rest.
inline constexpr Duration kStealPayoff = std::chrono::microseconds(100);
/// The time between two looks at a ring: if it stood still or was empty, and if it moved. A look
/// costs the ring's owner a cache line for each of the next push, pop and switch. Where a spinner
/// looked at each of its polls, a sieve of 500 primes took 1.2 to 1.4 times as long with two
/// workers, and waves of 256 launches 1.0 to 1.3 times; a sieve of 2,000 took 0.8 to 1.0 times as
/// long.
inline constexpr Duration kLookAtStill = std::chrono::microseconds(1);
inline constexpr Duration kLookAtMoving = std::chrono::microseconds(10);

// ---- How long a waiting thread spins before it sleeps

/// The time that a thread spins. A sleep and a wake-up cost about as much. A value from a plain
/// thread to a fiber takes 4.7 (one worker) and 5.3 times (two) as long without it.
inline constexpr Duration kSpin = std::chrono::microseconds(50);
/// The same for a plain thread. The explorer has none that spins.
inline constexpr Duration kSpinOfThreads = kExploring ? Duration::zero() : kSpin;
/// A thread spins if its last sleep was shorter than this. Longer than kSpin, because a wake-up may
/// be late.
inline constexpr Duration kShortSleep = 4 * kSpin;

// ---- How often a worker looks beyond its own queues

/// Switches from one look at the timers and the global queue to the next. Go has the same number.
inline constexpr int kLookOutsideEvery = 61;
/// Switches from one reading of the clock to the next; twice as many while slices stay short.
inline constexpr int kSampleEvery = 7;
/// How often the monitor looks for a stalled worker. It looks without leaving its sleep: that
/// change made ping-pong 2.5 times as fast with two workers, ring and sieve 1.6 times.
inline constexpr Duration kMonitorPeriod = std::chrono::microseconds(50);
/// Looks in a row without a switch anywhere, after which there is no monitor.
inline constexpr int kQuietLooks = 4;

/// How often stuck fibers are looked at, in the time after which they are a deadlock.
inline constexpr int kLooksBeforeDeadlock = 10;

// ---- When a fiber gives way that never waits
//
// Tokio has a budget of 128 operations. A channel's takes some 6 ns here, so there may be more.

/// A channel counts its sends when its ring begins anew, once in about so many. A power of two.
inline constexpr std::uint64_t kTransfersPerCount = 1024;
/// Operations after which a fiber gives way, if no other fiber has run on its worker meanwhile.
inline constexpr std::uint32_t kOperationsOfASlice = 2 * kTransfersPerCount;

// ---- Stocks

/// Fiber ids that a worker reserves at a time.
inline constexpr std::uint64_t kIdBlock = 64;
/// Fibers that move at a time between the pool and a worker's cache. Few enough to be found in the
/// CPU's cache by their launcher.
inline constexpr int kFiberBatch = 64;
/// Stacks that a worker keeps for the next fibers.
inline constexpr int kMostCachedStacks = 32;
/// How many stacks of other sizes than the default a scheduler keeps, and up to which size. Pages
/// that fibers have touched, at most the product, stay committed until the scheduler ends.
inline constexpr int kMostOtherStacks = 32;
inline constexpr std::size_t kLargestOtherStack = std::size_t{1} << 20;
/// How long a thread of the I/O pool waits for the next call before it ends.
inline constexpr Duration kIdleIoThread = std::chrono::seconds(5);

// ---- Waiting for a thread that needs some nanoseconds, unless it has lost its CPU

/// Pauses of the first burst on a lock that is taken, and of the longest: each burst is twice as
/// long as the one before, which leaves the cache line to the lock's holder.
inline constexpr int kFirstPauses = 4;
inline constexpr int kMostPauses = 1024;
/// Pauses after which the lock's holder has most likely lost its CPU.
inline constexpr int kPausesBeforeYield = 20'000;
/// Looks at a fiber's context that is being saved, after which the thread that saves the context
/// has most likely lost its CPU.
inline constexpr int kPollsBeforeYield = kExploring ? 0 : 1000;

}  // namespace leat::tuning
