// Ownership of what an Arrow stream gives: its schema and its arrays.
#pragma once

#include <string>
#include <vector>

#include "leat/feeder/sources/columns/arrow_abi.h"

namespace leat::feeder {

/// A struct of the Arrow C interfaces that is released at the end of its life. Moves as the
/// specification says.
template <class T>
class ArrowOwner {
 public:
  ArrowOwner() = default;
  ArrowOwner(ArrowOwner&& other) noexcept : it_(other.it_) { other.it_.release = nullptr; }
  ArrowOwner& operator=(ArrowOwner&&) = delete;
  ~ArrowOwner() {
    if (it_.release != nullptr) it_.release(&it_);
  }
  [[nodiscard]] T* get() noexcept { return &it_; }
  [[nodiscard]] const T* get() const noexcept { return &it_; }

 private:
  T it_ = {};
};

/// All that a stream gives. Releases it in its destructor, in the thread that calls that; until
/// then, nothing is released. Not thread-safe before fetch() has returned; afterwards constant.
class ArrowTable {
 public:
  /// Moves the stream out of `stream`, and calls nothing of it. Throws std::invalid_argument if it
  /// was moved or released before.
  explicit ArrowTable(ArrowArrayStream& stream);
  ArrowTable(const ArrowTable&) = delete;
  ArrowTable& operator=(const ArrowTable&) = delete;
  ~ArrowTable() = default;

  /// Takes the schema, and all arrays. Throws leat::Error, with `name`, the rows before it and the
  /// producer's text, if the producer fails; if it was called before; and if the schema lacks a
  /// format or a child, or an array has a negative length. Children of arrays are not looked at.
  void fetch(const std::string& name);

  [[nodiscard]] const ArrowSchema& schema() const noexcept { return *schema_.get(); }
  [[nodiscard]] const std::vector<ArrowOwner<ArrowArray>>& arrays() const noexcept {
    return arrays_;
  }

 private:
  ArrowOwner<ArrowArrayStream> stream_;  // released last
  ArrowOwner<ArrowSchema> schema_;
  std::vector<ArrowOwner<ArrowArray>> arrays_;
};

}  // namespace leat::feeder
