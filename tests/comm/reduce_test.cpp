#include "leat/comm/transports/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace leat::comm {
namespace {

using gpu::BFloat16;
using gpu::Float16;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The bits that represent a number with `digits` bits behind the point and the smallest normal
// exponent `low`, rounded to the nearest, ties to even; by arithmetic on exact doubles.
std::uint16_t round_to(double value, int digits, int low, int bias) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
  const auto infinite =
      static_cast<std::uint16_t>((2U * static_cast<unsigned>(bias) + 1) << digits);
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinite | (1U << (digits - 1)));
  const double size = std::fabs(value);
  if (size == 0) return sign;
  const int exponent = std::isinf(size) ? bias + 1 : std::max(std::ilogb(size), low);
  if (exponent > bias) return sign | infinite;
  // nearbyint() rounds ties to even. A carry into the next exponent is right as it stands.
  const auto units = static_cast<unsigned>(std::nearbyint(std::ldexp(size, digits - exponent)));
  const unsigned field = static_cast<unsigned>(exponent - low) << digits;
  return static_cast<std::uint16_t>(sign | (field + units));
}

float value_of(std::uint16_t bits, int digits, int low, int bias) {
  const unsigned fraction = bits & ((1U << digits) - 1);
  const int field = (bits & 0x7fff) >> digits;
  double size = std::ldexp(fraction, low - digits);
  if (field == 2 * bias + 1) {
    size = fraction == 0 ? kInfinity : std::numeric_limits<double>::quiet_NaN();
  } else if (field > 0) {
    size = std::ldexp(fraction + (1U << digits), field - 1 + low - digits);
  }
  return static_cast<float>((bits & 0x8000) != 0 ? -size : size);
}

// How the reference reads and writes an element.
template <class T>
T read(T element) {
  return element;
}
float read(Float16 element) { return value_of(element.bits, 10, -14, 15); }
float read(BFloat16 element) { return value_of(element.bits, 7, -126, 127); }

template <class T, class V>
T written(V value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return {round_to(value, 10, -14, 15)};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return {round_to(value, 7, -126, 127)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
  } else {
    return static_cast<T>(value);
  }
}

// One element of the result, as the header says it.
template <class T>
T naive(Reduction reduction, const std::vector<std::vector<T>>& inputs,
        const std::vector<float>& weights, const std::vector<bool>& is_absent, std::size_t i) {
  using Value = decltype(read(T{}));
  bool is_first = true;
  volatile Value sum{};  // so that the compiler contracts nothing
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    if (is_absent[r]) continue;
    Value value = read(inputs[r][i]);
    if constexpr (std::is_floating_point_v<Value>) {
      if (reduction == Reduction::kSum) {
        volatile Value product = value * static_cast<Value>(weights[r]);
        value = product;
      }
    }
    if (is_first) {
      sum = value;
    } else if (reduction == Reduction::kMax) {
      const Value before = sum;
      if (value > before || value != value) sum = value;
    } else if constexpr (std::is_integral_v<Value>) {
      using Unsigned = std::make_unsigned_t<Value>;
      const Value before = sum;
      sum = static_cast<Value>(static_cast<Unsigned>(before) + static_cast<Unsigned>(value));
    } else {
      sum = sum + value;
    }
    is_first = false;
  }
  const Value result = sum;
  return written<T>(result);
}

// Any bits, and those of small numbers, whose sums are exact less often than not.
template <class T>
T random_element(std::mt19937_64& random) {
  const std::uint64_t choice = random();
  T element;
  if (choice % 4 == 0) {
    const std::uint64_t bits = random();
    std::memcpy(&element, &bits, sizeof(element));
    return element;
  }
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random());
  } else {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    return written<T>(
        static_cast<decltype(read(T{}))>(std::ldexp(uniform, static_cast<int>(choice % 24))));
  }
}

template <class T>
std::uint64_t bits_of(const T& element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &element, sizeof(element));
  return bits;
}

template <class T>
class Reduce : public testing::Test {
 protected:
  static constexpr DType kType = gpu::kDTypeOf<T>;

  // Memory whose first element has the address `offset` behind an aligned one.
  struct Memory {
    Memory(std::size_t count, std::size_t shift) : bytes(count * sizeof(T) + 64), offset(shift) {}
    void* data() { return bytes.data() + offset; }
    T at(std::size_t i) const {
      T element;
      std::memcpy(&element, bytes.data() + offset + i * sizeof(T), sizeof(T));
      return element;
    }
    std::vector<std::byte> bytes;
    std::size_t offset;
  };

