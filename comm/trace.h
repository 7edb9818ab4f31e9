// A trace of exchanges: which piece was on the link when, for a timeline viewer.
//
// Example
//   const auto trace = std::make_shared<leat::comm::Trace>();
//   comm::GradientExchange exchange(communicator, gradients, {.trace = trace});
//   ...
//   trace->save("exchange.json");   // to be opened in Perfetto, or in chrome://tracing
//
// Each rank is a process of the timeline, with two rows. One shows the pieces on its link; the
// other shows its trainer's calls of ready() and await(). An arrow leads from a gradient's ready()
// over its first piece to the end of its await().
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "leat/csp/clock.h"

namespace leat::comm {

/// Records exchanges (ExchangeOptions::trace): of one rank, or of all ranks of this process. May
/// outlive them. Thread-safe.
class Trace {
 public:
  /// Allocates memory for `events` pieces and calls. Later ones are not recorded.
  explicit Trace(std::size_t events = 100'000);

  /// What was recorded so far, in the Trace Event Format of Perfetto and Chrome. Times are in
  /// microseconds since the first exchange was made.
  [[nodiscard]] std::string json() const;
  /// Writes json() to a file. Throws leat::Error, naming the file, if it cannot be written.
  void save(const std::filesystem::path& file) const;

  /// What happens to a gradient.
  enum class Kind : std::uint8_t { kReady, kPiece, kAwait };
  /// One record. Its times are of the clock of communication.
  struct Event {
    Kind kind = Kind::kReady;
    int rank = 0;
    std::uint32_t tensor = 0;  // of a bucket: its first
    std::uint32_t piece = 0;
    std::uint64_t step = 0;
    TimePoint begin;
    TimePoint end;
  };
  /// For exchanges: rank `rank` of the world exchanges gradients of these names, from `now` on.
  void add_rank(int rank, std::vector<std::string> names, TimePoint now);
  /// For exchanges. Allocates nothing.
  void add(const Event& event) noexcept;

 private:
  struct Rank {
    int rank = 0;
    std::vector<std::string> names;
  };

  mutable std::mutex mutex_;
  std::vector<Rank> ranks_;
  std::vector<Event> events_;  // never grows
  TimePoint origin_ = TimePoint::max();
};

}  // namespace leat::comm
