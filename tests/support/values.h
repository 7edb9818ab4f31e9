// Value types that watch what a container does to them.
#pragma once

#include <atomic>
#include <utility>

namespace leat::support {

/// Counts its live instances. Movable, not copyable; knows whether it was moved from.
class Counted {
 public:
  explicit Counted(int number) noexcept : number_(number) { ++live_; }
  Counted(Counted&& other) noexcept : number_(std::exchange(other.number_, kMovedFrom)) { ++live_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  Counted& operator=(Counted&&) = delete;
  ~Counted() { --live_; }

  static constexpr int kMovedFrom = -1;
  /// As given, or kMovedFrom.
  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] static int live() noexcept { return live_.load(); }

 private:
  int number_;
  inline static std::atomic<int> live_{0};
};

/// Has no public constructor but the moving one.
class OnlyMoveConstructible {
 public:
  static OnlyMoveConstructible make(int number) noexcept { return OnlyMoveConstructible(number); }
  OnlyMoveConstructible(OnlyMoveConstructible&&) noexcept = default;
  OnlyMoveConstructible& operator=(OnlyMoveConstructible&&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  explicit OnlyMoveConstructible(int number) noexcept : number_(number) {}
  int number_;
};

/// Sets a flag when it goes: proves that a scope was unwound.
class AtExit {
 public:
  [[nodiscard]] explicit AtExit(std::atomic<int>& count) noexcept : count_(count) {}
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;
  ~AtExit() { ++count_; }

 private:
  std::atomic<int>& count_;
};

}  // namespace leat::support