  struct Case {
    std::size_t ranks = 2;
    std::size_t count = 0;
    Reduction reduction = Reduction::kSum;
    bool is_weighted = false;
    bool has_absent = false;
    bool is_in_place = false;
    std::size_t shift = 0;
  };

  // Reduces random elements [first, second), and compares all bits of all outputs.
  void check(const Case& of) {
    SCOPED_TRACE(std::to_string(of.ranks) + " ranks, " + std::to_string(of.count) + " elements");
    std::vector<std::vector<T>> values(of.ranks);
    std::vector<float> weights(of.ranks, 1);
    std::vector<bool> is_absent(of.ranks);
    std::vector<Memory> in;
    std::vector<Memory> out;
    std::vector<Input> inputs(of.ranks);
    std::vector<void*> outputs(of.ranks);
    for (std::size_t r = 0; r < of.ranks; ++r) {
      for (std::size_t i = 0; i < of.count; ++i) values[r].push_back(random_element<T>(random_));
      if (of.is_weighted) weights[r] = weight_of(random_() % 9, 17);
      if (of.has_absent) is_absent[r] = random_() % 2 == 0;
      in.emplace_back(of.count, of.shift == 0 ? 0 : (of.shift + r) % 16);
      if (of.count > 0) std::memcpy(in[r].data(), values[r].data(), of.count * sizeof(T));
      out.emplace_back(of.count, of.shift == 0 ? 0 : (of.shift + 5 * r) % 16);
    }
    for (std::size_t r = 0; r < of.ranks; ++r) {
      inputs[r] = {is_absent[r] ? nullptr : in[r].data(), weights[r]};
      outputs[r] = of.is_in_place ? in[r].data() : out[r].data();
    }
    const std::size_t first = of.count / 7;
    const std::size_t second = of.count - of.count / 5;
    reduce(kType, of.reduction, inputs, outputs, first, second);

    const bool is_copy = std::ranges::count(is_absent, false) == 1;
    for (std::size_t i = 0; i < of.count; ++i) {
      const T expected = is_any(is_absent) ? naive(of.reduction, values, weights, is_absent, i)
                                           : written<T>(decltype(read(T{})){});
      for (std::size_t r = 0; r < of.ranks; ++r) {
        const T got = (of.is_in_place ? in : out)[r].at(i);
        if (i < first || i >= second) {  // others' elements are left alone
          ASSERT_EQ(bits_of(got), of.is_in_place ? bits_of(values[r][i]) : 0) << i << " of " << r;
        } else if (!(is_copy && is_nan(got) && is_nan(expected))) {
          ASSERT_EQ(bits_of(got), bits_of(expected)) << i << " of " << r;
        }
      }
    }
  }

  static bool is_any(const std::vector<bool>& is_absent) {
    return std::ranges::count(is_absent, false) > 0;
  }
  static bool is_nan(T element) { return read(element) != read(element); }

  std::mt19937_64 random_{25};
};

using Types = testing::Types<float, double, std::int32_t, std::int64_t, Float16, BFloat16>;
struct Names {
  template <class T>
  static std::string GetName(int) {
    return gpu::to_string(gpu::kDTypeOf<T>);
  }
};
TYPED_TEST_SUITE(Reduce, Types, Names);

TYPED_TEST(Reduce, HasTheBitsOfOneAdditionAfterAnotherForAllSmallCounts) {
  for (std::size_t count = 0; count <= 70; ++count) {
    for (const std::size_t ranks : {1U, 2U, 3U, 4U, 5U, 8U}) {
      this->check({.ranks = ranks, .count = count});
      this->check({.ranks = ranks, .count = count, .reduction = Reduction::kMax});
      this->check({.ranks = ranks, .count = count, .is_weighted = true});
    }
  }
}

