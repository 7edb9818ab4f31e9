// What the table asks of the kernel, and what it makes of a refusal. The kernel is played.
#include "leat/csp/io/descriptor_table.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <cerrno>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"

namespace leat {
namespace descriptor_table_test {

using Operations = std::vector<int>;

constexpr int kNumber = 3;

class Table final : public DescriptorTable {
 public:
  std::deque<int> errors;  // of the next requests; none when empty

  Operations take_requests() { return std::exchange(requests_, {}); }
  void deliver_latest(std::uint32_t events) { deliver(key_, events); }

 protected:
  int control(int operation, int descriptor, std::uint32_t /*events*/,
              std::uint64_t key) noexcept override {
    EXPECT_EQ(descriptor, kNumber);
    requests_.push_back(operation);
    key_ = key;
    if (errors.empty()) return 0;
    const int error = errors.front();
    errors.pop_front();
    return error;
  }
  int close(int /*descriptor*/) noexcept override { return 0; }

 private:
  Operations requests_;
  std::uint64_t key_ = 0;
};

enum class Told { kNothing, kReady, kClosed };

Told told(const DescriptorWait& wait) {
  std::optional<DescriptorReady> token;
  if (wait.channel.try_recv(token) != ChannelStatus::ok) return Told::kNothing;
  return wait.error == nullptr ? Told::kReady : Told::kClosed;
}

struct PlayedKernel : testing::Test {
  void arm(DescriptorWait& wait) { table.arm(wait, Closings::here().count()); }

  Table table;
  DescriptorWait reader{kNumber, EPOLLIN};
  DescriptorWait writer{kNumber, EPOLLOUT};
};

// Its number went away from the file and came back, and the kernel has kept the registration.
TEST_F(PlayedKernel, TakesOverARegistrationThatTheKernelHas) {
  table.errors = {EEXIST};
  arm(reader);
  EXPECT_EQ(table.take_requests(), (Operations{EPOLL_CTL_ADD, EPOLL_CTL_MOD}));
  table.deliver_latest(EPOLLIN);
  EXPECT_EQ(told(reader), Told::kReady);
}

TEST_F(PlayedKernel, EndsTheOtherWaitsWhereOneIsRefused) {
  arm(reader);
  table.errors = {EBADF};
  EXPECT_THROW(arm(writer), Error);
  EXPECT_EQ(told(reader), Told::kClosed);
  EXPECT_EQ(told(writer), Told::kNothing);
  table.take_requests();
  arm(writer);
  EXPECT_EQ(table.take_requests(), Operations{EPOLL_CTL_ADD});
}

TEST_F(PlayedKernel, EndsTheWaitsThatAnEventLeavesWhereTheyAreRefused) {
  arm(reader);
  arm(writer);
  table.errors = {EBADF};
  table.deliver_latest(EPOLLOUT);
  EXPECT_EQ(told(writer), Told::kReady);
  EXPECT_EQ(told(reader), Told::kClosed);
  table.take_requests();
  arm(reader);
  EXPECT_EQ(table.take_requests(), Operations{EPOLL_CTL_ADD});
}

// Otherwise the kernel keeps it as long as a copy of the descriptor is open.
TEST_F(PlayedKernel, TakesTheRegistrationBackWhereItCloses) {
  arm(reader);
  table.take_requests();
  EXPECT_EQ(table.close_and_tell(kNumber), 0);
  EXPECT_EQ(table.take_requests(), Operations{EPOLL_CTL_DEL});
  EXPECT_EQ(told(reader), Told::kClosed);
}

}  // namespace descriptor_table_test
}  // namespace leat
