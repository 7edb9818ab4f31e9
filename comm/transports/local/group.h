// The communicators of "local", the operations that meet in each, and notices under way.
//
// Always true:
//  - LocalWorld::lock_ guards everything here, except where a Meeting says otherwise.
//  - A Meeting is in one list: of free ones, Group::waiting, the wire's, or of those that run.
//  - The operations of a meeting that does not run are used only while the world has not stopped:
//    until then no other party finishes them.
#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "leat/comm/transports/operation.h"
#include "leat/comm/transports/reduce.h"
#include "leat/csp/channel.h"
#include "leat/csp/clock.h"

namespace leat::comm {

struct Group;

/// The operations of all ranks that belong together: a collective's, or a send and its recv.
struct Meeting {
  /// What they have in common. Several messages of one key wait in the order in which they came.
  struct Key {
    int from = -1;  ///< the sender of a message, as its group counts; -1: a collective
    int to = -1;
    std::uint64_t number = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): it sees the 0 that a comparison is compared with
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  /// The rank of operations[part], as the group counts.
  [[nodiscard]] int rank_of(std::size_t part) const noexcept {
    if (key.from < 0) return static_cast<int>(part);
    return part == 0 ? key.from : key.to;
  }
  /// Sets up the blocks of work. Only its runner calls it, before anybody helps.
  void prepare(bool moves_data) noexcept;
  /// Does blocks of the work until none is left to be claimed. Any thread or fiber, without the
  /// lock.
  void do_blocks() noexcept;
  /// Whether blocks are left to be claimed.
  [[nodiscard]] bool has_blocks() const noexcept;

  std::list<Meeting>::iterator self;  // in its list
  const Group* group = nullptr;
  Key key;
  Signature signature;                 // the first to come's; of a message, the send's once it runs
  std::vector<Operation*> operations;  // by rank, or the send and the recv; null: has not come
  std::size_t come = 0;

  // Constant while it runs.
  std::vector<Input> inputs;
  std::vector<void*> outputs;
  std::uint64_t block_elements = 0;
  std::uint64_t blocks = 0;
  // Without the lock.
  struct alignas(64) Region {  // blocks that callers on some CPUs take first
    std::atomic<std::uint64_t> next{0};
    std::uint64_t end = 0;
  };
  std::array<Region, 8> regions;
  // With the lock.
  int users = 0;           // parties that do blocks; the last one finishes the operations
  bool is_shared = false;  // others than its runner may do blocks

  TimePoint end = {};  // on the wire

 private:
  void do_block(std::uint64_t block) noexcept;
};

/// A notice under way.
struct Posted {
  Notice notice;
  std::shared_ptr<Group> group = nullptr;  // while it is on the wire: the group may be closed
  int to = -1;
  TimePoint at = {};
};

/// One communicator.
struct Group {
  Group(std::uint64_t its_context, std::span<const int> world_ranks)
      : context(its_context),
        members(world_ranks.begin(), world_ranks.end()),
        mailboxes(members.size()),
        has_left(members.size()) {}

  [[nodiscard]] int size() const noexcept { return static_cast<int>(members.size()); }
  /// A rank in the world.
  [[nodiscard]] int member(int rank) const noexcept {
    return members[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] bool is_gone(int rank) const noexcept {
    return has_left[static_cast<std::size_t>(rank)];
  }
  /// The list in which meetings of `key` wait, among others.
  [[nodiscard]] std::list<Meeting>& waiting_with(const Meeting::Key& key) noexcept;

  struct Mailbox {
    Channel<Notice> listener;  // nil: does not listen yet
    std::list<Posted> waiting;
    bool is_flushed = false;  // somebody hands over what waits
  };

  const std::uint64_t context;
  const std::vector<int> members;               // ranks in the world, by rank
  std::array<std::list<Meeting>, 256> waiting;  // by a hash of the key, in the order of coming
  std::vector<Mailbox> mailboxes;
  std::vector<bool> has_left;
  int left = 0;
  int closed = 0;            // ends that were destroyed
  std::size_t reserved = 0;  // meetings that were made for this group's operations
};

}  // namespace leat::comm