TYPED_TEST(Reduce, HasTheBitsOfOneAdditionAfterAnotherForManyBlocks) {
  for (const std::size_t ranks : {1U, 2U, 3U, 4U, 5U}) {
    this->check({.ranks = ranks, .count = 20'011});
    this->check({.ranks = ranks, .count = 20'011, .reduction = Reduction::kMax});
    this->check({.ranks = ranks, .count = 20'011, .is_weighted = true});
    this->check({.ranks = ranks, .count = 20'011, .is_weighted = true, .is_in_place = true});
  }
}

TYPED_TEST(Reduce, LeavesOutWhoContributesNothing) {
  for (int round = 0; round < 60; ++round) {
    const auto ranks = static_cast<std::size_t>(1 + round % 9);
    this->check({.ranks = ranks, .count = 1500, .is_weighted = round % 2 == 0, .has_absent = true});
  }
}

TYPED_TEST(Reduce, WritesOverItsInputs) {
  for (const std::size_t ranks : {1U, 2U, 3U, 4U, 7U}) {
    this->check({.ranks = ranks, .count = 3000, .is_in_place = true});
    this->check({.ranks = ranks, .count = 3000, .has_absent = true, .is_in_place = true});
  }
}

TYPED_TEST(Reduce, TakesMemoryOfAnyAlignment) {
  for (std::size_t shift = 1; shift < 16; ++shift) {
    for (const std::size_t ranks : {1U, 2U, 3U, 4U}) {
      this->check({.ranks = ranks, .count = 1100, .shift = shift});
      this->check({.ranks = ranks, .count = 1100, .is_weighted = true, .shift = shift});
    }
  }
}

TYPED_TEST(Reduce, AddsAllPairsOfSpecialNumbers) {
  using Value = decltype(read(TypeParam{}));
  if constexpr (std::is_floating_point_v<Value>) {
    using Limits = std::numeric_limits<Value>;
    std::vector<TypeParam> special;
    for (const Value one : {Value{0}, Value{1}, Limits::infinity(), Limits::quiet_NaN(),
                            Limits::denorm_min(), Limits::min(), Limits::max(), Value(0x1p-14),
                            Value(0x1p-24), Value(0x1p-25), Value(65504), Value(65519)}) {
      special.push_back(written<TypeParam>(one));
      special.push_back(written<TypeParam>(-one));
    }
    std::vector<std::vector<TypeParam>> inputs(2);
    for (const TypeParam a : special) {
      for (const TypeParam b : special) {
        inputs[0].push_back(a);
        inputs[1].push_back(b);
      }
    }
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
      for (const float weight : {1.0F, 0.0F, 0.3F}) {
        const std::vector<Input> both{{inputs[0].data(), weight}, {inputs[1].data(), 1}};
        std::vector<TypeParam> result(inputs[0].size());
        const std::array<void*, 1> output{result.data()};
        reduce(this->kType, reduction, both, output, 0, result.size());
        for (std::size_t i = 0; i < result.size(); ++i) {
          const TypeParam expected = naive(reduction, inputs, {weight, 1}, {false, false}, i);
          ASSERT_EQ(bits_of(result[i]), bits_of(expected)) << i;
        }
      }
    }
  }
}

// Every number, beside numbers that make it land on, above and below a tie.
template <class T>
void check_all_16_bit_numbers() {
  std::vector<std::vector<T>> inputs(2);
  for (const float other : {0.0F, 0x1p-24F, 0x1p-11F, 3.0F, -1000.0F}) {
    for (std::uint32_t bits = 0; bits < 65'536; ++bits) {
      inputs[0].push_back({static_cast<std::uint16_t>(bits)});
      inputs[1].push_back(written<T>(other));
    }
  }
  for (const float weight : {1.0F, 0.7F, 0x1p-9F}) {
    const std::vector<Input> both{{inputs[0].data(), weight}, {inputs[1].data(), 1}};
    std::vector<T> result(inputs[0].size());
    const std::array<void*, 1> output{result.data()};
    reduce(gpu::kDTypeOf<T>, Reduction::kSum, both, output, 0, result.size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      const T expected = naive(Reduction::kSum, inputs, {weight, 1}, {false, false}, i);
      ASSERT_EQ(result[i].bits, expected.bits) << inputs[0][i].bits << " * " << weight;
    }
  }
}

TEST(ReduceFloat16, ReadsAndRoundsEveryNumber) { check_all_16_bit_numbers<Float16>(); }
TEST(ReduceBFloat16, ReadsAndRoundsEveryNumber) { check_all_16_bit_numbers<BFloat16>(); }

TEST(ReduceTypes, AreThoseThatRanksExchange) {
  EXPECT_TRUE(is_reducible(DType::kFloat32));
  EXPECT_TRUE(is_reducible(DType::kFloat64));
  EXPECT_TRUE(is_reducible(DType::kFloat16));
  EXPECT_TRUE(is_reducible(DType::kBFloat16));
  EXPECT_TRUE(is_reducible(DType::kInt32));
  EXPECT_TRUE(is_reducible(DType::kInt64));
  EXPECT_FALSE(is_reducible(DType::kUint8));
  EXPECT_FALSE(is_reducible(DType::kInt16));
  EXPECT_FALSE(is_reducible(DType::kBool));
}

}  // namespace
}  // namespace leat::comm
