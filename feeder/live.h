// Shows the figures of a prefetcher in a terminal while it runs.
//
// Example
//   Prefetcher feed(data, device, {.batch_size = 64, .live = Live{}});
//   for (auto& batch : feed.epoch(0, stream)) ...
//
//   cuda:0   epoch 2   ██▋           1204 of 5000 (24 %)   333 steps/s   ETA 0:00:11
//     reader █████▍    67 % ─► copier ██▋       33 % ─► consumer ████████ 100 % ◄
//     21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
//     The consumer limits the loop (Tc is 100.0 % of the step): reading and copying
//     are hidden behind it, and only a faster step helps.
//     copy                ██████           ▓▓▓▓▓▓            ██████           ▓▓▓▓▓▓
//     compute ██████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓██████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
//     OE 1.000   Tstep 3.00 ms   Tc 3.00 ms   Tx 1.00 ms   bubble 0.00 ns
//
// | shown | meaning |
// |---|---|
// | bar of a stage | its busy share of the step (feeder/stats.h) |
// | ◄ | the stage that limits the loop |
// | OE, bubble | left out where the shorter of Tc and Tx is too short for them to say anything |
// | copy, compute | four mean steps: the copy of the next batch, beside the work on this one |
// | rates | from release to release, over the latest second or four steps, if these are longer |
// | other figures | figures of about the latest second, or of the latest sampled steps |
// | <=, >= | a bound: how long the device works is not known (Stats::t_c_is_upper_bound) |
// | ? | not known yet |
//
// Times are those of the loop's clock, which may be virtual. The view is drawn in real time.
#pragma once

#include <cstdint>

namespace leat::feeder {

/// Where to show a live view, and how many batches progress counts. A thread of the prefetcher
/// writes, and never waits: what cannot be written at once is left out.
///
/// | written to | shown |
/// |---|---|
/// | a terminal | a block of lines, drawn anew ten times a second |
/// | anything else; TERM is unset, empty or "dumb" | a plain line a second for each device |
///
/// When the prefetcher ends, the last state stays. The block is as wide as the terminal, but at
/// most 120 columns, and at least a line shorter than the terminal. What does not fit is left out,
/// except the stage that limits the loop. In less than 40 columns, one line remains. The block is
/// redrawn in place when the terminal changes its size; a new block begins after the process was
/// stopped for more than a second. While another job is in the foreground, nothing is drawn. It has
/// colours unless NO_COLOR is set. It is ASCII unless the locale (LC_ALL, LC_CTYPE or LANG) is a
/// UTF-8 one. The block overwrites other output of the program to the same terminal. If several
/// prefetchers write to one terminal, they are shown one after the other.
struct Live {
  /// The file descriptor to write to, by default standard error. The caller owns it, and keeps it
  /// open for writing while the prefetcher lives. The prefetcher's constructor throws
  /// std::invalid_argument if it is not.
  int fd = 2;
  /// Number of batches, on each device, after which progress is 100 %. 0: the batches of an epoch.
  std::uint64_t batches = 0;
};

}  // namespace leat::feeder
