#include "leat/feeder/sources/resize_kernels.h"

#include <algorithm>
#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace leat::feeder::resize_kernels {
namespace {

constexpr std::int32_t kHalf = std::int32_t{1} << (kWeightBits - 1);

std::int32_t weight(const WeightPair* pairs, std::uint32_t tap) {
  const WeightPair& pair = pairs[tap / 2];
  return (std::int32_t{pair.high[tap % 2]} << kLowBits) + pair.low[tap % 2];
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::min(sum >> kWeightBits, 255));
}

void along_x_portable(const std::uint8_t* const* rows, std::span<const Taps> taps,
                      const WeightPair* pairs, std::uint8_t* const* out) {
  for (std::size_t r = 0; r < kRows; ++r) {
    std::uint8_t* to = out[r];
    for (const Taps& pixel : taps) {
      std::array<std::int32_t, 3> sum = {kHalf, kHalf, kHalf};
      const std::uint8_t* from = rows[r] + std::size_t{3} * pixel.first;
      for (std::uint32_t k = 0; k < pixel.count; ++k, from += 3) {
        const std::int32_t w = weight(pairs + pixel.pairs, k);
        for (std::size_t c = 0; c < 3; ++c) sum[c] += w * from[c];
      }
      for (std::size_t c = 0; c < 3; ++c) *to++ = rounded(sum[c]);
    }
  }
}

void along_y_portable(const std::uint8_t* rows, std::size_t stride, const Taps& taps,
                      const WeightPair* pairs, std::uint8_t* out, std::size_t bytes) {
  constexpr std::size_t kBlock = 16;
  for (std::size_t at = 0; at < bytes; at += kBlock) {
    std::array<std::int32_t, kBlock> sum;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    sum.fill(kHalf);
    for (std::uint32_t k = 0; k < taps.count; ++k) {
      const std::int32_t w = weight(pairs + taps.pairs, k);
      const std::uint8_t* from = rows + (taps.first + k) * stride + at;
      for (std::size_t i = 0; i < kBlock; ++i) sum[i] += w * from[i];
    }
    for (std::size_t i = 0; i < kBlock; ++i) out[at + i] = rounded(sum[i]);
  }
}

constexpr Kernels kPortable{along_x_portable, along_y_portable};

#if defined(__x86_64__)

// Casts to the pointer type that the intrinsics take. It needs no alignment.
const __m128i* vector_at(const std::uint8_t* bytes) {
  return reinterpret_cast<const __m128i*>(bytes);
}

__attribute__((target("avx2"))) __m256i broadcast(const std::int16_t* two) {
  std::int32_t both = 0;
  __builtin_memcpy(&both, two, sizeof both);
  return _mm256_set1_epi32(both);
}

// Combines the sums of the high and of the low products to bytes, in 32 bits each.
__attribute__((target("avx2"))) __m256i combined(__m256i high, __m256i low) {
  const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, kLowBits), low);
  return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(kHalf)), kWeightBits);
}

// Loads 16 bytes of two rows, one row in each half of a vector.
__attribute__((target("avx2"))) __m256i two_rows(const std::uint8_t* a, const std::uint8_t* b) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(vector_at(a))),
                                 _mm_loadu_si128(vector_at(b)), 1);
}

__attribute__((target("avx2"))) void store_pixel(std::uint8_t* to, int rgb) {
  __builtin_memcpy(to, &rgb, 4);  // the fourth byte is overwritten by the next pixel
}

