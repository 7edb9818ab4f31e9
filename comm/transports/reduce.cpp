#include "leat/comm/transports/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

namespace leat::comm {
namespace {

// What a block's buffers hold: they stay in the nearest cache, and fit a fiber's stack.
constexpr std::size_t kBlockBytes = 4096;

template <class To>
constexpr To select(bool condition, To yes, To no) {
  return condition ? yes : no;
}

// How each type is stored and added. Without branches, so that loops vectorise.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  // Which NaN a sum of NaNs is depends on the instruction, so all are made one.
  static Stored store(Value value) {
    if constexpr (std::is_floating_point_v<T>) {
      // NOLINTNEXTLINE(misc-redundant-expression): whether it is a NaN
      return select(value != value, std::numeric_limits<T>::quiet_NaN(), value);
    } else {
      return value;
    }
  }
};

struct Half {
  using Stored = std::uint16_t;
  using Value = float;

  static Value load(Stored stored) {
    constexpr std::uint32_t kExponent = 0x7c00U << 13;
    constexpr std::uint32_t kSmallest = 113U << 23;  // the smallest normal one, as a float
    const std::uint32_t bits = (stored & 0x7fffU) << 13;
    const std::uint32_t exponent = bits & kExponent;
    const float subnormal =
        std::bit_cast<float>(bits + kSmallest) - std::bit_cast<float>(kSmallest);
    std::uint32_t result = bits + select(exponent == kExponent, 224U << 23, 112U << 23);
    result = select(exponent == 0, std::bit_cast<std::uint32_t>(subnormal), result);
    return std::bit_cast<float>(result | ((stored & 0x8000U) << 16));
  }

  static Stored store(Value value) {
    constexpr std::uint32_t kInfinite = 0x7f800000;
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t bits = all & 0x7fffffffU;
    // A bit of 0.5F counts as one of the smallest subnormal number, so the addition rounds.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + 0.5F) -
        std::bit_cast<std::uint32_t>(0.5F);
    const std::uint32_t normal = (bits - (112U << 23) + 0xfffU + ((bits >> 13) & 1U)) >> 13;
    std::uint32_t result = select(bits < (113U << 23), subnormal, normal);
    result = select(bits >= (143U << 23), std::uint32_t{0x7c00}, result);  // 65,536
    result |= (all >> 16) & 0x8000U;
    return static_cast<Stored>(select(bits > kInfinite, std::uint32_t{0x7e00}, result));
  }
};

struct Brain {
  using Stored = std::uint16_t;
  using Value = float;
  static Value load(Stored stored) { return std::bit_cast<float>(std::uint32_t{stored} << 16); }
  static Stored store(Value value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    return static_cast<Stored>(select(value != value, std::uint32_t{0x7fc0}, rounded));
  }
};

struct Sum {
  template <class V>
  static V weigh(V value, float weight) {
    if constexpr (std::is_floating_point_v<V>) {
      return value * static_cast<V>(weight);
    } else {
      return value;
    }
  }
  template <class V>
  static V combine(V a, V b) {
    if constexpr (std::is_floating_point_v<V>) {
      return a + b;
    } else {  // wraps around
      return static_cast<V>(std::make_unsigned_t<V>(a) + std::make_unsigned_t<V>(b));
    }
  }
};

struct Max {
  template <class V>
  static V weigh(V value, float /*weight*/) {
    return value;
  }
  // Of equal ones (0 and -0) the lower rank's.
  template <class V>
  static V combine(V a, V b) {
    return select(a < b || b != b, b, a);  // NOLINT(misc-redundant-expression): a NaN
  }
};

// An element at any address.
template <class S>
struct [[gnu::packed, gnu::may_alias]] Loose {
  S value;
};

// One rank's elements of a block.
template <class E, class Op>
struct Operand {
  Operand(const Input& input, std::uint64_t first)
      : elements(static_cast<const Loose<typename E::Stored>*>(input.data) + first),
        weight(input.weight) {}
  typename E::Value operator[](std::size_t i) const {
    return Op::weigh(E::load(elements[i].value), weight);
  }
  const Loose<typename E::Stored>* elements;
  float weight;
};

// Inlined into a function for each instruction set. Of two and of four inputs all contribute.
template <class E, class Op>
[[gnu::always_inline]] inline void combine(std::span<const Input> inputs,
                                           std::span<void* const> outputs, std::uint64_t first,
                                           std::uint64_t second) {
  using Stored = typename E::Stored;
  using Value = typename E::Value;
  using One = Operand<E, Op>;
  constexpr std::size_t kBlock = kBlockBytes / sizeof(Value);
  alignas(64) std::array<Value, kBlock> sums;
  alignas(64) std::array<Stored, kBlock> results;

  for (std::uint64_t at = first; at < second; at += kBlock) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, second - at));
    if (inputs.size() == 2) {
      const One a(inputs[0], at);
      const One b(inputs[1], at);
      for (std::size_t i = 0; i < length; ++i) results[i] = E::store(Op::combine(a[i], b[i]));
    } else if (inputs.size() == 4) {
      const One a(inputs[0], at);
      const One b(inputs[1], at);
      const One c(inputs[2], at);
      const One d(inputs[3], at);
      for (std::size_t i = 0; i < length; ++i) {
        results[i] = E::store(Op::combine(Op::combine(Op::combine(a[i], b[i]), c[i]), d[i]));
      }
    } else {
      bool is_first = true;
      for (const Input& input : inputs) {
        if (input.data == nullptr) continue;
        const One a(input, at);
        if (is_first) {
          for (std::size_t i = 0; i < length; ++i) sums[i] = a[i];
        } else {
          for (std::size_t i = 0; i < length; ++i) sums[i] = Op::combine(sums[i], a[i]);
        }
        is_first = false;
      }
      for (std::size_t i = 0; i < length; ++i) results[i] = E::store(sums[i]);
    }
    // Stores that pass the cache by are faster into other memory, but slower over the inputs: the
    // usual case.
    for (void* output : outputs) {
      std::memcpy(static_cast<Loose<Stored>*>(output) + at, results.data(),
                  length * sizeof(Stored));
    }
  }
}

