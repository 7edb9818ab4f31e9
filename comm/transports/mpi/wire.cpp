#include "leat/comm/transports/mpi/wire.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
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
    : message_bytes_(std::min<std::uint64_t>(options.message_limit, kMostMessageBytes)),
      ring_(std::make_unique<std::array<Received, kRing>>()) {
  initialize();
  const TimePoint until = Deadline::after(SteadyClock::instance().now(), options.deadline).at();
  duplicate(until);
  agree_on_message_bytes(until);
  check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
  int* most = nullptr;
  int is_set = 0;
  check(MPI_Comm_get_attr(communicator_, MPI_TAG_UB, static_cast<void*>(&most), &is_set),
        "MPI_Comm_get_attr");
  tags_ = std::min(is_set != 0 ? *most : 32767, 1 << 30) & ~1;
  last_tag_ = kFirstTag;
  for (int i = 0; i < kRing; ++i) {
    const auto at = static_cast<std::size_t>(i);
    check(MPI_Recv_init((*ring_)[at].data(), static_cast<int>(kMessageBytes), MPI_BYTE,
                        MPI_ANY_SOURCE, kHeaderTag, communicator_, &receiving_[at]),
          "MPI_Recv_init");
    check(MPI_Start(&receiving_[at]), "MPI_Start");
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

void Wire::duplicate(TimePoint until) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Comm_idup(MPI_COMM_WORLD, &communicator_, &request), "MPI_Comm_idup");
  wait(request, until);
  check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

// Both ends of a transfer cut it into the same messages: by the lowest limit of all ranks.
void Wire::agree_on_message_bytes(TimePoint until) {
  MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t least = 0;
  check(MPI_Iallreduce(&message_bytes_, &least, 1, MPI_UINT64_T, MPI_MIN, communicator_, &request),
        "MPI_Iallreduce");
  wait(request, until);
  message_bytes_ = least;
}

// ---- headers

void Wire::send(int to, const Header& header, const void* data) {
  if (unused_.empty()) unused_.push_back(std::make_unique<Sent>());
  Sent& sent = *unused_.back();
  std::memcpy(sent.bytes.data(), &header, sizeof header);
  if (header.bytes > 0) std::memcpy(sent.bytes.data() + sizeof header, data, header.bytes);
  check(MPI_Isend(sent.bytes.data(), static_cast<int>(sizeof header + header.bytes), MPI_BYTE, to,
                  kHeaderTag, communicator_, &sent.request),
        "MPI_Isend");
  int is_done = 0;  // mostly: MPI has a copy
  check(MPI_Test(&sent.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  if (is_done != 0) return;
  sending_.push_back(std::move(unused_.back()));
  unused_.pop_back();
}

void Wire::poll_headers() {
  for (std::size_t i = 0; i < sending_.size();) {
    int is_done = 0;
    check(MPI_Test(&sending_[i]->request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_done == 0) {
      ++i;
      continue;
    }
    unused_.push_back(std::move(sending_[i]));
    sending_[i] = std::move(sending_.back());
    sending_.pop_back();
  }
}

bool Wire::receive(Message& message) {
  if (taken_) {
    taken_ = false;
    check(MPI_Start(&receiving_[static_cast<std::size_t>((next_ + kRing - 1) % kRing)]),
          "MPI_Start");
  }
  int is_here = 0;
  MPI_Status status;
  check(MPI_Test(&receiving_[static_cast<std::size_t>(next_)], &is_here, &status), "MPI_Test");
  if (is_here == 0) return false;
  const std::byte* const bytes = (*ring_)[static_cast<std::size_t>(next_)].data();
  message = {.from = status.MPI_SOURCE,
             .header = reinterpret_cast<const Header*>(bytes),
             .data = bytes + sizeof(Header)};
  next_ = (next_ + 1) % kRing;
  taken_ = true;
  return true;
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
  if (!sending_.empty()) poll_headers();
  if (requests_.empty()) return false;
  indices_.resize(requests_.size());
  int done = 0;
  check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done, indices_.data(),
                     MPI_STATUSES_IGNORE),
        "MPI_Testsome");
  if (done <= 0) return false;
  // The last first, because the last takes the place of one that has ended.
  std::sort(indices_.begin(), indices_.begin() + done, std::greater<>());
  ended_.clear();
  for (int i = 0; i < done; ++i) {
    const auto at = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    if (transfers_[at].bytes > 0) {
      post(transfers_[at], requests_[at]);
      continue;
    }
    ended_.push_back(transfers_[at]);
    transfers_[at] = transfers_.back();
    requests_[at] = requests_.back();
    transfers_.pop_back();
    requests_.pop_back();
  }
  // In the order of the list, so that blocks of a stream are told in their order as far as can be;
  // owners start others meanwhile.
  for (std::size_t i = ended_.size(); i > 0; --i) ended_[i - 1].owner->transferred(ended_[i - 1]);
  return true;
}

void Wire::close() {
  for (MPI_Request& request : receiving_) {
    if (taken_ && &request == &receiving_[static_cast<std::size_t>((next_ + kRing - 1) % kRing)]) {
      check(MPI_Request_free(&request), "MPI_Request_free");  // not started again
      continue;
    }
    check(MPI_Cancel(&request), "MPI_Cancel");
    check(MPI_Request_free(&request), "MPI_Request_free");
  }
  if (owns_mpi_) check(MPI_Finalize(), "MPI_Finalize");
}

}  // namespace leat::comm::mpi
