// Go's reflect TestSelect, exhaustively: every list of 0 to 3 cases, each a send or a receive in
// each of its situations, with a default, or waiting for a peer or for close; by select and by
// Selector. Checked are the case that was chosen, what it sent or received, and that nothing else
// has happened to any channel.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace go_reflect_select_test {

using support::run_each;
using support::until_idle;

enum class Kind : std::uint8_t {
  kSendToNil,
  kSendToClosed,
  kSendToRoom,
  kSendToReceiver,  // one waits
  kSendToFull,
  kSendToNobody,  // without a buffer
  kRecvFromNil,
  kRecvFromClosed,
  kRecvFromClosedWithValue,
  kRecvFromBuffer,
  kRecvFromSender,      // one waits
  kRecvFromFullBuffer,  // and a sender waits behind it
  kRecvFromEmptyBuffer,
  kRecvFromNobody,  // without a buffer
  kCount,
};

constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::kCount);

constexpr std::string_view name(Kind kind) {
  constexpr std::array<std::string_view, kKinds> kNames = {"send to nil",
                                                           "send to closed",
                                                           "send to room",
                                                           "send to receiver",
                                                           "send to full",
                                                           "send to nobody",
                                                           "recv from nil",
                                                           "recv from closed",
                                                           "recv from closed with value",
                                                           "recv from buffer",
                                                           "recv from sender",
                                                           "recv from full buffer",
                                                           "recv from empty buffer",
                                                           "recv from nobody"};
  return kNames.at(static_cast<std::size_t>(kind));
}
constexpr bool is_send(Kind kind) { return kind < Kind::kRecvFromNil; }
constexpr bool is_nil(Kind kind) { return kind == Kind::kSendToNil || kind == Kind::kRecvFromNil; }
constexpr bool waits(Kind kind) {
  return is_nil(kind) || kind == Kind::kSendToFull || kind == Kind::kSendToNobody ||
         kind == Kind::kRecvFromEmptyBuffer || kind == Kind::kRecvFromNobody;
}

/// A channel in the situation of a case, and all that can be seen of it.
class Situation {
 public:
  /// What the case sends, what is buffered, what a waiting sender has.
  static constexpr int kOffered = 100;
  static constexpr int kBuffered = 200;
  static constexpr int kPeers = 300;

  Situation(Kind kind, TaskGroup& peers) : kind_(kind), channel_(make(kind)) {
    switch (kind) {
      case Kind::kSendToFull:
      case Kind::kRecvFromBuffer:
      case Kind::kRecvFromFullBuffer:
      case Kind::kRecvFromClosedWithValue: channel_.send(int{kBuffered}); break;
      default: break;
    }
    if (kind == Kind::kSendToReceiver) receiver(peers);
    if (kind == Kind::kRecvFromSender || kind == Kind::kRecvFromFullBuffer) sender(peers);
    if (kind == Kind::kSendToClosed || kind == Kind::kRecvFromClosed ||
        kind == Kind::kRecvFromClosedWithValue) {
      channel_.close();
    }
  }
  Situation(const Situation&) = delete;
  Situation& operator=(const Situation&) = delete;

  [[nodiscard]] Kind kind() const { return kind_; }
  auto send_case() {
    return on_send(channel_, value_, [this] { ++handled_; });
  }
  auto recv_case() {
    return on_recv(channel_, [this](std::optional<int> v) {
      ++handled_;
      got_ = v;
    });
  }

  /// A peer comes that makes a case ready which waits.
  void come(TaskGroup& peers) { is_send(kind_) ? receiver(peers) : sender(peers); }
  /// Likewise the end.
  void close() const { channel_.close(); }

  /// Checks that the case has not happened.
  void expect_untouched() const {
    EXPECT_EQ(handled_, 0) << name(kind_);
    const bool holds = kind_ == Kind::kSendToFull || kind_ == Kind::kRecvFromBuffer ||
                       kind_ == Kind::kRecvFromFullBuffer ||
                       kind_ == Kind::kRecvFromClosedWithValue;
    EXPECT_EQ(channel_.size(), holds ? 1U : 0U) << name(kind_);
    EXPECT_FALSE(peer_done_) << name(kind_);
    EXPECT_EQ(value_, kOffered);
  }

  /// Checks that the receive has found the end.
  void expect_ended() const {
    EXPECT_EQ(handled_, 1) << name(kind_);
    EXPECT_EQ(got_, std::nullopt);
  }

