// What the tests of composed datasets share: parts whose samples tell which they are.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/sample.h"
#include "tests/support/texts.h"

namespace leat::feeder {

using support::expect_contains;
using support::expect_throws;
using support::text_of;

// Sample i has one int64, "value": `base` + i. Notes the hints that it is given.
class Values final : public Dataset {
 public:
  explicit Values(std::uint64_t size, std::int64_t base = 0, std::string name = "values")
      : size_(size), base_(base), name_(std::move(name)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  void read(std::uint64_t index, Sample& out) const override {
    if (on_read) on_read(index, out);
    out.as<std::int64_t>(0)[0] = base_ + static_cast<std::int64_t>(index);
  }
  [[nodiscard]] Blocking blocking() const noexcept override { return blocks; }
  [[nodiscard]] std::uint64_t digest() const noexcept override { return files; }
  void will_read(std::uint64_t index, std::uint64_t seed,
                 std::uint64_t epoch) const noexcept override {
    note({index, seed, epoch});
  }
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override {
    note({index, seed, epoch});
    return 100 + index;
  }

  struct Hint {
    std::uint64_t index = 0;
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    friend bool operator==(const Hint&, const Hint&) = default;
  };
  [[nodiscard]] Hint hint() const {  // the latest
    const std::scoped_lock lock(mutex_);
    return hint_;
  }
  Blocking blocks = Blocking::kNever;
  std::uint64_t files = 0;
  std::function<void(std::uint64_t, Sample&)> on_read;

 private:
  void note(const Hint& hint) const noexcept {
    const std::scoped_lock lock(mutex_);
    hint_ = hint;
  }

  mutable std::mutex mutex_;
  mutable Hint hint_;
  std::uint64_t size_;
  std::int64_t base_;
  std::string name_;
  std::vector<Field> fields_{{"value", DType::kInt64, {}}};
};

// Samples of variable length: sample i of `lengths.size()` has that many bytes `fill`.
class Rows final : public Dataset {
 public:
  Rows(std::int64_t longest, std::vector<std::size_t> lengths, std::uint8_t fill)
      : lengths_(std::move(lengths)),
        fill_(fill),
        fields_{{.name = "bytes", .dtype = DType::kUint8, .shape = {longest}}} {
    fields_[0].variable_length = true;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "rows"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return lengths_.size(); }
  // A sample of the largest length does not say so: that is what a sample has.
  void read(std::uint64_t index, Sample& out) const override {
    if (lengths_[index] != static_cast<std::size_t>(fields_[0].shape[0])) {
      out.set_length(0, lengths_[index]);
    }
    for (std::size_t i = 0; i < lengths_[index]; ++i) out.as<std::uint8_t>(0)[i] = fill_;
  }
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index, std::size_t) const override {
    return lengths_[index];
  }

 private:
  std::vector<std::size_t> lengths_;
  std::uint8_t fill_;
  std::vector<Field> fields_;
};

// The value that sample `index` of a dataset over Values has.
inline std::int64_t value_of(const Dataset& data, std::uint64_t index, std::uint64_t seed = 0,
                             std::uint64_t epoch = 0) {
  SampleBuffer sample(data.fields(), seed, epoch, index);
  data.read(index, sample);
  return sample.as<std::int64_t>(0)[0];
}

inline std::vector<std::int64_t> values_of(const Dataset& data, std::uint64_t seed = 0,
                                           std::uint64_t epoch = 0) {
  std::vector<std::int64_t> values;
  for (std::uint64_t i = 0; i < data.size(); ++i) values.push_back(value_of(data, i, seed, epoch));
  return values;
}

}  // namespace leat::feeder
