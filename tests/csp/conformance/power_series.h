// Power series as streams of exact coefficients, each operation a few fibers: McIlroy's "Squinting
// at Power Series", which Go's test/chan/powser1.go is made of.
//
// A series is a channel that delivers the coefficients of 1, x, x^2, ...; it may be closed where
// all that follow are 0. An operation takes its operands: who needs one twice splits it. Everything
// is by rendezvous, so that an operation computes one coefficient ahead of demand. A series may be
// defined by itself; it then unfolds by itself, for as long as the program runs: whoever waits for
// its terms depends on a scheduler that is fair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"

namespace leat::power_series {

/// Exact. Where 64 bits are not enough it is no number (denominator 0), and neither is what is
/// computed from it: a series may be ahead of what it is asked for.
class Rational {
 public:
  Rational(std::int64_t numerator, std::int64_t denominator = 1)  // NOLINT: a number is one
      : numerator_(numerator), denominator_(denominator) {
    if (denominator == 0) return;
    const std::int64_t divisor = std::gcd(numerator, denominator) * (denominator < 0 ? -1 : 1);
    numerator_ /= divisor;
    denominator_ /= divisor;
  }

  friend Rational operator*(const Rational& a, const Rational& b) {
    const Rational x(a.numerator_, b.denominator_);
    const Rational y(b.numerator_, a.denominator_);
    Rational result = 0;
    const bool overflow =
        __builtin_mul_overflow(x.numerator_, y.numerator_, &result.numerator_) ||
        __builtin_mul_overflow(x.denominator_, y.denominator_, &result.denominator_);
    return overflow || x.denominator_ == 0 || y.denominator_ == 0 ? Rational(1, 0) : result;
  }
  friend Rational operator+(const Rational& a, const Rational& b) {
    if (a.denominator_ == 0 || b.denominator_ == 0) return {1, 0};
    const std::int64_t a_factor = b.denominator_ / std::gcd(a.denominator_, b.denominator_);
    const std::int64_t b_factor = a.denominator_ / std::gcd(a.denominator_, b.denominator_);
    std::int64_t first = 0;
    std::int64_t second = 0;
    std::int64_t sum = 0;
    std::int64_t common = 0;
    const bool overflow = __builtin_mul_overflow(a.numerator_, a_factor, &first) ||
                          __builtin_mul_overflow(b.numerator_, b_factor, &second) ||
                          __builtin_add_overflow(first, second, &sum) ||
                          __builtin_mul_overflow(a.denominator_, a_factor, &common);
    return overflow ? Rational(1, 0) : Rational(sum, common);
  }
  [[nodiscard]] Rational reciprocal() const { return {denominator_, numerator_}; }
  friend bool operator==(const Rational&, const Rational&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Rational& r) {
    return out << r.numerator_ << '/' << r.denominator_;
  }

