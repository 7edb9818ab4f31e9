// The calls of MPI: headers of any rank, in order, and transfers of memory.
//
// Always true:
//  - One thread makes all calls, the constructor included.
//  - Receives of headers are posted in a ring, and their messages are taken in the order of the
//    ring. MPI matches in the order of posting, so the headers of one rank keep their order.
//  - If transfers have more bytes than a message carries, there is one at a time for each (rank,
//    tag, direction), because the messages of a transfer follow one another.
//
// Errors: every function throws leat::Error if MPI reports one.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "leat/comm/transports/mpi/message.h"
#include "leat/comm/transports/world.h"

namespace leat::comm::mpi {

/// The way of a piece of memory to or from another rank. A value.
struct Transfer {
  int peer = 0;  // in MPI's world
  int tag = 0;
  bool sends = false;
  bool waits_for_receiver = false;  // a send: is not buffered, even if it is small
  std::byte* memory = nullptr;      // what is left
  std::uint64_t bytes = 0;
  void (*done)(const Transfer& ended) = nullptr;  // called once it has ended
  // What `done` needs: no closure, which would be allocated for every transfer.
  void* owner = nullptr;
  Operation* operation = nullptr;
  int rank = 0;
  std::size_t stage = 0;
  std::uint64_t item = 0;
};

/// A header that arrived. Its data is valid until release().
struct Message {
  int from = 0;  // in MPI's world
  Header header;
  const std::byte* data = nullptr;
};

/// This process's end of MPI.
class Wire {
 public:
  /// Initialises MPI, if the program has not, and makes a communicator of Leat's own. Waits for
  /// the other ranks, at most about until the deadline.
  explicit Wire(const OpenOptions& options);
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  /// Makes no call: after a failure none may be made.
  ~Wire() = default;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Whether Leat initialised MPI, and so finalises it.
  [[nodiscard]] bool owns_mpi() const noexcept { return owns_mpi_; }

  /// Sends a header with header.bytes bytes of `data`, which are copied.
  void send(int to, const Header& header, const void* data = nullptr);
  /// The same to each of `ranks` except this one.
  void send_to_others(std::span<const int> ranks, const Header& header, const void* data = nullptr);
  /// The next header: false if none is here. release() is called before the next receive().
  [[nodiscard]] bool receive(Message& message);
  void release();
  /// Two tags for an operation's transfers from this rank.
  [[nodiscard]] int next_tags() noexcept;
  /// Begins a transfer.
  void start(const Transfer& transfer);
  /// Carries transfers and headers on, and calls done() of the transfers that have ended. Returns
  /// whether any has.
  bool poll();
  /// Whether nothing is under way that this rank has begun.
  [[nodiscard]] bool is_idle() const noexcept { return transfers_.empty() && sending_.empty(); }
  /// Carries on headers that are being sent, alone. Returns whether there are still some.
  bool poll_headers();
  /// No more headers are received, and MPI is finalised if Leat initialised it.
  void close();
  /// The most bytes of a message of a transfer.
  [[nodiscard]] std::uint64_t message_bytes() const noexcept { return message_bytes_; }

 private:
  using Bytes = std::array<std::byte, kMessageBytes>;
  struct Sent {
    Bytes bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  static constexpr std::size_t kRing = 16;

  void initialize();
  void post(Transfer& transfer, MPI_Request& request) const;

  bool owns_mpi_ = false;
  int rank_ = 0;
  int size_ = 0;
  int tags_ = 0;
  int last_tag_ = 0;
  std::uint64_t message_bytes_;
  MPI_Comm communicator_ = MPI_COMM_NULL;

  std::array<Bytes, kRing> ring_;
  std::array<MPI_Request, kRing> receiving_ = {};
  std::size_t next_ = 0;

  std::list<Sent> sending_;
  std::list<Sent> unused_;

  // Of the same length.
  std::vector<Transfer> transfers_;
  std::vector<MPI_Request> requests_;
  std::vector<int> indices_;
  std::vector<Transfer> ended_;
};

}  // namespace leat::comm::mpi
