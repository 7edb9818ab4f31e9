// The errors of communication.
//
// | type | thrown when |
// |---|---|
// | CommError | a peer is late beyond the deadline, stopped, dead, or gave up; a transport failed |
// | CommMismatch | the ranks called different things, or one left while others wait |
// | std::logic_error, std::invalid_argument | this rank alone made a mistake; thrown at once |
//
// After a CommError (a CommMismatch is one) everything that came from the same comm::open() is
// dead: each call throws at once, with the same text. Open anew, or end the process.
#pragma once

#include <string>
#include <utility>

#include "leat/csp/error.h"

namespace leat::comm {

/// Why communication ended, for every rank of it. A value.
struct Failure {
  bool is_mismatch = false;
  int peer = -1;               ///< as CommError::peer()
  std::string operation = {};  ///< what was called, such as "all_reduce of 25 float32 (number 7)"
  std::string tensor = {};     ///< empty: of no tensor
  std::string what = {};       ///< one line: what happened, and what to do
};

/// A peer is late, stopped, dead or gave up. what() is one line: this rank, the peer, the
/// operation, and what to do.
class CommError : public Error {
 public:
  /// The error of `failure` on rank `rank`.
  CommError(int rank, Failure failure)
      : Error("leat: rank " + std::to_string(rank) + ": " + failure.what),
        rank_(rank),
        failure_(std::move(failure)) {}

  /// The rank on which the error was thrown, as open() counts, also on a communicator of split().
  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// The rank that is to blame, as open() counts: the first to differ, to leave or to fail. If this
  /// rank has waited for too long: the end of the chain of waits, which is a rank that does not
  /// answer, else one that answers and waits for nobody. -1: there is none.
  [[nodiscard]] int peer() const noexcept { return failure_.peer; }
  /// The operation that cannot end, with its number or step.
  [[nodiscard]] const std::string& operation() const noexcept { return failure_.operation; }
  /// The name of the tensor; empty if the operation is of none.
  [[nodiscard]] const std::string& tensor() const noexcept { return failure_.tensor; }

 private:
  int rank_;
  Failure failure_;
};

/// The ranks called different operations, or one has left while others wait. what() has the number
/// or step, the tensor, and what each rank called.
class CommMismatch : public CommError {
 public:
  using CommError::CommError;
};

/// Throws the exception of `failure` on rank `rank`.
[[noreturn]] void throw_failure(int rank, const Failure& failure);

}  // namespace leat::comm
