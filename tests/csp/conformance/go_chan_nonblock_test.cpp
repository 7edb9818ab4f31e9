// Go's test/chan/nonblock.go: what waits, and what does not. go_reflect_select_test has its
// select3.go.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace go_chan_nonblock_test {

using support::run_each;
using support::until_idle;

/// The two ways to send or receive without waiting.
enum class Way { kSelectWithOtherwise, kTry };
constexpr std::array kWays = {Way::kSelectWithOtherwise, Way::kTry};

/// Returns the value that was received, if there was one.
template <class T>
std::optional<T> poll(const Channel<T>& c, Way way) {
  std::optional<T> got;
  if (way == Way::kTry) {
    got.emplace();  // must be overwritten
    const ChannelStatus status = c.try_recv(got);
    EXPECT_EQ(status, got ? ChannelStatus::ok : ChannelStatus::would_block);
    return got;
  }
  bool chosen = false;
  const int index = select(on_recv(c,
                                   [&](std::optional<T> value) {
                                     got = std::move(value);
                                     chosen = true;
                                   }),
                           otherwise());
  EXPECT_EQ(index == 0, chosen);
  EXPECT_EQ(got.has_value(), chosen);
  return got;
}

/// Returns true if `value` was sent.
template <class T>
bool offer(const Channel<T>& c, const T& value, Way way) {
  T copy = value;
  bool sent = false;
  if (way == Way::kTry) {
    const ChannelStatus status = c.try_send(std::move(copy));
    sent = status == ChannelStatus::ok;
    EXPECT_EQ(status, sent ? ChannelStatus::ok : ChannelStatus::would_block);
  } else {
    sent = select(on_send(c, std::move(copy)), otherwise()) == 0;
  }
  if (!sent) {
    EXPECT_EQ(copy, value);  // NOLINT(bugprone-use-after-move): that is the promise
  }
  return sent;
}

template <class T>
class GoChanNonBlock : public testing::Test {
 public:
  static T value() {
    if constexpr (std::is_same_v<T, std::string>) {
      return "a text that is too long to be kept inside of the string";
    } else {
      return static_cast<T>(123'456'789);
    }
  }
};
using Types = testing::Types<std::int32_t, std::int64_t, bool, std::string>;
TYPED_TEST_SUITE(GoChanNonBlock, Types);

TYPED_TEST(GoChanNonBlock, WithoutAPeerOnlyTheBufferTakesAndGives) {
  using T = TypeParam;
  run_each([] {
    const T value = GoChanNonBlock<T>::value();
    for (const Way way : kWays) {
      for (const int capacity : {0, 1, 3}) {
        const Channel<T> c(capacity);
        for (int round = 0; round < 3; ++round) {
          EXPECT_EQ(poll(c, way), std::nullopt);
          for (int i = 0; i < capacity; ++i) EXPECT_TRUE(offer(c, value, way));
          EXPECT_FALSE(offer(c, value, way));
          if (capacity > 0) {
            EXPECT_EQ(poll(c, way), value);
            EXPECT_TRUE(offer(c, value, way));
            EXPECT_FALSE(offer(c, value, way));
          }
          for (int i = 0; i < capacity; ++i) EXPECT_EQ(poll(c, way), value);
        }
        EXPECT_EQ(poll(c, way), std::nullopt);
      }
    }
  });
}

TYPED_TEST(GoChanNonBlock, AWaitingReceiverTakesOneOffer) {
  using T = TypeParam;
  run_each([] {
    const T value = GoChanNonBlock<T>::value();
    for (const Way way : kWays) {
      for (const int capacity : {0, 1}) {
        const Channel<T> c(capacity);
        std::optional<T> got;
        TaskGroup group;
        group.go([&] { got = c.recv(); });
        until_idle();
        EXPECT_TRUE(offer(c, value, way));
        EXPECT_EQ(offer(c, value, way), capacity == 1);  // the receiver is not there twice
        group.wait();
        EXPECT_EQ(got, value);
      }
    }
  });
}

TYPED_TEST(GoChanNonBlock, AWaitingSenderGivesItsValueOnce) {
  using T = TypeParam;
  run_each([] {
    const T value = GoChanNonBlock<T>::value();
    for (const Way way : kWays) {
      for (const int capacity : {0, 1}) {
        const Channel<T> c(capacity);
        if (capacity == 1) {
          EXPECT_TRUE(offer(c, value, way));
        }
        TaskGroup group;
        group.go([&] { c.send(value); });
        until_idle();
        for (int i = 0; i <= capacity; ++i) EXPECT_EQ(poll(c, way), value);
        EXPECT_EQ(poll(c, way), std::nullopt);
        group.wait();
      }
    }
  });
}

}  // namespace go_chan_nonblock_test
}  // namespace leat
