// One file of a flight recorder, as it was read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace comm_report {

/// An operation of a rank.
struct Entry {
  enum class State : std::uint8_t { kEnded, kOpen, kFailed };

  std::uint64_t entry = 0;  ///< operations of a rank are numbered from 1
  std::uint64_t context = 0;
  std::string what;          ///< "all_reduce (max) of 25 float32"
  std::string tag;           ///< of an exchange's tensor and piece; empty: none
  std::uint64_t number = 0;  ///< a collective's number; a message's key
  bool is_send = false;
  bool is_recv = false;
  int peer = -1;      ///< of a message: a rank of the communicator
  std::string label;  ///< the tensor; empty: none
  State state = State::kOpen;
};

/// A communicator that the rank is in.
struct Membership {
  std::uint64_t context = 0;
  bool has_left = false;
  std::vector<int> members;  ///< ranks of the world, in their order
};

/// A rank's recorder. Its ranks are those of comm::open().
struct Record {
  std::string file;
  int rank = 0;
  int size = 0;
  std::vector<Membership> memberships;
  std::vector<Entry> entries;  ///< the oldest first
  std::string failure;         ///< one line; empty: the rank knew of none
  bool is_whole = false;       ///< false: the file was cut off
};

/// Reads the text of `file` as far as it goes. Appends a line to `warnings` for what is wrong with
/// it: "FILE:LINE: what". Returns none if it is not a flight recorder's.
[[nodiscard]] std::optional<Record> read_record(const std::string& file, std::string_view text,
                                                std::vector<std::string>& warnings);

}  // namespace comm_report
