// Texts that are no schedules: each is an error that says where and why; and very large ones.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "leat/csp/error.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/text.h"

namespace {

using namespace leat::pipeline;
using namespace std::string_literals;

struct Refusal {
  std::vector<Finding> findings;
  std::string text;
};

// How parse() refuses a text; none: it does not.
std::optional<Refusal> refusal(std::string_view text, std::int32_t microbatches = 0) {
  try {
    static_cast<void>(parse(text, microbatches, "hostile.csv"));
  } catch (const ScheduleError& error) {
    return Refusal{error.findings(), error.what()};
  }
  return std::nullopt;
}

// A text with one wrong cell, and where that is.
struct Wrong {
  std::string what;
  std::string text;
  std::int64_t row;
  std::int64_t column;
};

std::ostream& operator<<(std::ostream& out, const Wrong& one) { return out << one.what; }

class HostileText : public ::testing::TestWithParam<Wrong> {};

TEST_P(HostileText, IsAnErrorWithFileRowColumnAndReason) {
  const std::optional<Refusal> found = refusal(GetParam().text);
  ASSERT_TRUE(found.has_value());
  ASSERT_FALSE(found->findings.empty());
  for (const Finding& one : found->findings) {
    EXPECT_EQ(one.row, GetParam().row) << found->text;
    EXPECT_EQ(one.column, GetParam().column) << found->text;
    EXPECT_FALSE(one.reason.empty());
    EXPECT_NE(found->text.find("hostile.csv: row " + std::to_string(one.row) + ", column " +
                               std::to_string(one.column) + ": " + one.reason),
              std::string::npos)
        << found->text;
  }
  for (const char c : found->text) {
    EXPECT_TRUE((c >= ' ' && c < '\x7f') || c == '\n') << "a control character in: " << found->text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Texts, HostileText,
    ::testing::Values(
        Wrong{"no microbatch", "0F0,0F", 0, 1},
        Wrong{"a letter too many", "0F0,0F1\r\n1F0,1F1,0F0x\r\n", 1, 2},
        Wrong{"no stage", "0F0,F1,0F2\r\n", 0, 1}, Wrong{"nothing but a number", "0F0\n12\n", 1, 0},
        Wrong{"an action that nobody knows", "0F0,0Q0\n", 0, 1},
        Wrong{"small letters", "0F0,0f1\n", 0, 1},
        Wrong{"stage 2^31", "0F0\r\n2147483648F0\r\n", 1, 0},
        Wrong{"stage 2^31 - 1", "0F0\r\n2147483647F0\r\n", 1, 0},
        Wrong{"stage 2^64", "0F0,18446744073709551616F0", 0, 1},
        Wrong{"a stage of 1,000 digits", "0F0,"s + std::string(1000, '9') + "F0", 0, 1},
        Wrong{"the least stage too many", "0F0," + std::to_string(kGreatestNumber + 1) + "F0", 0,
              1},
        Wrong{"microbatch 2^31", "0F0,0F2147483648", 0, 1},
        Wrong{"the least microbatch too many", "0F0,0F" + std::to_string(kGreatestNumber + 1), 0,
              1},
        Wrong{"a negative stage", "0F0,-1F0", 0, 1},
        Wrong{"a negative microbatch", "0F0,0F-1", 0, 1},
        Wrong{"a plus sign of a number", "0F0,0F+1", 0, 1}, Wrong{"a fraction", "0F0,0F1.0", 0, 1},
        Wrong{"a microbatch where there is none", "0F0,0UNSHARD1", 0, 1},
        Wrong{"a transfer without a microbatch", "0F0,0SEND_F", 0, 1},
        Wrong{"a byte-order mark",
              "\xEF\xBB\xBF"
              "0F0,0F1\r\n",
              0, 0},
        Wrong{"NUL for a cell", "0F0,\0,0F1\r\n"s, 0, 1},
        Wrong{"NUL behind a cell", "0F0,0F1\0\r\n"s, 0, 1},
        Wrong{"bytes beyond ASCII", "0F0,0F\xB2\r\n", 0, 1},
        Wrong{"quotes", "0F0,\"0F1\"\r\n", 0, 1},
        Wrong{"a plus without an action behind it", "0F0,0F1+\r\n", 0, 1},
        Wrong{"a plus without an action before it", "0F0,+0F1\r\n", 0, 1},
        Wrong{"a pair without a name", "0F0,(0F1;1B0)\r\n", 0, 1},
        Wrong{"a pair of one", "0F0,(0F1)OVERLAP_F_B\r\n", 0, 1},
        Wrong{"a pair of three", "0F0,(0F1;1B0;1B1)OVERLAP_F_B\r\n", 0, 1},
        Wrong{"a pair of a pair", "0F0,((0F1;1B0)OVERLAP_F_B;1B1)OVERLAP_F_B\r\n", 0, 1},
        Wrong{"a pair that does not end", "0F0,(0F1;1B0\r\n", 0, 1},
        Wrong{"a carriage return within a line", "0F0,0F1\r0F2\n", 0, 1}));

TEST(HostileTexts, WithoutAnyActionAreErrors) {
  for (const std::string& text : {""s, "\n"s, "\r\n"s, " "s, "\r\n\r\n"s, ","s, ",,,\r\n,\r\n"s,
                                  "\0"s, "\xEF\xBB\xBF"s, "\xEF\xBB\xBF\r\n"s, ". . .\n. .\n"s}) {
    const std::optional<Refusal> found = refusal(text);
    ASSERT_TRUE(found.has_value()) << "\"" << text << '"';
    EXPECT_FALSE(found->findings.empty());
    EXPECT_FALSE(found->findings[0].reason.empty());
    if (text.find_first_not_of(" .,\r\n") == std::string::npos) {
      EXPECT_EQ(found->findings[0].row, -1) << "\"" << text << "\" has no place";
      EXPECT_EQ(found->findings[0].column, -1);
    }
  }
}

TEST(HostileTexts, TellAllOfTheirFindingsInOrder) {
  const std::optional<Refusal> found = refusal("0F,0F0\r\n1F0,,1F0x\r\n2Q0\r\n");
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->findings.size(), 3U) << found->text;
  EXPECT_EQ(found->findings[0].row, 0);
  EXPECT_EQ(found->findings[1].row, 1);
  EXPECT_EQ(found->findings[1].column, 2);
  EXPECT_EQ(found->findings[2].row, 2);
}

TEST(HostileTexts, OfAMillionWrongCellsHaveAShortError) {
  std::string text = "0F0";
  for (int i = 0; i < 1'000'000; ++i) text += ",x";
  const std::optional<Refusal> found = refusal(text);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->findings.size(), kMostFindings);
  EXPECT_LT(found->text.size(), 10'000U);
}

TEST(HostileTexts, WithACellOfAMegabyteHaveAShortError) {
  const std::optional<Refusal> found = refusal("0F0," + std::string(1 << 20, 'F') + "\n");
  ASSERT_TRUE(found.has_value());
  EXPECT_LT(found->text.size(), 1000U);
}

// 1,000 ranks with 1,000 cells.
TEST(LargeTexts, OfAMillionCellsComeBackByteForByte) {
  std::string text;
  for (int rank = 0; rank < 1000; ++rank) {
    for (int cell = 0; cell < 1000; ++cell) {
      if (cell > 0) text += ',';
      if (cell % 3 != 2)
        text += std::to_string(rank) + (cell % 3 == 0 ? "F" : "B") + std::to_string(cell / 3);
    }
    text += "\r\n";
  }
  const Schedule schedule = parse(text);
  EXPECT_EQ(schedule.rows.size(), 1000U);
  EXPECT_EQ(schedule.stages, 1000);
  EXPECT_EQ(schedule.microbatches, 334);
  EXPECT_EQ(to_csv(schedule), text);
}

TEST(LargeTexts, OfAMillionCellsInOneRowComeBackByteForByte) {
  std::string text = "0F0";
  for (int cell = 1; cell < 1'000'000; ++cell) text += ",0F" + std::to_string(cell);
  text += "\r\n";
  const Schedule schedule = parse(text);
  ASSERT_EQ(schedule.rows.size(), 1U);
  EXPECT_EQ(schedule.rows[0].size(), 1'000'000U);
  EXPECT_EQ(schedule.microbatches, 1'000'000);
  EXPECT_EQ(to_csv(schedule), text);
}

TEST(ScheduleFiles, ThatCannotBeReadAreErrorsWithTheirPath) {
  const std::filesystem::path folder = ::testing::TempDir();
  for (const std::filesystem::path& path : {folder / "there_is_no_such_file.csv", folder}) {
    try {
      static_cast<void>(read_schedule(path));
      ADD_FAILURE() << path << " was read";
    } catch (const leat::Error& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  }
}

TEST(ScheduleFiles, ThatAreNoSchedulesAreErrorsWithTheirPath) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "hostile_text_test.csv";
  for (const std::string& text : {""s, "0F0,0F\n"s, "\0\0\0\0"s}) {
    std::ofstream(path, std::ios::binary) << text;
    try {
      static_cast<void>(read_schedule(path));
      ADD_FAILURE() << '"' << text << "\" was read";
    } catch (const ScheduleError& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
