// Where a program that uses a host device may run: on a plain thread, where the device and whatever
// needs fibers bring schedulers of their own, or inside run. Tests of what must not depend on it:
//
//   class Feed : public PlaceTest {};
//   INSTANTIATE_TEST_SUITE_P(Places, Feed, testing::ValuesIn(kPlaces), place_title);
//   TEST_P(Feed, DeliversEverything) {
//     in_place([] { ... });
//   }
//
// Time is virtual inside run, real on the plain thread.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <ostream>
#include <string>
#include <utility>

#include "tests/support/run.h"

namespace leat::support {

enum class Place : int { kPlainThread = 0, kRunOf1Worker = 1, kRunOf2Workers = 2 };

inline constexpr std::array kPlaces = {Place::kPlainThread, Place::kRunOf1Worker,
                                       Place::kRunOf2Workers};

[[nodiscard]] inline std::string to_string(Place place) {
  switch (place) {
    case Place::kPlainThread: return "PlainThread";
    case Place::kRunOf1Worker: return "RunOf1Worker";
    case Place::kRunOf2Workers: return "RunOf2Workers";
  }
  return "?";
}
inline void PrintTo(Place place, std::ostream* out) {
  *out << to_string(place);
}  // NOLINT: GoogleTest's name
[[nodiscard]] inline std::string place_title(const testing::TestParamInfo<Place>& info) {
  return to_string(info.param);
}

class PlaceTest : public testing::TestWithParam<Place> {
 protected:
  template <class Body>
  static void in_place(Body&& body) {
    if (GetParam() == Place::kPlainThread) {
      std::forward<Body>(body)();
    } else {
      in_virtual_time({.workers = static_cast<int>(GetParam())}, std::forward<Body>(body));
    }
  }
};

}  // namespace leat::support
