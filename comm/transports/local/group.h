// What the ends of one communicator share, and the operations that meet there.
//
// Always true:
//  - Everything here is guarded by LocalWorld::lock_, but for what a Meeting says.
//  - An operation is referred to from the ring, a bucket or the wire only while the world has not
//    stopped: until then no other party finishes it.
//  - A Meeting is in the free list, in the ring, on the wire, or it runs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "leat/comm/transports/operation.h"
#include "leat/comm/transports/reduce.h"
#include "leat/csp/channel.h"
#include "leat/csp/clock.h"

namespace leat::comm {

struct Group;

/// The operations of all ranks that belong together: a collective's, or a send and its recv.
struct Meeting {
  explicit Meeting(Group& home);
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting() = default;

  /// The operations, all of which have come.
  [[nodiscard]] std::span<Operation* const> all() const noexcept {
    return {operations.data(), parts};
  }
  /// Sets up the blocks of work. Only its runner calls it, before anybody helps.
  void prepare(bool moves_data) noexcept;
  /// Does blocks of the work until none is left to be claimed. Returns how many. Any thread or
  /// fiber, without the lock.
  [[nodiscard]] std::uint64_t do_blocks() noexcept;
  /// Whether blocks are left to be claimed.
  [[nodiscard]] bool has_blocks() const noexcept;

  Group& group;
  Signature signature;                 // that of the first to come
  std::vector<Operation*> operations;  // by rank; null: has not come. Or the send, then its recv
  std::size_t parts = 0;
  std::size_t come = 0;

  // Constant while it runs.
  std::vector<Input> inputs;
  std::vector<void*> outputs;
  std::uint64_t block_elements = 0;
  std::uint64_t blocks = 0;
  // Without the lock.
  struct alignas(64) Region {  // of blocks, that those of one CPU take first
    std::atomic<std::uint64_t> next{0};
    std::uint64_t end = 0;
  };
  std::array<Region, 8> regions;
  std::atomic<std::uint64_t> units_left{0};  // blocks, and one of its runner's: who ends the last
                                             // one finishes the operations
  // With the lock.
  int users = 0;            // who may touch the meeting while it runs
  bool is_shared = false;   // stands in Group::running
  Meeting* next = nullptr;  // in the list in which it is
  std::unique_ptr<Meeting> made_before;

  // On the wire.
  TimePoint end = {};
  bool has_lines = false;  // a send that runs, and whose lines are not free again

 private:
  void divide() noexcept;
  void do_block(std::uint64_t block) noexcept;
};

/// A notice under way.
struct Posted {
  Notice notice;
  std::shared_ptr<Group> group = nullptr;  // while it is on the wire: the group may be closed
  int to = -1;
  TimePoint at = {};
  Posted* next = nullptr;
};

/// A list of T by T::next, first in, first out.
template <class T>
struct Fifo {
  void push(T& one) noexcept {
    one.next = nullptr;
    (last != nullptr ? last->next : first) = &one;
    last = &one;
  }
  [[nodiscard]] T* pop() noexcept {
    T* const one = first;
    if (one != nullptr) first = one->next;
    if (first == nullptr) last = nullptr;
    return one;
  }
  T* first = nullptr;
  T* last = nullptr;
};

/// One communicator.
struct Group : std::enable_shared_from_this<Group> {
  Group(std::uint64_t its_context, std::span<const int> world_ranks);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  [[nodiscard]] int size() const noexcept { return static_cast<int>(members.size()); }
  /// A rank in the world.
  [[nodiscard]] int member(int rank) const noexcept {
    return members[static_cast<std::size_t>(rank)];
  }
  /// The place of the collective `number`, which may hold another one.
  [[nodiscard]] Meeting*& place(std::uint64_t number) noexcept {
    return ring[number & (ring.size() - 1)];
  }
  [[nodiscard]] Meeting& take_free() noexcept;
  void put_free(Meeting& meeting) noexcept;

  /// Sends or recvs that wait for their peers: a list by Operation::link, in the order in which
  /// they came. Of one (from, to, key) either sends or recvs wait.
  struct Bucket {
    Operation* first = nullptr;
    Operation* last = nullptr;
  };
  [[nodiscard]] Bucket& bucket_of(int from, int to, std::uint64_t key) noexcept;
  /// Removes and returns the first operation that `operation` meets, or appends `operation`: null.
  [[nodiscard]] Operation* match(Operation& operation) noexcept;
  /// Whether such an operation waits for its peer.
  [[nodiscard]] bool waits(const Operation& like) noexcept;
  /// The sender's and the receiver's rank in the world.
  [[nodiscard]] std::pair<int, int> line_of(const Operation& operation) const noexcept;

  struct Mailbox {
    Channel<Notice> listener;  // nil: does not listen yet
    Fifo<Posted> waiting;
    bool is_flushed = false;  // somebody hands over what waits
  };

  const std::uint64_t context;
  const std::vector<int> members;  // ranks in the world, by rank
  std::vector<Meeting*> ring;      // collectives that some ranks have called; a power of two
  std::array<Bucket, 256> buckets = {};
  Meeting* free = nullptr;
  Meeting* running = nullptr;  // with blocks for helpers
  std::unique_ptr<Meeting> made;
  std::vector<Mailbox> mailboxes;
  std::vector<bool> has_left;
  int left = 0;
  int closed = 0;               // ends that were destroyed
  std::shared_ptr<Group> next;  // in the world's list
};

}  // namespace leat::comm
