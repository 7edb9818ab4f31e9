#include "leat/comm/transports/mpi/wire.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "leat/csp/clock.h"
#include "leat/csp/error.h"

namespace leat::comm::mpi {
namespace {

constexpr int kHeaderTag = 1;
constexpr int kFirstTag = 2;
// A longer message would keep the thread from other operations for longer, and gains nothing.
constexpr std::uint64_t kMostMessageBytes = std::uint64_t{2} << 20;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(std::string("leat: ") + call + ": " + text.data());
}

void wait(MPI_Request request, TimePoint until) {
  for (int is_done = 0;;) {
    check(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_done != 0) return;
    if (SteadyClock::instance().now() >= until) {
      throw Error("leat: comm::open(\"mpi\"): not all ranks have called it by the deadline");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace

Wire::Wire(const OpenOptions& options)
    : message_bytes_(std::min<std::uint64_t>(options.message_limit, kMostMessageBytes)) {
  initialize();
  const TimePoint until = Deadline::after(SteadyClock::instance().now(), options.deadline).at();
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Comm_idup(MPI_COMM_WORLD, &communicator_, &request), "MPI_Comm_idup");
  wait(request, until);
  check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  // Both ends of a transfer cut it into the same messages: by the lowest limit of all ranks.
  check(MPI_Iallreduce(MPI_IN_PLACE, &message_bytes_, 1, MPI_UINT64_T, MPI_MIN, communicator_,
                       &request),
        "MPI_Iallreduce");
  wait(request, until);
  check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
  int* most = nullptr;
  int is_set = 0;
  check(MPI_Comm_get_attr(communicator_, MPI_TAG_UB, static_cast<void*>(&most), &is_set),
        "MPI_Comm_get_attr");
  tags_ = std::min(is_set != 0 ? *most : 32767, 1 << 30) & ~1;
  last_tag_ = kFirstTag;
  for (std::size_t i = 0; i < kRing; ++i) {
    check(MPI_Recv_init(ring_[i].data(), static_cast<int>(kMessageBytes), MPI_BYTE, MPI_ANY_SOURCE,
                        kHeaderTag, communicator_, &receiving_[i]),
          "MPI_Recv_init");
    check(MPI_Start(&receiving_[i]), "MPI_Start");
  }
}

void Wire::initialize() {
  int is_finalized = 0;
  check(MPI_Finalized(&is_finalized), "MPI_Finalized");
  if (is_finalized != 0) {
    throw Error("leat: comm::open(\"mpi\"): MPI was finalised; it cannot be used again");
  }
  int is_initialized = 0;
  int level = MPI_THREAD_SINGLE;
  check(MPI_Initialized(&is_initialized), "MPI_Initialized");
  if (is_initialized == 0) {
    owns_mpi_ = true;  // the thread that initialises makes all calls
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
    return;
  }
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level != MPI_THREAD_MULTIPLE) {
    throw Error(
        "leat: comm::open(\"mpi\"): the program initialised MPI without MPI_THREAD_MULTIPLE, which "
        "Leat's thread needs beside the program's; call MPI_Init_thread with it, or leave "
        "initialisation to Leat");
  }
}

// ---- headers

void Wire::send(int to, const Header& header, const void* data) {
  if (unused_.empty()) unused_.emplace_back();
  Sent& sent = unused_.front();
  std::memcpy(sent.bytes.data(), &header, sizeof header);
  if (header.bytes > 0) std::memcpy(sent.bytes.data() + sizeof header, data, header.bytes);
  check(MPI_Isend(sent.bytes.data(), static_cast<int>(sizeof header + header.bytes), MPI_BYTE, to,
                  kHeaderTag, communicator_, &sent.request),
        "MPI_Isend");
  int is_done = 0;  // mostly: MPI has a copy
  check(MPI_Test(&sent.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  if (is_done == 0) sending_.splice(sending_.end(), unused_, unused_.begin());
}

void Wire::send_to_others(std::span<const int> ranks, const Header& header, const void* data) {
  for (const int one : ranks) {
    if (one != rank_) send(one, header, data);
  }
}

bool Wire::poll_headers() {
  for (auto next = sending_.begin(); next != sending_.end();) {
    const auto one = next++;
    int is_done = 0;
    check(MPI_Test(&one->request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_done != 0) unused_.splice(unused_.begin(), sending_, one);
  }
  return !sending_.empty();
}

bool Wire::receive(Message& message) {
  int is_here = 0;
  MPI_Status status;
  check(MPI_Test(&receiving_[next_], &is_here, &status), "MPI_Test");
  if (is_here == 0) return false;
  message.from = status.MPI_SOURCE;
  std::memcpy(&message.header, ring_[next_].data(), sizeof message.header);
  message.data = ring_[next_].data() + sizeof message.header;
  return true;
}

void Wire::release() {
  check(MPI_Start(&receiving_[next_]), "MPI_Start");
  next_ = (next_ + 1) % kRing;
}

// ---- transfers

int Wire::next_tags() noexcept {
  const int tag = last_tag_;
  last_tag_ = tag + 2 < tags_ ? tag + 2 : kFirstTag;
  return tag;
}

void Wire::post(Transfer& transfer, MPI_Request& request) const {
  const auto bytes = static_cast<int>(std::min(transfer.bytes, message_bytes_));
  if (!transfer.sends) {
    check(MPI_Irecv(transfer.memory, bytes, MPI_BYTE, transfer.peer, transfer.tag, communicator_,
                    &request),
          "MPI_Irecv");
  } else {
    const auto call = transfer.waits_for_receiver ? MPI_Issend : MPI_Isend;
    check(call(transfer.memory, bytes, MPI_BYTE, transfer.peer, transfer.tag, communicator_,
               &request),
          "MPI_Isend");
  }
  transfer.memory += bytes;
  transfer.bytes -= static_cast<std::uint64_t>(bytes);
}

void Wire::start(const Transfer& transfer) {
  MPI_Request request = MPI_REQUEST_NULL;
  transfers_.push_back(transfer);
  post(transfers_.back(), request);
  requests_.push_back(request);
}

bool Wire::poll() {
  poll_headers();
  if (requests_.empty()) return false;
  indices_.resize(requests_.size());
  int done = 0;
  check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done, indices_.data(),
                     MPI_STATUSES_IGNORE),
        "MPI_Testsome");
  if (done <= 0) return false;
  // Those that go on keep their order, so that blocks of a stream end in their order as far as can
  // be.
  ended_.clear();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) {
      if (transfers_[i].bytes == 0) {
        ended_.push_back(transfers_[i]);
        continue;
      }
      post(transfers_[i], requests_[i]);
    }
    transfers_[kept] = transfers_[i];
    requests_[kept++] = requests_[i];
  }
  transfers_.resize(kept);
  requests_.resize(kept);
  for (const Transfer& one : ended_) one.done(one);  // which may start others
  return true;
}

void Wire::close() {
  for (MPI_Request& request : receiving_) {
    check(MPI_Cancel(&request), "MPI_Cancel");
    check(MPI_Request_free(&request), "MPI_Request_free");
  }
  if (owns_mpi_) check(MPI_Finalize(), "MPI_Finalize");
}

}  // namespace leat::comm::mpi