  /// Checks that the case has happened, after a peer came if `peer_came`.
  void expect_happened(bool peer_came) const {
    EXPECT_EQ(handled_, 1) << name(kind_);
    const bool peer = peer_came || kind_ == Kind::kSendToReceiver ||
                      kind_ == Kind::kRecvFromSender || kind_ == Kind::kRecvFromFullBuffer;
    EXPECT_EQ(peer_done_, peer) << name(kind_);
    std::optional<int> got;       // by the case
    std::optional<int> peer_got;  // by who received from it
    std::size_t size = 0;
    switch (kind_) {
      case Kind::kSendToRoom: size = 1; break;
      case Kind::kSendToReceiver:
      case Kind::kSendToNobody: peer_got = kOffered; break;
      case Kind::kSendToFull:
        peer_got = kBuffered;
        size = 1;
        break;
      case Kind::kRecvFromClosedWithValue:
      case Kind::kRecvFromBuffer: got = kBuffered; break;
      case Kind::kRecvFromFullBuffer:
        got = kBuffered;
        size = 1;
        break;
      case Kind::kRecvFromSender:
      case Kind::kRecvFromEmptyBuffer:
      case Kind::kRecvFromNobody: got = kPeers; break;
      default: break;  // of a closed channel: nothing
    }
    EXPECT_EQ(got_, got) << name(kind_);
    EXPECT_EQ(peer_got_, peer_got) << name(kind_);
    EXPECT_EQ(channel_.size(), size) << name(kind_);
  }

  /// Checks that nobody is left in the queues of a channel whose case was not chosen.
  void expect_no_trace() const {
    std::optional<int> got;
    if (kind_ == Kind::kSendToNobody) {
      EXPECT_EQ(channel_.try_recv(got), ChannelStatus::would_block);
    } else if (kind_ == Kind::kSendToFull) {
      EXPECT_EQ(channel_.try_recv(got), ChannelStatus::ok);
      EXPECT_EQ(got, kBuffered);
      EXPECT_EQ(channel_.try_recv(got), ChannelStatus::would_block);
    } else if (kind_ == Kind::kRecvFromNobody) {
      EXPECT_EQ(channel_.try_send(1), ChannelStatus::would_block);
    } else if (kind_ == Kind::kRecvFromEmptyBuffer) {
      EXPECT_EQ(channel_.try_send(1), ChannelStatus::ok);
      EXPECT_EQ(channel_.size(), 1U);
    }
  }

 private:
  static Channel<int> make(Kind kind) {
    switch (kind) {
      case Kind::kSendToNil:
      case Kind::kRecvFromNil: return {};
      case Kind::kSendToReceiver:
      case Kind::kSendToNobody:
      case Kind::kSendToClosed:
      case Kind::kRecvFromClosed:
      case Kind::kRecvFromSender:
      case Kind::kRecvFromNobody: return Channel<int>(0);
      default: return Channel<int>(1);
    }
  }
  void receiver(TaskGroup& peers) {
    peers.go([this] {
      peer_got_ = channel_.recv();
      peer_done_ = true;
    });
  }
  void sender(TaskGroup& peers) {
    peers.go([this] {
      channel_.send(int{kPeers});
      peer_done_ = true;
    });
  }

  const Kind kind_;
  const Channel<int> channel_;
  int value_ = kOffered;
  int handled_ = 0;
  std::optional<int> got_;
  std::optional<int> peer_got_;
  bool peer_done_ = false;
};

using Situations = std::vector<std::unique_ptr<Situation>>;

/// The index of what was chosen; the number of cases for the default.
using Choose = std::size_t (*)(const Situations& situations, bool with_default);

/// By select, whose arguments' types say which case is a send: built up one by one.
template <class... Cases>
std::size_t select_over(std::span<const std::unique_ptr<Situation>> rest, bool with_default,
                        Cases... cases) {
  if (rest.empty()) {
    return static_cast<std::size_t>(with_default ? select(std::move(cases)..., otherwise())
                                                 : select(std::move(cases)...));
  }
  if constexpr (sizeof...(Cases) < 3) {
    Situation& next = *rest.front();
    return is_send(next.kind())
               ? select_over(rest.subspan(1), with_default, std::move(cases)..., next.send_case())
               : select_over(rest.subspan(1), with_default, std::move(cases)..., next.recv_case());
  }
  return 0;
}
std::size_t by_select(const Situations& situations, bool with_default) {
  return select_over(situations, with_default);
}

std::size_t by_selector(const Situations& situations, bool with_default) {
  Selector any;
  for (const auto& s : situations) {
    is_send(s->kind()) ? any.add(s->send_case()) : any.add(s->recv_case());
  }
  return with_default ? any.try_select().value_or(situations.size()) : any.select();
}

/// What the select on its fiber came to.
struct Outcome {
  std::size_t index = 0;
  bool returned = false;
  bool threw = false;

  void of(Choose choose, const Situations& situations, bool with_default) {
    try {
      index = choose(situations, with_default);
      returned = true;
    } catch (const ChannelClosed&) {
      threw = true;
    }
  }
};

