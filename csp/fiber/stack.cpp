#include "leat/csp/fiber/stack.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/base/page_size.h"
#include "leat/csp/base/sanitizers.h"
#include "leat/csp/error.h"

#if defined(LEAT_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace leat {
namespace {

// Linux 6.13. Unlike mprotect it splits no mapping, so the number of stacks is not bounded by
// vm.max_map_count (about 32,000 guarded stacks).
constexpr int kMadvGuardInstall = 102;

// Instrumented code needs several times the stack.
#if defined(LEAT_ASAN) || defined(LEAT_TSAN)
constexpr std::size_t kStackScale = 4;
#else
constexpr std::size_t kStackScale = 1;
#endif
// Throwing an exception needs about this much, and every cancellation throws one.
constexpr std::size_t kSmallestStack = std::size_t{16} << 10;
constexpr std::size_t kLargestStack = std::size_t{1} << 46;  // half of what a process can address

constexpr std::size_t kGuard = StackPool::kGuard;

[[noreturn]] void throw_out_of_stacks(const char* call, std::size_t size) {
  const int code = errno;
  throw OutOfMemory(size, "cannot map a fiber stack of " + std::to_string(size) + " bytes",
                    std::string(call) + ": " + std::strerror(code) +
                        "; run fewer fibers at a time, use smaller stacks, or raise "
                        "vm.max_map_count");
}

#if defined(LEAT_EXPLORE)
// Spare stacks of an exploring build. It makes a hundred thousand runs, each with its own
// scheduler, and each run uses the stacks of the run before.
std::vector<StackSpan> spare;
#endif

StackSpan map_stack(std::size_t size) {
#if defined(LEAT_EXPLORE)
  for (StackSpan& one : spare) {
    if (one.size != size) continue;
    std::swap(one, spare.back());
    const StackSpan stack = spare.back();
    spare.pop_back();
    return stack;
  }
#endif
  void* const memory = mmap(nullptr, size + kGuard, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw_out_of_stacks("mmap", size);
  auto* const low = static_cast<std::byte*>(memory);
  // A huge page would commit 2 MiB for a fiber that touches 4 KiB.
  madvise(low, size + kGuard, MADV_NOHUGEPAGE);
  if (madvise(low, kGuard, kMadvGuardInstall) != 0 && mprotect(low, kGuard, PROT_NONE) != 0) {
    const int code = errno;
    munmap(memory, size + kGuard);
    errno = code;
    throw_out_of_stacks("mprotect", size);
  }
  return {low + kGuard, size};
}

// Clears the red zones of frames that never returned.
void unpoison([[maybe_unused]] StackSpan stack) noexcept {
#if defined(LEAT_ASAN)
  __asan_unpoison_memory_region(stack.low, stack.size);
#endif
}

void unmap_stack(StackSpan stack) noexcept {
#if defined(LEAT_EXPLORE)
  spare.push_back(stack);
#else
  unpoison(stack);  // the C library may map this place next, which AddressSanitizer does not see
  munmap(stack.low - kGuard, stack.size + kGuard);
#endif
}

std::size_t rounded(std::size_t size) {
  if (size > kLargestStack) {
    errno = ENOMEM;
    throw_out_of_stacks("mmap", size);
  }
  const std::size_t page = page_size();
  return (std::max(size, kSmallestStack) * kStackScale + page - 1) / page * page;
}

// Of another size than the default: whether it is kept when it comes back.
bool is_kept(std::size_t size) { return size <= tuning::kLargestOtherStack * kStackScale; }

}  // namespace

StackPool::StackPool(std::size_t default_size) : default_size_(rounded(default_size)) {}

StackPool::~StackPool() {
  const SpinLockGuard guard(lock_);
  while (std::byte* const low = pop()) unmap_stack({low, default_size_});
  for (const StackSpan other : others_) {
    if (other.size > 0) unmap_stack(other);
  }
}

std::byte*& StackPool::next(std::byte* low) const noexcept {
  return *reinterpret_cast<std::byte**>(low + default_size_ - sizeof(std::byte*));
}

std::byte* StackPool::pop() noexcept {
  std::byte* const low = free_;
  if (low != nullptr) free_ = next(low);
  return low;
}

StackSpan StackPool::allocate(std::size_t size) {
  const std::size_t wanted = size == 0 ? default_size_ : rounded(size);
  if (wanted == default_size_) {
    const SpinLockGuard guard(lock_);
    if (std::byte* const low = pop()) return {low, default_size_};
  } else if (is_kept(wanted)) {
    const SpinLockGuard guard(lock_);
    const auto other = std::ranges::find(others_, wanted, &StackSpan::size);
    if (other != others_.end()) return std::exchange(*other, StackSpan{});
  }
  return map_stack(wanted);
}

void StackPool::release(StackSpan stack) noexcept {
  unpoison(stack);
  if (stack.size == default_size_) {
    const SpinLockGuard guard(lock_);
    next(stack.low) = free_;
    free_ = stack.low;
    return;
  }
  if (is_kept(stack.size)) {
    const SpinLockGuard guard(lock_);
    auto* place = std::ranges::find(others_, std::size_t{0}, &StackSpan::size);
    if (place == others_.end()) {
      place = &others_[oldest_];
      oldest_ = (oldest_ + 1) % others_.size();
    }
    std::swap(stack, *place);
  }
  if (stack.size > 0) unmap_stack(stack);
}

bool StackPool::Cache::take(StackSpan& stack) noexcept {
  const int count = count_.get();
  if (count == 0) return false;
  count_.set(count - 1);
  stack = {low_[static_cast<std::size_t>(count - 1)].get(), pool_.default_size()};
  tsan_acquire(stack.low);
  return true;
}

void StackPool::Cache::refill() noexcept {
  const SpinLockGuard guard(pool_.lock_);
  while (count_.get() < kMost / 2) {
    std::byte* const low = pool_.pop();
    if (low == nullptr) return;
    low_[static_cast<std::size_t>(count_.get())].set(low);
    count_.add(1);
  }
}

void StackPool::Cache::put(StackSpan stack) noexcept {
  if (stack.size != pool_.default_size()) {
    pool_.release(stack);
    return;
  }
  if (count_.get() == kMost) keep(kMost / 2);
  tsan_release(stack.low);
  low_[static_cast<std::size_t>(count_.get())].set(stack.low);
  count_.add(1);
}

void StackPool::Cache::keep(int few) noexcept {
  while (count_.get() > few) {
    count_.add(-1);
    pool_.release({low_[static_cast<std::size_t>(count_.get())].get(), pool_.default_size()});
  }
}

}  // namespace leat