using Combine = void (*)(std::span<const Input>, std::span<void* const>, std::uint64_t,
                         std::uint64_t);

template <class E, class Op>
void combine_baseline(std::span<const Input> inputs, std::span<void* const> outputs,
                      std::uint64_t first, std::uint64_t second) {
  combine<E, Op>(inputs, outputs, first, second);
}

#if defined(__x86_64__)
// Without FMA, which would round once less.
template <class E, class Op>
[[gnu::target("avx2")]] void combine_avx2(std::span<const Input> inputs,
                                          std::span<void* const> outputs, std::uint64_t first,
                                          std::uint64_t second) {
  combine<E, Op>(inputs, outputs, first, second);
}
const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
#endif

template <class E>
Combine combine_of(Reduction reduction) {
#if defined(__x86_64__)
  if (kHasAvx2) {
    return reduction == Reduction::kSum ? &combine_avx2<E, Sum> : &combine_avx2<E, Max>;
  }
#endif
  return reduction == Reduction::kSum ? &combine_baseline<E, Sum> : &combine_baseline<E, Max>;
}

Combine combine_of(DType dtype, Reduction reduction) {
  switch (dtype) {
    case DType::kInt32: return combine_of<Plain<std::int32_t>>(reduction);
    case DType::kInt64: return combine_of<Plain<std::int64_t>>(reduction);
    case DType::kFloat16: return combine_of<Half>(reduction);
    case DType::kBFloat16: return combine_of<Brain>(reduction);
    case DType::kFloat32: return combine_of<Plain<float>>(reduction);
    case DType::kFloat64: return combine_of<Plain<double>>(reduction);
    default: return nullptr;
  }
}

// What one input's elements become if they need no arithmetic; null: zeros.
void copy(const void* from, std::span<void* const> outputs, std::size_t begin,
          std::size_t bytes) noexcept {
  for (void* output : outputs) {
    std::byte* const to = static_cast<std::byte*>(output) + begin;
    if (from == nullptr) {
      std::memset(to, 0, bytes);
    } else if (from != output) {
      std::memcpy(to, static_cast<const std::byte*>(from) + begin, bytes);
    }
  }
}

}  // namespace

void reduce(DType dtype, Reduction reduction, std::span<const Input> inputs,
            std::span<void* const> outputs, std::uint64_t first, std::uint64_t second) noexcept {
  if (first >= second) return;
  std::array<Input, 4> few;  // those that contribute
  std::size_t count = 0;
  for (const Input& input : inputs) {
    if (input.data == nullptr) continue;
    if (count < few.size()) few[count] = input;
    ++count;
  }
  if (count == 0 || (count == 1 && (few[0].weight == 1 || reduction == Reduction::kMax))) {
    const std::size_t size = gpu::size_of(dtype);
    copy(few[0].data, outputs, first * size, (second - first) * size);
    return;
  }
  if (count <= few.size()) inputs = std::span(few).first(count);
  combine_of(dtype, reduction)(inputs, outputs, first, second);
}

bool is_reducible(DType dtype) noexcept { return combine_of(dtype, Reduction::kSum) != nullptr; }

}  // namespace leat::comm
