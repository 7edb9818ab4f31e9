#include "bench/comm/profiles.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/texts.h"

namespace bench {
namespace {

constexpr const char* kWorkloads = "tests/comm/data/workloads.json";

TEST(CommProfiles, Vgg16At10GigabitsTakesTheTimesThatAreKnown) {
  const std::vector<Profile> profiles = read_profiles(kWorkloads);
  ASSERT_EQ(profiles.front().name, "vgg16");
  const ProfileRow row = measure(profiles.front(), 10);
  constexpr double kRounded = 0.05 + 1e-6;
  EXPECT_NEAR(row.no_overlap, 1447.3, kRounded);
  EXPECT_NEAR(row.bucketed, 1009.3, kRounded);
  EXPECT_NEAR(row.fifo, 1009.3, kRounded);
  EXPECT_NEAR(row.priority_one, 775.7, kRounded);
  EXPECT_NEAR(row.priority_four, 776.7, kRounded);
  EXPECT_NEAR(row.bound, 775.7, kRounded);
}

TEST(CommProfiles, OrderAndOverlapNeverCostTimeAndNothingBeatsTheBound) {
  for (const Profile& profile : read_profiles(kWorkloads)) {
    for (const double gigabits : {10.0, 25.0, 100.0}) {
      SCOPED_TRACE(profile.name + " at " + std::to_string(gigabits));
      const ProfileRow row = measure(profile, gigabits);
      // Pieces end at whole nanoseconds; what these add up to is far below 1 us.
      constexpr double kRounding = 1e-3;
      EXPECT_LE(row.bucketed, row.no_overlap + kRounding);
      EXPECT_LE(row.fifo, row.bucketed + kRounding);
      EXPECT_LE(row.priority_four, row.fifo + kRounding);
      EXPECT_GE(row.priority_one, row.bound - kRounding);
      EXPECT_GE(row.priority_four, row.bound - kRounding);
    }
  }
}

TEST(CommProfiles, AFileThatIsNoneIsToldByItsName) {
  const auto error_of = [](const std::string& text) -> std::string {
    const auto path = std::filesystem::path(testing::TempDir()) / "leat_profiles_test.json";
    std::ofstream(path) << text;
    try {
      (void)read_profiles(path.string());
    } catch (const std::runtime_error& error) {
      leat::support::expect_contains(error.what(), {path.string()});
      return error.what();
    }
    return "no error";
  };
  leat::support::expect_contains(error_of("{"), {"parse error"});
  leat::support::expect_contains(error_of("{}"), {"profiles"});
  leat::support::expect_contains(error_of(R"({"profiles": {"a": {"layers": []}}})"),
                                 {"a has no layers"});
  leat::support::expect_contains(error_of(R"({"profiles": {"a": {"layers": [["x", 4]]}}})"), {"2"});
  EXPECT_THROW((void)read_profiles("/no/such/file"), std::runtime_error);
}

}  // namespace
}  // namespace bench