/// What is chosen where no case is ready.
enum class Otherwise : std::uint8_t { kDefault, kWaitsForAPeer, kWaitsForClose };

/// The case for which somebody comes where all wait: the last that can become ready, so that those
/// before it show whether they were left alone. The number of cases if none can.
std::size_t awaited(std::span<const Kind> kinds) {
  std::size_t i = kinds.size();
  while (i > 0 && is_nil(kinds[i - 1])) --i;
  return i > 0 ? i - 1 : kinds.size();
}

/// One scenario. Time is virtual: after until_idle() everybody stands where it waits.
void check(Choose choose, std::span<const Kind> kinds, Otherwise otherwise) {
  const bool none_ready = std::all_of(kinds.begin(), kinds.end(), waits);
  if (!none_ready && otherwise == Otherwise::kWaitsForClose) return;  // nor for a peer: the same
  const bool with_default = otherwise == Otherwise::kDefault;
  const bool must_wait = none_ready && !with_default;
  const std::size_t came = must_wait ? awaited(kinds) : kinds.size();
  Situations situations;
  TaskGroup peers;
  for (const Kind kind : kinds) situations.push_back(std::make_unique<Situation>(kind, peers));
  until_idle();

  Outcome outcome;
  TaskGroup chooser;
  chooser.go([&] { outcome.of(choose, situations, with_default); });
  until_idle();
  if (must_wait) {
    EXPECT_FALSE(outcome.returned || outcome.threw);
    for (const auto& s : situations) s->expect_untouched();
    if (came == kinds.size()) {
      chooser.stop();
    } else if (otherwise == Otherwise::kWaitsForClose) {
      situations[came]->close();
    } else {
      situations[came]->come(peers);
    }
    until_idle();
  }
  chooser.wait();

  const bool ended = came < kinds.size() && otherwise == Otherwise::kWaitsForClose;
  if (must_wait && came == kinds.size()) {
    EXPECT_FALSE(outcome.returned || outcome.threw);
  } else if (ended && is_send(kinds[came])) {
    EXPECT_TRUE(outcome.threw);
  } else if (outcome.threw) {
    EXPECT_NE(std::find(kinds.begin(), kinds.end(), Kind::kSendToClosed), kinds.end());
  } else {
    EXPECT_TRUE(outcome.returned);
    ASSERT_LE(outcome.index, kinds.size());
    EXPECT_EQ(outcome.index == kinds.size(), none_ready && with_default);
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (!outcome.returned || i != outcome.index) {
      situations[i]->expect_untouched();
      if (!ended || i != came) situations[i]->expect_no_trace();
      continue;
    }
    EXPECT_TRUE(must_wait ? i == came : !waits(kinds[i]));
    EXPECT_NE(kinds[i], Kind::kSendToClosed);
    ended ? situations[i]->expect_ended() : situations[i]->expect_happened(i == came);
  }
}

// Of the lists of three, one in so many.
#if defined(LEAT_TSAN)
constexpr std::size_t kStep = 37;
#else
constexpr std::size_t kStep = 1;
#endif

void check_all(Choose choose, std::size_t cases) {
  run_each([&] {
    std::size_t combinations = 1;
    for (std::size_t i = 0; i < cases; ++i) combinations *= kKinds;
    std::vector<Kind> kinds(cases);
    for (std::size_t number = 0; number < combinations; number += cases < 3 ? 1 : kStep) {
      std::size_t rest = number;
      for (Kind& kind : kinds)
        kind = static_cast<Kind>(std::exchange(rest, rest / kKinds) % kKinds);
      for (const Otherwise otherwise :
           {Otherwise::kDefault, Otherwise::kWaitsForAPeer, Otherwise::kWaitsForClose}) {
        check(choose, kinds, otherwise);
        if (testing::Test::HasFailure()) {
          for (const Kind kind : kinds) ADD_FAILURE() << name(kind);
          return;
        }
      }
    }
  });
}

TEST(GoReflectSelect, WithoutCasesBySelect) { check_all(by_select, 0); }
TEST(GoReflectSelect, EveryCaseAloneBySelect) { check_all(by_select, 1); }
TEST(GoReflectSelect, EveryTwoCasesBySelect) { check_all(by_select, 2); }
TEST(GoReflectSelect, EveryThreeCasesBySelect) { check_all(by_select, 3); }

TEST(GoReflectSelect, WithoutCasesBySelector) { check_all(by_selector, 0); }
TEST(GoReflectSelect, EveryCaseAloneBySelector) { check_all(by_selector, 1); }
TEST(GoReflectSelect, EveryTwoCasesBySelector) { check_all(by_selector, 2); }
TEST(GoReflectSelect, EveryThreeCasesBySelector) { check_all(by_selector, 3); }

}  // namespace go_reflect_select_test
}  // namespace leat
