#include "leat/feeder/slots/layout.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/feeder/prefetcher_fixture.h"

namespace leat::feeder {
namespace layout_test {

// What making a layout of these throws.
std::string refusal(const std::vector<Field>& fields, const std::vector<Field>& written = {}) {
  try {
    const BatchLayout layout("things", fields, written, 10, 0);
    return "";
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

TEST(BatchLayout, ShapesThatNoMemoryHasAreRefused) {
  const std::int64_t large = std::int64_t{1} << 32;
  const Field good{"good", DType::kUint8, {3}};
  EXPECT_EQ(refusal({good}), "");
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{-1}, {-1, -1}, {3, -2}}) {
    expect_contains(refusal({{"x", DType::kInt64, shape}}), {"things", "\"x\"", "extent of -"});
    expect_contains(refusal({good}, {{"x", DType::kInt64, shape}}), {"\"x\"", "extent of -"});
  }
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
           {(std::int64_t{1} << 61) + 1}, {large, large}, {large, large, 2}, {large, large / 2}}) {
    expect_contains(refusal({{"x", DType::kInt64, shape}}), {"\"x\"", "larger than any memory"});
  }
  expect_contains(refusal({{"x", DType::kInt64, {0}}}), {"\"x\"", "has no bytes"});
}

}  // namespace layout_test
}  // namespace leat::feeder
