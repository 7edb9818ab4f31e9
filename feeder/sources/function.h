// A dataset whose samples a function computes.
//
// Example
//   const leat::feeder::FunctionDataset squares(
//       "squares", {{"square", leat::feeder::DType::kInt64, {}}}, 1000,
//       [](std::uint64_t index, leat::feeder::Sample& out) {
//         out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(index * index);
//       });
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/feeder/dataset.h"

namespace leat::feeder {

/// A dataset whose read() calls a function. Thread-safe if the function is.
class FunctionDataset final : public Dataset {
 public:
  /// Writes sample `index` into `out`, under the rules of Dataset::read: it is called from several
  /// fibers or threads at the same time.
  using Function = std::function<void(std::uint64_t index, Sample& out)>;

  /// `blocking` says how often the function blocks (Dataset::blocking). Throws
  /// std::invalid_argument if `function` is empty.
  FunctionDataset(std::string name, std::vector<Field> fields, std::uint64_t size,
                  Function function, Blocking blocking = Blocking::kNever)
      : name_(std::move(name)),
        fields_(std::move(fields)),
        size_(size),
        function_(std::move(function)),
        blocking_(blocking) {
    if (!function_) throw std::invalid_argument("leat: dataset \"" + name_ + "\" has no function");
  }

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  /// Calls the function, and throws what the function throws.
  void read(std::uint64_t index, Sample& out) const override { function_(index, out); }
  [[nodiscard]] Blocking blocking() const noexcept override { return blocking_; }

 private:
  std::string name_;
  std::vector<Field> fields_;
  std::uint64_t size_;
  Function function_;
  Blocking blocking_;
};

}  // namespace leat::feeder
