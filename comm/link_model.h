// The model of a link between the ranks of "local": how long operations take. With a VirtualClock
// it is an exact simulator; in real time operations end no earlier than it says.
//
// Collectives share one link. A collective begins once all ranks have called it and the link is
// free; the first that all have called begins first. It takes alpha + v / bandwidth, for s bytes on
// n ranks:
//
// | operation                   | v              |
// |-----------------------------|----------------|
// | all_reduce                  | 2 (n-1)/n * s  |
// | reduce_scatter, all_gather  | (n-1)/n * s    |
// | broadcast                   | s              |
// | barrier                     | 0              |
//
// A send of s bytes begins once its recv is called, and the sender's outgoing and the receiver's
// incoming line are free. It takes alpha + s / bandwidth on both lines. Notices between ranks (who
// is ready, what comes next) take delta, and do not use the link.
#pragma once

#include "leat/csp/clock.h"

namespace leat::comm {

/// The figures of the link; the default is no model. A value.
struct LinkModel {
  /// Bytes per second, at least 0; 0: bytes take no time.
  double bandwidth = 0;
  /// Time of each operation besides its bytes; at least 0.
  Duration alpha = Duration::zero();
  /// Time of each notice; at least 0.
  Duration delta = Duration::zero();
  /// Whether operations take the time above. If false, all figures must be 0.
  bool enabled = false;
  /// Whether bytes are moved and summed. If false, no memory is touched, and the spans may be of
  /// memory that does not exist: for simulations of models that do not fit here.
  bool moves_data = true;
};

}  // namespace leat::comm
