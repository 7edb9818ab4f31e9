// A small dataset of real images.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "leat/feeder/dataset.h"
#include "leat/feeder/sources/mnist.h"

namespace leat::feeder {

/// The first images of MNIST's test set.
class FirstImages final : public Dataset {
 public:
  explicit FirstImages(std::uint64_t size) : size_(size) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "first images"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return all().fields(); }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  void read(std::uint64_t index, Sample& out) const override { all().read(index, out); }

 private:
  static const Mnist& all() {
    static const Mnist images("examples/data/mnist", Mnist::kTest);
    return images;
  }
  std::uint64_t size_;
};

}  // namespace leat::feeder