 private:
  std::int64_t numerator_;
  std::int64_t denominator_;
};

using Series = Channel<Rational>;

inline void copy(const Series& from, const Series& to) {
  for (Rational& r : from) to.send(r);
  to.close();
}

/// The polynomial with these coefficients.
inline Series polynomial(std::vector<Rational> coefficients) {
  const Series out(0);
  go([=] {
    for (const Rational& r : coefficients) out.send(r);
    out.close();
  });
  return out;
}

/// 1 + x + x^2 + ...
inline Series ones() {
  const Series out(0);
  go([=] {
    for (;;) out.send(1);
  });
  return out;
}

/// The same series twice. What the one consumer has not yet asked for is kept, as much as it takes;
/// the next coefficient is asked for when either has none left.
inline std::pair<Series, Series> split(const Series& in) {
  const Series first(0);
  const Series second(0);
  go([=] {
    const Series nil;
    std::deque<Rational> for_first;
    std::deque<Rational> for_second;
    bool open = true;
    while (open || !for_first.empty() || !for_second.empty()) {
      Rational next_first = for_first.empty() ? 0 : for_first.front();
      Rational next_second = for_second.empty() ? 0 : for_second.front();
      select(
          on_recv(open && (for_first.empty() || for_second.empty()) ? in : nil,
                  [&](std::optional<Rational> r) {
                    open = r.has_value();
                    if (!r) return;
                    for_first.push_back(*r);
                    for_second.push_back(*r);
                  }),
          on_send(for_first.empty() ? nil : first, next_first, [&] { for_first.pop_front(); }),
          on_send(for_second.empty() ? nil : second, next_second, [&] { for_second.pop_front(); }));
      if (!open && for_first.empty()) first.try_close();
      if (!open && for_second.empty()) second.try_close();
    }
    first.try_close();
    second.try_close();
  });
  return {first, second};
}

inline Series add(const Series& f, const Series& g) {
  const Series out(0);
  go([=] {
    for (;;) {
      const std::optional<Rational> a = f.recv();
      const std::optional<Rational> b = g.recv();
      if (!a && !b) break;
      out.send(a.value_or(0) + b.value_or(0));
    }
    out.close();
  });
  return out;
}

/// c f
inline Series scale(const Rational& c, const Series& f) {
  const Series out(0);
  go([=] {
    for (const Rational& r : f) out.send(c * r);
    out.close();
  });
  return out;
}

/// c + x f
inline Series shift(const Rational& c, const Series& f) {
  const Series out(0);
  go([=] {
    out.send(c);
    copy(f, out);
  });
  return out;
}

/// f g = f0 g0 + x (f0 G + g0 F + x F G), where f = f0 + x F, g = g0 + x G
inline Series mul(const Series& f, const Series& g) {
  const Series out(0);
  go([=] {
    const std::optional<Rational> f0 = f.recv();
    const std::optional<Rational> g0 = g.recv();
    if (!f0 || !g0) return out.close();
    out.send(*f0 * *g0);
    const auto [f1, f2] = split(f);
    const auto [g1, g2] = split(g);
    copy(add(add(scale(*f0, g1), scale(*g0, f1)), shift(0, mul(f2, g2))), out);
  });
  return out;
}

/// f'
inline Series diff(const Series& f) {
  const Series out(0);
  go([=] {
    static_cast<void>(f.recv());
    std::int64_t n = 1;
    for (const Rational& r : f) out.send(n++ * r);
    out.close();
  });
  return out;
}

/// The integral of f that is c at 0.
inline Series integ(const Series& f, const Rational& c) {
  const Series out(0);
  go([=] {
    out.send(c);
    std::int64_t n = 1;
    for (const Rational& r : f) out.send(r * Rational(1, n++));
    out.close();
  });
  return out;
}

/// Starts what computes `out` from `out` itself: define(from), where `from` delivers the same.
template <class Define>
Series fix(const Define& define) {
  const Series in(0);
  const auto [out, again] = split(in);
  go([in, defined = define(again)] { copy(defined, in); });
  return out;
}

/// 1/f = r, where f r = 1: r = 1/f0 - x F r / f0
inline Series recip(const Series& f) {
  const Series out(0);
  go([=] {
    const Rational inverse = f.recv().value().reciprocal();
    copy(fix([&](const Series& r) { return shift(inverse, scale(-1 * inverse, mul(f, r))); }), out);
  });
  return out;
}

/// e^f, f's constant taken as 0: z' = z f'
inline Series exp(const Series& f) {
  return fix([&](const Series& z) { return integ(mul(z, diff(f)), 1); });
}

/// The first `count` coefficients, fewer if there are no more.
inline std::vector<Rational> take(std::size_t count, const Series& f) {
  std::vector<Rational> result;
  while (result.size() < count) {
    const std::optional<Rational> r = f.recv();
    if (!r) break;
    result.push_back(*r);
  }
  return result;
}

}  // namespace leat::power_series
