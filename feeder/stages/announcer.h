// Announcing samples ahead of their reads (Dataset::announce).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "leat/feeder/dataset.h"

namespace leat::feeder {

/// The samples of one reader that are announced and not yet read: a window that has room while it
/// has less than 64 samples and 2 MiB. It also has room for 8 samples of 256 KiB to 2 MiB, and for
/// one sample of any size. So much in flight reaches what a disk gives (half of it: 0.8 to 0.9 of
/// that). Allocates nothing. For one fiber; keeps a reference.
class Announcer {
 public:
  static constexpr std::size_t kMostSamples = 64;
  static constexpr std::size_t kLeastSamples = 8;
  static constexpr std::uint64_t kEnoughBytes = std::uint64_t{2} << 20;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

  Announcer(const Dataset& dataset, std::uint64_t seed) noexcept : dataset_(dataset), seed_(seed) {}

  /// Announces as many of `samples`, from number `from` on, as there is room for. Returns the
  /// number of the first sample that is not announced.
  std::size_t announce(std::span<const std::uint64_t> samples, std::size_t from,
                       std::uint64_t epoch) noexcept;
  /// The sample that was announced first is read now.
  void pop() noexcept;
  /// Forgets all samples.
  void clear() noexcept { count_ = bytes_ = 0; }

  [[nodiscard]] bool has_room() const noexcept {
    return count_ < kMostSamples &&
           (bytes_ < kEnoughBytes || (count_ < kLeastSamples && bytes_ < kMostBytes));
  }
  /// Of the samples in the window, what the dataset has told.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  const Dataset& dataset_;
  const std::uint64_t seed_;
  std::array<std::uint64_t, kMostSamples> sizes_{};  // a ring
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;  // their sum
};

}  // namespace leat::feeder
