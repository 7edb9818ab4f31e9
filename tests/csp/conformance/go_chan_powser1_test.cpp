// Go's test/chan/powser1.go: arithmetic of power series. Hundreds of short-lived fibers whose
// channels form loops: a value that is lost, doubled or out of place changes a coefficient, a lost
// wake-up is a deadlock.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "leat/csp/scheduler.h"
#include "tests/csp/conformance/power_series.h"
#include "tests/support/run.h"

namespace leat {
namespace go_chan_powser1_test {

using power_series::add;
using power_series::diff;
using power_series::integ;
using power_series::mul;
using power_series::ones;
using power_series::polynomial;
using power_series::Rational;
using power_series::recip;
using power_series::scale;
using power_series::Series;
using power_series::shift;
using power_series::split;
using power_series::take;
using support::run_each;

using Coefficients = std::vector<Rational>;

TEST(GoChanPowser1, Add) {
  run_each([] {
    EXPECT_EQ(take(4, add(ones(), ones())), (Coefficients{2, 2, 2, 2}));
    EXPECT_EQ(take(9, add(polynomial({1, 2, 3}), polynomial({1}))), (Coefficients{2, 2, 3}));
    EXPECT_EQ(take(9, add(polynomial({}), polynomial({}))), Coefficients{});
  });
}

TEST(GoChanPowser1, SplitIsTheSameTwiceThoughOneIsFarBehind) {
  run_each([] {
    const auto [a, b] = split(diff(ones()));
    EXPECT_EQ(take(5, a), (Coefficients{1, 2, 3, 4, 5}));
    EXPECT_EQ(take(6, b), (Coefficients{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(take(1, a), (Coefficients{6}));
    const auto [c, d] = split(polynomial({1, 2}));
    EXPECT_EQ(take(9, c), (Coefficients{1, 2}));
    EXPECT_EQ(take(9, d), (Coefficients{1, 2}));
  });
}

TEST(GoChanPowser1, DiffAndInteg) {
  run_each([] {
    EXPECT_EQ(take(4, diff(ones())), (Coefficients{1, 2, 3, 4}));
    EXPECT_EQ(take(4, integ(ones(), 0)), (Coefficients{0, 1, {1, 2}, {1, 3}}));
    EXPECT_EQ(take(4, diff(integ(ones(), 7))), (Coefficients{1, 1, 1, 1}));
  });
}

TEST(GoChanPowser1, Mul) {
  run_each([] {
    EXPECT_EQ(take(6, mul(ones(), ones())), (Coefficients{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(take(9, mul(polynomial({1, 1}), polynomial({1, -1}))), (Coefficients{1, 0, -1, 0}));
    EXPECT_EQ(take(6, mul(polynomial({1, -1}), ones())), (Coefficients{1, 0, 0, 0, 0, 0}));
    EXPECT_EQ(take(9, mul(polynomial({}), ones())), Coefficients{});
  });
}

TEST(GoChanPowser1, Recip) {
  run_each([] {
    EXPECT_EQ(take(5, recip(ones())), (Coefficients{1, -1, 0, 0, 0}));
    const auto [f, g] = split(polynomial({2, 3, 5, 7}));
    EXPECT_EQ(take(8, mul(f, recip(g))), (Coefficients{1, 0, 0, 0, 0, 0, 0, 0}));
  });
}

TEST(GoChanPowser1, Exp) {
  run_each([] {
    std::int64_t factorial = 1;
    Coefficients expected{1};
    for (int n = 1; n < 12; ++n) expected.emplace_back(1, factorial *= n);
    EXPECT_EQ(take(12, power_series::exp(polynomial({0, 1}))), expected);
    // of x/(1 - x)
    EXPECT_EQ(take(10, power_series::exp(ones())), (Coefficients{1,
                                                                 1,
                                                                 {3, 2},
                                                                 {13, 6},
                                                                 {73, 24},
                                                                 {167, 40},
                                                                 {4051, 720},
                                                                 {37'633, 5040},
                                                                 {43'817, 4480},
                                                                 {4'596'553, 362'880}}));
  });
}

// sin' = cos, cos' = -sin: two series defined by each other.
TEST(GoChanPowser1, SineAndCosineOfEachOther) {
  run_each([] {
    Series cosine_again(0);
    const auto [sine, sine_again] = split(integ(cosine_again, 0));
    const auto [cosine, back] = split(integ(scale(-1, sine_again), 1));
    go([cosine_again, from = back] { power_series::copy(from, cosine_again); });
    const auto [s1, s2] = split(sine);
    const auto [c1, c2] = split(cosine);
    EXPECT_EQ(take(10, add(mul(s1, s2), mul(c1, c2))),
              (Coefficients{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  });
}

// tan' = 1 + tan^2
TEST(GoChanPowser1, TanByItsDifferentialEquation) {
  run_each([] {
    const Series tan = power_series::fix([](const Series& t) {
      const auto [t1, t2] = split(t);
      return integ(add(polynomial({1}), mul(t1, t2)), 0);
    });
    EXPECT_EQ(take(12, tan),
              (Coefficients{
                  0, 1, 0, {1, 3}, 0, {2, 15}, 0, {17, 315}, 0, {62, 2835}, 0, {1382, 155'925}}));
  });
}

}  // namespace go_chan_powser1_test
}  // namespace leat
