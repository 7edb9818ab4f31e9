#include "leat/comm/recorder/flight_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

#include "leat/comm/transports/rank_calls.h"

namespace leat::comm {
namespace {

// A word of the file: blanks, control characters and % as %XX, so that a line splits at its blanks.
// "-" if there is nothing.
std::string word(std::string_view text) {
  if (text.empty()) return "-";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte != 0x7F && c != '%' && !(c == '-' && text.size() == 1)) {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

std::string nanoseconds(TimePoint at) { return std::to_string(at.time_since_epoch().count()); }

}  // namespace

FlightRecorder::FlightRecorder(int rank, int size)
    : rank_(rank), size_(size), entries_(std::make_unique<std::array<Entry, kEntries>>()) {}

void FlightRecorder::joined(std::uint64_t context, std::span<const int> members) {
  constexpr std::ptrdiff_t kMostLeft = 64;
  const std::scoped_lock lock(memberships_mutex_);
  memberships_.push_back({.context = context, .members = {members.begin(), members.end()}});
  if (std::ranges::count_if(memberships_, &Membership::has_left) > kMostLeft) {
    memberships_.erase(std::ranges::find_if(memberships_, &Membership::has_left));
  }
}

void FlightRecorder::left(std::uint64_t context) noexcept {
  const std::scoped_lock lock(memberships_mutex_);
  for (Membership& one : memberships_) one.has_left |= one.context == context;
}

std::uint64_t FlightRecorder::begin(const Operation& operation, std::uint64_t context,
                                    TimePoint at) noexcept {
  const SpinLockGuard guard(lock_);
  Entry& entry = (*entries_)[++last_ % kEntries];
  entry.number = last_;  // one by one: a whole Entry would be made first, with its label
  entry.signature = operation.signature;
  entry.context = context;
  entry.peer = operation.peer;
  entry.label[0] = '\0';
  entry.began = at;
  entry.ended = TimePoint::min();
  entry.failed = false;
  if (operation.label != nullptr) {
    std::size_t length = strnlen(operation.label, entry.label.size() - 1);
    const auto is_inside = [&](std::size_t i) { return (operation.label[i] & 0xC0) == 0x80; };
    while (length > 0 && is_inside(length)) --length;  // of a character in UTF-8
    std::memcpy(entry.label.data(), operation.label, length);
    entry.label[length] = '\0';
  }
  return last_;
}

void FlightRecorder::end(std::uint64_t number, TimePoint at, bool failed) noexcept {
  const SpinLockGuard guard(lock_);
  Entry& entry = (*entries_)[number % kEntries];
  if (entry.number != number) return;
  entry.ended = at;
  entry.failed = failed;
}

std::string FlightRecorder::text(const Failure* failure) const {
  auto entries = std::make_unique<std::array<Entry, kEntries>>();  // a stack is small
  std::uint64_t last = 0;
  {
    const SpinLockGuard guard(lock_);
    *entries = *entries_;
    last = last_;
  }
  std::array<char, 256> host{};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  std::string out = "leat-comm-recorder 1 rank " + std::to_string(rank_) + " of " +
                    std::to_string(size_) + " pid " + std::to_string(getpid()) + " host " +
                    word(host.data()) + " operations " + std::to_string(last) + '\n';
  {
    const std::scoped_lock lock(memberships_mutex_);
    for (const Membership& one : memberships_) {
      out += "communicator " + std::to_string(one.context) + (one.has_left ? " left" : " joined") +
             " ranks " + ranges_of(one.members) + '\n';
    }
  }
  out +=
      "# entry context operation reduction dtype count root number peer tag label began ended "
      "state\n";
  const std::uint64_t first = last > kEntries ? last - kEntries + 1 : 1;
  for (std::uint64_t number = first; number <= last; ++number) {
    const Entry& one = (*entries)[number % kEntries];
    const Signature& what = one.signature;
    const bool ended = one.ended != TimePoint::min();
    const char* const state = !ended ? "open" : one.failed ? "failed" : "ended";
    const char* const reduction = what.reduction == Reduction::kMax ? "max"
                                  : what.is_weighted                ? "weighted"
                                                                    : "sum";
    const auto tell = [&](const auto&... words) { ((out += words, out += ' '), ...); };
    tell(std::to_string(one.number), std::to_string(one.context), to_string(what.kind), reduction,
         gpu::to_string(what.dtype), std::to_string(what.count), std::to_string(what.root),
         std::to_string(what.number), std::to_string(one.peer),
         what.tag == ~std::uint64_t{0} ? "-" : std::to_string(what.tag), word(one.label.data()),
         nanoseconds(one.began), ended ? nanoseconds(one.ended) : "-", state);
    out.back() = '\n';
  }
  if (failure != nullptr) {
    out += "failure " + std::string(failure->is_mismatch ? "mismatch" : "error") + " peer " +
           std::to_string(failure->peer) + " operation " + word(failure->operation) + " tensor " +
           word(failure->tensor) + " what " + word(failure->what) + '\n';
  }
  return out + "end\n";
}

bool FlightRecorder::write(const std::filesystem::path& directory,
                           const Failure* failure) const noexcept {
  try {
    const std::filesystem::path file = directory / ("rank-" + std::to_string(rank_) + ".leat-comm");
    static std::atomic<unsigned> writes{0};  // SIGQUIT and a failure may come at the same time
    std::filesystem::path temporary = file;
    temporary += "." + std::to_string(getpid()) + "-" + std::to_string(writes++);
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text(failure);
    out.close();
    std::error_code error;
    if (out) {
      std::filesystem::rename(temporary, file, error);
      if (!error) return true;
    }
    std::filesystem::remove(temporary, error);
    return false;
  } catch (...) {  // no memory
    return false;
  }
}

}  // namespace leat::comm
