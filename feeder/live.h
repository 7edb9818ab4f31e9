// A prefetcher's figures in a terminal, while it runs.
//
// Example
//   Prefetcher feed(data, device, {.batch_size = 64, .live = Live{}});
//   for (auto& batch : feed.epoch(0, stream)) ...
//
//   cuda:0  epoch 2  ████▏              1204 of 5000 (24 %)   333 steps/s   ETA 0:11
//     reader █████▍    67 % ─► copier ██▋       33 % ─► consumer ████████ 100 % ◄
//     21.3 k samples/s   1.33 GB/s   slots: 2 of 4 filled, 1 of 2 ready
//     copy                ██████           ▓▓▓▓▓▓            ██████           ▓▓▓▓▓▓
//     compute ██████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓██████████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
//     OE 1.000   Tstep 3.00 ms   Tc 3.00 ms   Tx 1.00 ms   bubble 0.00 ns
//     The consumer limits the loop (Tc is 100.0 % of the step): reading and copying
//     are hidden behind it, and only a faster step helps.
//
// A bar is a stage's busy share of the step (feeder/stats.h); the stage with the mark is what keeps
// the step from being shorter. The lanes are four mean steps: where the copy of the next batch
// overlaps the work on this one. Rates are from release to release over the latest second, or the
// latest four steps where these take longer, and "?" before there was a step; the other figures are
// of about the last second, or of the latest steps that were sampled. All in the time of the steps,
// which a program's scheduler may have made virtual; when it is shown is real time.
#pragma once

#include <cstdint>

namespace leat::feeder {

/// Where to show it, and what of. A thread of the prefetcher's own writes, and never waits for who
/// reads: what cannot be written at once is left out.
///
/// On a terminal it is a block that is drawn anew ten times a second, as wide as the terminal but
/// at most 120 columns, and at least a line shorter; what there is no room for is left out, and of
/// less than 40 columns it is one short line. With colours unless NO_COLOR is set, in ASCII unless
/// the locale's name (LC_ALL, LC_CTYPE, or LANG) has "utf-8" or "utf8" in it, in any letter case.
/// What the program itself prints to the same terminal meanwhile is drawn over. Of several
/// prefetchers of a process the first has the terminal to itself, and one that begins later shows
/// nothing until that has ended. Anywhere else, or where TERM is unset, empty, or "dumb", it is one
/// plain line a second for each device. When the prefetcher ends, what it was by then stays.
struct Live {
  /// The standard error. Stays the caller's; must be open for writing, for as long as the
  /// prefetcher lives.
  int fd = 2;
  /// Batches that the loop is to have of this prefetcher, on each device: what progress and the
  /// time left are of. 0: those of an epoch.
  std::uint64_t batches = 0;
};

}  // namespace leat::feeder
