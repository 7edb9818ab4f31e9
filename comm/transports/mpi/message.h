// What ranks say to each other through MPI.
//
//   rank r                                      rank o
//   ------                                      ------
//   begin ── kCall: signature, small data ────► stored until rank o begins, too
//         ◄──────────────── kCall ─────────────
//   (all n-1 signatures are here and equal: small operations end)
//   larger ones, block by block, from memory to memory, on tags that kCall named:
//         ── tag:     r's part of chunk o ────► scratch; summed from rank 0 up into `out`
//         ◄─ tag + 1: the sum of chunk o ─────
//
//   send  ── kSend: key, small data ──────────► stored until the recv of that key
//         ── tag: larger data ────────────────► `out`
//         ◄──────────────── kTaken ─────────── the recv has the data
//
//   any   ── kNotices, kLeave, kFail, kFailed, kGoodbye ─► any
//
//   any   ── kAsk ────────────────────────────► any, which says what it waits for:
//         ◄────────────── kAnswer ─────────────
//
// Headers travel on one tag, so those of two ranks arrive in the order in which they were sent.
// A communicator is a 64-bit name in each header, not a communicator of MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/comm/transports/blame.h"
#include "leat/comm/transports/operation.h"

namespace leat::comm::mpi {

enum class MessageKind : std::uint8_t {
  kCall,     // a collective begins
  kSend,     // a send begins; value: its id on the sender
  kTaken,    // the recv of the send `value` has its data
  kNotices,  // Notice values
  kLeave,    // the sender has left the communicator
  kFail,     // the sender's world has failed, and this one is to fail, too; its texts are inline
  kFailed,   // the sender's world has failed; tag: the rank that it blames
  kAsk,      // what does this rank wait for? value: the question; tag: the rank that waits for it
  kAnswer,   // to the question `value`: Wait values
  kGoodbye,  // the sender's process ends
};

/// The head of each message. Data of `bytes` bytes follows. A trivial value.
struct Header {
  MessageKind kind = MessageKind::kCall;
  bool is_absent = false;    // kCall: adds nothing to the sum. kFail: is a mismatch. kAnswer: waits
  std::uint16_t unused = 0;  // no byte is without a value
  std::uint32_t bytes = 0;
  std::int32_t tag = 0;  // of larger data. kFail: the rank that is to blame. kAsk: see there
  std::int32_t unused_too = 0;
  std::uint64_t context = 0;
  Signature signature;
  std::uint64_t value = 0;  // kCall: samples. kSend, kTaken: the send's id. Others: the question's
};
static_assert(sizeof(Header) == 64);

/// Data of at most so many bytes travels with the header: a message is then one that OpenMPI's
/// shared memory and TCP transports send at once (eager limits of 4,096 bytes and more).
inline constexpr std::size_t kInlineBytes = 3840;
inline constexpr std::size_t kMessageBytes = sizeof(Header) + kInlineBytes;

/// The elements that travel: none if they are elsewhere.
[[nodiscard]] inline std::uint64_t count_of_data(const Signature& signature) noexcept {
  return signature.on_device ? 0 : signature.count;
}

/// A message with its data: one that waits for what this rank has not begun, or is to be sent.
struct KeptMessage {
  int from = 0;
  Header header;
  std::vector<std::byte> data;
};

/// That this rank's world has failed. `fail_others`: theirs fail too, with this failure's texts (as
/// far as they fit); else it answers, once for all, what they might ask.
[[nodiscard]] KeptMessage message_of(const Failure& failure, bool fail_others);
/// The answer to a question, with as many ranks as fit.
[[nodiscard]] KeptMessage message_of(const Answer& answer, std::uint64_t question);
/// What a kFail says, and a kAnswer.
[[nodiscard]] Failure failure_in(const Header& header, const std::byte* data);
[[nodiscard]] Answer answer_in(const Header& header, const std::byte* data);

}  // namespace leat::comm::mpi
