#include "leat/csp/io/descriptor_table.h"

#include <sys/epoll.h>

#include <cerrno>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "leat/csp/error.h"

namespace leat {
namespace {

const char* name_of(std::uint32_t interest) {
  return interest == EPOLLIN ? "readable" : "writable";
}

std::string closed(int descriptor, std::uint32_t interest) {
  return "leat: descriptor " + std::to_string(descriptor) +
         " was closed during a wait until it is " + name_of(interest);
}

[[noreturn]] void throw_error(const DescriptorWait& wait, int error) {
  const std::string text =
      "leat: cannot wait for descriptor " + std::to_string(wait.descriptor) + ": ";
  switch (error) {
    case EBADF: throw Error(DescriptorTable::not_open(wait.descriptor));
    case EPERM:
      throw Error(text + "it is no socket, pipe or other descriptor that epoll knows; read and " +
                  "write it by blocking()");
    case ENOSPC:
      throw Error(text + "the limit fs.epoll.max_user_watches is reached; raise it (sysctl), or " +
                  "wait for fewer descriptors");
    default: throw Error(text + std::generic_category().message(error));
  }
}

}  // namespace

DescriptorWait::DescriptorWait(int fd, std::uint32_t interest)
    : descriptor(fd),
      events(interest),
      channel(1, "descriptor " + std::to_string(fd) + " is " + name_of(interest)) {
  channel.core().get()->expect_only(nullptr);  // for the deadlock report: no fiber sends the token
}

std::string DescriptorTable::not_open(int descriptor) {
  return "leat: cannot wait for descriptor " + std::to_string(descriptor) +
         ": it is not open (any more)";
}

void Closings::note(int descriptor) {
  const std::lock_guard guard(lock_);
  latest_[descriptor] = count() + 1;
  count_.store(count() + 1, std::memory_order_release);
}

void Closings::look_up(int descriptor, std::uint64_t count, std::uint32_t interest) {
  const std::lock_guard guard(lock_);
  const auto place = latest_.find(descriptor);
  if (place != latest_.end() && place->second > count) throw Error(closed(descriptor, interest));
}

void DescriptorTable::arm(DescriptorWait& wait, std::uint64_t closings) {
  const std::lock_guard guard(lock_);
  std::optional<DescriptorReady> earlier;
  static_cast<void>(wait.channel.try_recv(earlier));
  wait.error = nullptr;
  Closings::here().require_none(wait.descriptor, closings, wait.events);

  const auto [place, is_new] = entries_.try_emplace(wait.descriptor);
  Entry& entry = place->second;
  if (wait.listed) unlist(entry, wait);
  Entry others;
  others.waits = entry.waits;
  wait.listed = true;
  wait.next = std::exchange(entry.waits, &wait);
  int error = is_new ? ENOENT : request(EPOLL_CTL_MOD, wait.descriptor, entry);
  if (error == ENOENT) {
    // New, or the number of a descriptor that was closed, which the others have waited for.
    wait.next = nullptr;
    tell_closed(others);
    error = request(EPOLL_CTL_ADD, wait.descriptor, entry);
    // The file had been registered with this number before, and has it again.
    if (error == EEXIST) error = request(EPOLL_CTL_MOD, wait.descriptor, entry);
  }
  if (error == 0) return;
  unlist(entry, wait);
  tell_closed(entry);
  entries_.erase(place);
  throw_error(wait, error);
}

void DescriptorTable::arm_ready(DescriptorWait& wait) {
  const std::lock_guard guard(lock_);
  if (wait.listed) unlist(entries_.find(wait.descriptor)->second, wait);
  wait.error = nullptr;
  tell(wait);
}

void DescriptorTable::disarm(DescriptorWait& wait) noexcept {
  const std::lock_guard guard(lock_);
  if (wait.listed) unlist(entries_.find(wait.descriptor)->second, wait);
}

void DescriptorTable::deliver(std::uint64_t key, std::uint32_t events) noexcept {
  const std::lock_guard guard(lock_);
  const auto place = entries_.find(static_cast<int>(key >> 32U));
  if (place == entries_.end()) return;
  Entry& entry = place->second;
  if (entry.generation != static_cast<std::uint32_t>(key)) return;
  for (DescriptorWait** link = &entry.waits; *link != nullptr;) {
    DescriptorWait& wait = **link;
    if ((events & (wait.events | EPOLLERR | EPOLLHUP)) == 0) {
      link = &wait.next;
      continue;
    }
    *link = wait.next;
    wait.listed = false;
    tell(wait);
  }
  if (entry.waits == nullptr || request(EPOLL_CTL_MOD, place->first, entry) == 0) return;
  tell_closed(entry);
  entries_.erase(place);
}

int DescriptorTable::close_and_tell(int descriptor) {
  const std::lock_guard guard(lock_);
  Closings::here().note(descriptor);
  if (const auto place = entries_.find(descriptor); place != entries_.end()) {
    // For the file may live on, by a copy of the descriptor.
    static_cast<void>(control(EPOLL_CTL_DEL, descriptor, 0, 0));
    tell_closed(place->second);
    entries_.erase(place);
  }
  return close(descriptor);  // under the lock: a wait that begins meanwhile finds it closed
}

// Arms the registration for all waits of the entry.
int DescriptorTable::request(int operation, int descriptor, Entry& entry) noexcept {
  std::uint32_t events = EPOLLONESHOT;
  for (const DescriptorWait* wait = entry.waits; wait != nullptr; wait = wait->next) {
    events |= wait->events;
  }
  entry.generation = ++generation_;
  return control(operation, descriptor, events,
                 static_cast<std::uint64_t>(descriptor) << 32U | entry.generation);
}

void DescriptorTable::unlist(Entry& entry, DescriptorWait& wait) noexcept {
  DescriptorWait** link = &entry.waits;
  while (*link != &wait) link = &(*link)->next;
  *link = wait.next;
  wait.listed = false;
}

// Its owner may destroy the wait at once.
void DescriptorTable::tell(DescriptorWait& wait) noexcept {
  static_cast<void>(wait.channel.try_send({}));  // there is room, or a token
}

void DescriptorTable::tell_closed(Entry& entry) noexcept {
  while (entry.waits != nullptr) {
    DescriptorWait& wait = *std::exchange(entry.waits, entry.waits->next);
    wait.listed = false;
    try {
      throw Error(closed(wait.descriptor, wait.events));
    } catch (...) {
      wait.error = std::current_exception();  // that error, or std::bad_alloc
    }
    tell(wait);
  }
}

}  // namespace leat
