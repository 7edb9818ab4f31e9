// Tables: aligned, as CSV, and as JSON.
#include "leat/pipeline/schedule/table.h"

#include <gtest/gtest.h>

namespace schedule_program {
namespace table_test {

const Table kTable{.columns = {"kind", "makespan", "bubble", "note"},
                   .rows = {{"gpipe", 33, 0.25, ""},
                            {"zbv", Json(), Json(), "no \"shape\", none"},
                            {"x", 1234567890, 1, "a\nb"}}};

TEST(ScheduleTable, NumbersAreAlignedToTheRightAndTextsToTheLeft) {
  EXPECT_EQ(to_text(kTable, Format::kGrid),
            "kind     makespan  bubble  note\n"
            "gpipe          33   0.250\n"
            "zbv             -       -  no \"shape\", none\n"
            "x      1234567890       1  a\nb\n");
}

TEST(ScheduleTable, CsvQuotesWhatNeedsIt) {
  EXPECT_EQ(to_text(kTable, Format::kCsv),
            "kind,makespan,bubble,note\n"
            "gpipe,33,0.25,\n"
            "zbv,,,\"no \"\"shape\"\", none\"\n"
            "x,1234567890,1,\"a\nb\"\n");
}

TEST(ScheduleTable, JsonHasTheColumnsNames) {
  const Json json = Json::parse(to_text(kTable, Format::kJson));
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json[0].at("makespan"), 33);
  EXPECT_TRUE(json[1].at("bubble").is_null());
  EXPECT_EQ(json[1].at("note"), "no \"shape\", none");
}

TEST(ScheduleTable, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(to_line(Json("a\xFF")), "\"a\xEF\xBF\xBD\"\n");
}

}  // namespace table_test
}  // namespace schedule_program
