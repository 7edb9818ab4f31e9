#include "leat/comm/transports/local/group.h"

#include <algorithm>
#include <utility>

namespace leat::comm {

Group::Group(std::uint64_t its_context, std::span<const int> world_ranks)
    : context(its_context),
      members(world_ranks.begin(), world_ranks.end()),
      ring(16),
      mailboxes(members.size()),
      has_left(members.size()) {}

Group::~Group() {
  for (Mailbox& box : mailboxes) {
    while (Posted* const one = box.waiting.pop()) delete one;
  }
  while (made != nullptr) made = std::move(made->made_before);  // not by recursion
}

Meeting& Group::take_free() noexcept {
  Meeting& meeting = *free;
  free = meeting.next;
  return meeting;
}

void Group::put_free(Meeting& meeting) noexcept {
  std::fill_n(meeting.operations.begin(), meeting.parts, nullptr);
  meeting.come = 0;
  meeting.next = free;
  free = &meeting;
}

std::pair<int, int> Group::line_of(const Operation& operation) const noexcept {
  const int peer = member(operation.peer);
  if (operation.signature.kind == OperationKind::kSend) return {operation.rank, peer};
  return {peer, operation.rank};
}

Group::Bucket& Group::bucket_of(int from, int to, std::uint64_t key) noexcept {
  const auto line = (static_cast<std::uint64_t>(from) << 32) | static_cast<std::uint32_t>(to);
  const std::uint64_t mixed =
      (key * 0x9E3779B97F4A7C15U) ^ (line * 0xBF58476D1CE4E5B9U);  // odd: no bit is lost
  return buckets[(mixed ^ (mixed >> 32)) * 0x94D049BB133111EBU >> 56];
}

bool Group::waits(const Operation& like) noexcept {
  const auto line = line_of(like);
  const Operation* one = bucket_of(line.first, line.second, like.signature.number).first;
  while (one != nullptr && (one->signature != like.signature || line_of(*one) != line)) {
    one = one->link;
  }
  return one != nullptr;
}

Operation* Group::match(Operation& operation) noexcept {
  const auto line = line_of(operation);
  const Signature& mine = operation.signature;
  Bucket& bucket = bucket_of(line.first, line.second, mine.number);
  Operation* before = nullptr;
  for (Operation* one = bucket.first; one != nullptr; before = one, one = one->link) {
    if (one->signature.number != mine.number || line_of(*one) != line) continue;
    if (one->signature.kind == mine.kind) break;  // and none that it could meet waits
    (before != nullptr ? before->link : bucket.first) = one->link;
    if (bucket.last == one) bucket.last = before;
    return one;
  }
  operation.link = nullptr;
  (bucket.last != nullptr ? bucket.last->link : bucket.first) = &operation;
  bucket.last = &operation;
  return nullptr;
}

}  // namespace leat::comm