__attribute__((target("avx2"))) void along_x_avx2(const std::uint8_t* const* rows,
                                                  std::span<const Taps> taps,
                                                  const WeightPair* pairs,
                                                  std::uint8_t* const* out) {
  // Pixels 0 and 1 of R0 G0 B0 R1 G1 B1 ... as 16-bit pairs R0 R1, G0 G1, B0 B1; and pixels 2, 3.
  const __m256i first_two = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const __m256i second_two = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
  std::size_t at = 0;
  for (const Taps& pixel : taps) {
    __m256i high01 = _mm256_setzero_si256();
    __m256i low01 = high01;
    __m256i high23 = high01;
    __m256i low23 = high01;
    const WeightPair* pair = pairs + pixel.pairs;
    std::size_t from = std::size_t{3} * pixel.first;
    const auto add = [&](__m256i rows01, __m256i rows23, const WeightPair& weights)
        __attribute__((target("avx2"), always_inline)) {
      const __m256i high = broadcast(weights.high);
      const __m256i low = broadcast(weights.low);
      high01 = _mm256_add_epi32(high01, _mm256_madd_epi16(rows01, high));
      low01 = _mm256_add_epi32(low01, _mm256_madd_epi16(rows01, low));
      high23 = _mm256_add_epi32(high23, _mm256_madd_epi16(rows23, high));
      low23 = _mm256_add_epi32(low23, _mm256_madd_epi16(rows23, low));
    };
    std::uint32_t left = pixel.count;
    for (; left > 2; left -= std::min(left, 4U), from += 12, pair += 2) {
      const __m256i rows01 = two_rows(rows[0] + from, rows[1] + from);
      const __m256i rows23 = two_rows(rows[2] + from, rows[3] + from);
      add(_mm256_shuffle_epi8(rows01, first_two), _mm256_shuffle_epi8(rows23, first_two), pair[0]);
      add(_mm256_shuffle_epi8(rows01, second_two), _mm256_shuffle_epi8(rows23, second_two),
          pair[1]);
    }
    if (left > 0) {
      const __m256i rows01 = two_rows(rows[0] + from, rows[1] + from);
      const __m256i rows23 = two_rows(rows[2] + from, rows[3] + from);
      add(_mm256_shuffle_epi8(rows01, first_two), _mm256_shuffle_epi8(rows23, first_two), pair[0]);
    }
    const __m256i words = _mm256_packs_epi32(combined(high01, low01), combined(high23, low23));
    const __m256i bytes = _mm256_packus_epi16(words, words);  // rows 0, 2, .., .., 1, 3, .., ..
    const __m128i even = _mm256_castsi256_si128(bytes);
    const __m128i odd = _mm256_extracti128_si256(bytes, 1);
    store_pixel(out[0] + at, _mm_cvtsi128_si32(even));
    store_pixel(out[1] + at, _mm_cvtsi128_si32(odd));
    store_pixel(out[2] + at, _mm_extract_epi32(even, 1));
    store_pixel(out[3] + at, _mm_extract_epi32(odd, 1));
    at += 3;
  }
}

__attribute__((target("avx2"))) void along_y_avx2(const std::uint8_t* rows, std::size_t stride,
                                                  const Taps& taps, const WeightPair* pairs,
                                                  std::uint8_t* out, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 16) {
    // Unpacking leaves the sums of the lower and the upper 8 bytes in two vectors. Packing joins
    // them again.
    __m256i high_a = _mm256_setzero_si256();
    __m256i low_a = high_a;
    __m256i high_b = high_a;
    __m256i low_b = high_a;
    const WeightPair* pair = pairs + taps.pairs;
    const std::uint8_t* from = rows + taps.first * stride + at;
    for (std::uint32_t k = 0; k < taps.count; k += 2, ++pair, from += 2 * stride) {
      const std::uint8_t* second = k + 1 < taps.count ? from + stride : from;  // its weight is 0
      const __m256i one = _mm256_cvtepu8_epi16(_mm_loadu_si128(vector_at(from)));
      const __m256i two = _mm256_cvtepu8_epi16(_mm_loadu_si128(vector_at(second)));
      const __m256i a = _mm256_unpacklo_epi16(one, two);
      const __m256i b = _mm256_unpackhi_epi16(one, two);
      const __m256i high = broadcast(pair->high);
      const __m256i low = broadcast(pair->low);
      high_a = _mm256_add_epi32(high_a, _mm256_madd_epi16(a, high));
      low_a = _mm256_add_epi32(low_a, _mm256_madd_epi16(a, low));
      high_b = _mm256_add_epi32(high_b, _mm256_madd_epi16(b, high));
      low_b = _mm256_add_epi32(low_b, _mm256_madd_epi16(b, low));
    }
    const __m256i words = _mm256_packs_epi32(combined(high_a, low_a), combined(high_b, low_b));
    const __m128i packed =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + at), packed);
  }
}

constexpr Kernels kAvx2{along_x_avx2, along_y_avx2};

#endif

}  // namespace

const Kernels& portable() noexcept { return kPortable; }

const Kernels& fastest() noexcept {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return kAvx2;
#endif
  return kPortable;
}

}  // namespace leat::feeder::resize_kernels
