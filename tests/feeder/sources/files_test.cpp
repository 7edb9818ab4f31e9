#include "leat/feeder/sources/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <filesystem>
#include <string>
#include <vector>

#include "leat/feeder/sources/braces.h"
#include "leat/feeder/sources/mapped_file.h"
#include "tests/feeder/sources/idx_files.h"

namespace leat::feeder {
namespace files_test {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

class Files : public ::testing::Test {
 protected:
  void touch(const std::string& name) const {
    fs::create_directories((root() / name).parent_path());
    directory_.write(name, {1});
  }
  void touch(std::initializer_list<const char*> names) const {
    for (const char* name : names) touch(std::string(name));
  }
  const fs::path& root() const { return directory_.path(); }
  std::string at(const std::string& name) const { return (root() / name).string(); }

  // What is found, below the root.
  std::vector<std::string> found(const FilePatterns& patterns,
                                 std::string_view extension = ".bin") const {
    std::vector<std::string> names;
    for (const fs::path& file : find_files(patterns, extension)) {
      names.push_back(file.lexically_relative(root()).string());
    }
    return names;
  }
  std::string error(const FilePatterns& patterns) const {
    return error_of([&] { static_cast<void>(find_files(patterns, ".bin")); });
  }

  TemporaryDirectory directory_;
};

TEST_F(Files, AFileIsItself) {
  touch({"a.txt", "b[1].bin", "c{0..3}.bin", "b1.bin"});
  EXPECT_EQ(found(at("a.txt")), Names{"a.txt"}) << "whatever its extension";
  EXPECT_EQ(found(at("b[1].bin")), Names{"b[1].bin"}) << "whatever characters are in its name";
  EXPECT_EQ(found(at("c{0..3}.bin")), Names{"c{0..3}.bin"});
}

TEST_F(Files, ADirectoryIsItsFilesOfTheExtension) {
  touch({"d/2.bin", "d/10.bin", "d/1.bin", "d/x.txt", "d/.hidden.bin", "d/sub/3.bin"});
  fs::create_directory(at("d/no.bin"));
  fs::create_symlink(at("d/x.txt"), at("d/link.bin"));
  EXPECT_EQ(found(at("d")), (Names{"d/1.bin", "d/10.bin", "d/2.bin", "d/link.bin"}));
  EXPECT_EQ(found(at("d"), ".txt"), Names{"d/x.txt"});
  EXPECT_EQ(found(at("d"), ""), (Names{"d/1.bin", "d/10.bin", "d/2.bin", "d/link.bin", "d/x.txt"}));
}

TEST_F(Files, WildcardsMatchInEveryPartOfThePath) {
  touch({"a1/x.bin", "a2/x.bin", "a2/y.bin", "b1/x.bin", "a3/sub/x.bin", "a4", ".a5/x.bin"});
  EXPECT_EQ(found(at("a*/x.bin")), (Names{"a1/x.bin", "a2/x.bin"}));
  EXPECT_EQ(found(at("a?/*.bin")), (Names{"a1/x.bin", "a2/x.bin", "a2/y.bin"}));
  EXPECT_EQ(found(at("[ab]1/*")), (Names{"a1/x.bin", "b1/x.bin"}));
  EXPECT_EQ(found(at("[!b]*/*/x.bin")), Names{"a3/sub/x.bin"});
  EXPECT_EQ(found(at("*")), Names{"a4"}) << "directories are left out, hidden names too";
  EXPECT_EQ(found(at(".a*/*")), Names{".a5/x.bin"});
  EXPECT_EQ(found(at("a*/sub/x.bin")), Names{"a3/sub/x.bin"});
}

TEST_F(Files, WildcardsMayBeRelative) {
  touch({"r/1.bin", "r/2.bin"});
  const fs::path before = fs::current_path();
  fs::current_path(root());
  const std::vector<fs::path> files = find_files("r/*.bin", ".bin");
  const std::vector<fs::path> here = find_files("*/1.bin", ".bin");
  fs::current_path(before);
  EXPECT_EQ(files, (std::vector<fs::path>{"r/1.bin", "r/2.bin"}));
  EXPECT_EQ(here, std::vector<fs::path>{"r/1.bin"});
}

TEST_F(Files, BracesAreRangesAndAlternatives) {
  for (int i = 0; i <= 12; ++i) {
    touch("s_" + std::string(i < 10 ? "00" : "0") + std::to_string(i) + ".bin");
    touch("t" + std::to_string(i));
  }
  EXPECT_EQ(found(at("s_{000..012}.bin")).size(), 13U);
  EXPECT_EQ(found(at("s_{009..011}.bin")), (Names{"s_009.bin", "s_010.bin", "s_011.bin"}));
  EXPECT_EQ(found(at("s_{011..009}.bin")), (Names{"s_009.bin", "s_010.bin", "s_011.bin"}));
  EXPECT_EQ(found(at("t{9..11}")), (Names{"t10", "t11", "t9"}));
  EXPECT_EQ(found(at("s_0{00,1{0..2}}.bin")),
            (Names{"s_000.bin", "s_010.bin", "s_011.bin", "s_012.bin"}));
  EXPECT_EQ(found(at("{s_000.bin,t{1,2}}")), (Names{"s_000.bin", "t1", "t2"}));
  EXPECT_EQ(found(at("t{,1}0")), (Names{"t0", "t10"}));
  EXPECT_EQ(found(at("{s_00[0-1]*,t1?}")), (Names{"s_000.bin", "s_001.bin", "t10", "t11", "t12"}));
  touch("u{v}w1");
  EXPECT_EQ(found(at("u{v}w{1..1}")), Names{"u{v}w1"}) << "braces without a choice are themselves";
}

TEST_F(Files, OrderIsByBytesInEveryLocaleWhateverTheOrderOfPatterns) {
  touch({"B.bin", "a.bin", "b.bin", "A.bin", "_.bin", "\xc3\xa4.bin", "a-b/x.bin", "a/x.bin"});
  const Names sorted = {"A.bin", "B.bin",   "_.bin", "a-b/x.bin",
                        "a.bin", "a/x.bin", "b.bin", "\xc3\xa4.bin"};
  const std::string locale = std::setlocale(LC_ALL, nullptr);
  for (const char* other : {"C", "C.UTF-8", "en_US.UTF-8"}) {
    std::setlocale(LC_ALL, other);  // whichever there are
    EXPECT_EQ(found({at("a/x.bin"), at("*.bin"), at("a-b/*")}), sorted);
    EXPECT_EQ(found({at("a-b"), at("*.bin"), at("a")}), sorted);
  }
  std::setlocale(LC_ALL, locale.c_str());
}

TEST_F(Files, WhatNamesNothingIsToldWithThePattern) {
  touch({"d/a.txt", "e/sub/a.bin"});
  expect_contains(error(at("missing.bin")),
                  {"no files from \"" + at("missing.bin") + "\"", "No such file or directory"});
  expect_contains(error(at("d/*.bin")), {"\"" + at("d/*.bin") + "\"", "it matches no file"});
  expect_contains(error(at("e/*")), {"it matches no file", "directory/*"});
  expect_contains(error(at("d")), {"there are no files *.bin in the directory " + at("d")});
  expect_contains(error(at("none/*.bin")), {at("none"), "No such file or directory"});
  expect_contains(error(at("d/a.txt/*.bin")), {at("d/a.txt"), "Not a directory"});
  expect_contains(error(""), {"it is empty"});
  expect_contains(error(std::vector<std::string>{}), {"the list of patterns is empty"});
}

TEST_F(Files, AGapInARangeIsAnErrorNotASmallerDataset) {
  touch({"s0.bin", "s2.bin"});
  expect_contains(error(at("s{0..2}.bin")), {at("s{0..2}.bin"), at("s1.bin") + ": No such file"});
  expect_contains(error(at("s{0,1}*")), {at("s{0,1}*"), "\"" + at("s1*") + "\" matches no file"});
}

// What bash 5.2 prints for `echo <pattern>`, with `set -f` and without backslashes taken away.
TEST(Braces, AreExpandedAsByBash) {
  struct Row {
    const char* pattern;
    Names names;
  };
  const std::vector<Row> rows = {
      {"{1..3}", {"1", "2", "3"}},
      {"{3..1}", {"3", "2", "1"}},
      {"{9..11}", {"9", "10", "11"}},
      {"{08..11..2}", {"08", "10"}},
      {"{1..3..-1}{0..9..4}", {"10", "14", "18", "20", "24", "28", "30", "34", "38"}},
      {"{5..1..2}{1..2..0}", {"51", "52", "31", "32", "11", "12"}},
      {"{-01..1}", {"-01", "000", "001"}},
      {"{+1..2}", {"1", "2"}},
      {"{a..e..2}{C..A}", {"aC", "aB", "aA", "cC", "cB", "cA", "eC", "eB", "eA"}},
      {"{a,b{c,d}}", {"a", "bc", "bd"}},
      {"x{,y}z", {"xz", "xyz"}},
      {"{a,{1..2}}{b,}", {"ab", "a", "1b", "1", "2b", "2"}},
      // Braces that stand for themselves.
      {"{v}", {"{v}"}},
      {"{}", {"{}"}},
      {"{1..b}{1..2}", {"{1..b}1", "{1..b}2"}},
      {"{1..}{..2}{1...2}{1..2..}", {"{1..}{..2}{1...2}{1..2..}"}},
      {"a{b,c", {"a{b,c"}},
      {"ab,c}", {"ab,c}"}},
      {"{a{b,c}", {"{ab", "{ac"}},
      {"{{a,b}}", {"{a}", "{b}"}},
      {"{a{1..2}..b}x{c,d}", {"{a{1..2}..b}xc", "{a{1..2}..b}xd"}},
      {"{{a,b}..c}", {"a..c", "b..c"}},
      {"{v},x}", {"v}", "x"}},
      {"{},a}", {"{},a}"}},
      {"b{},a}", {"b}", "ba"}},
      // A backslash takes a meaning, and stays.
      {R"(\{1..3})", {R"(\{1..3})"}},
      {R"({1..3\})", {R"({1..3\})"}},
      {R"({a\,b,c})", {R"(a\,b)", "c"}},
      {R"({a,b\},c})", {"a", R"(b\})", "c"}},
      {R"({a,\{b,c\}})", {"a", R"(\{b)", R"(c\})"}},
      {R"(\\{a,b})", {R"(\\a)", R"(\\b)"}},
      // Brackets do not.
      {"[{]1..3[}]", {"[{]1..3[}]"}},
      {"[{a,b}]", {"[a]", "[b]"}},
  };
  for (const Row& row : rows) EXPECT_EQ(expand_braces(row.pattern), row.names) << row.pattern;
}

TEST_F(Files, BracesAndBracketsOfANameCanBeWritten) {
  touch(
      {"{1..3}/a.bin", "[run]/a.bin", "r/a.bin", "x,y/{a}.bin", "x/{a}.bin", "n*/a.bin", "b\\c/1"});
  for (const char* pattern : {R"(\{1..3}/*.bin)", "[{]1..3[}]/*.bin", R"({1..3\}/a.bin)"}) {
    EXPECT_EQ(found(at(pattern)), Names{"{1..3}/a.bin"}) << pattern;
  }
  for (const char* pattern : {R"(\[run\]/*.bin)", "[[]run]/*.bin", R"(\[run]/a.bin)"}) {
    EXPECT_EQ(found(at(pattern)), Names{"[run]/a.bin"}) << pattern;
  }
  EXPECT_EQ(found(at("[run]/*.bin")), Names{"r/a.bin"});
  EXPECT_EQ(found(at(R"(x{\,y,}/\{a}.bin)")), (Names{"x,y/{a}.bin", "x/{a}.bin"}));
  EXPECT_EQ(found(at(R"(n\*/?.bin)")), Names{"n*/a.bin"});
  EXPECT_EQ(found(at(R"(b\\c/[1])")), Names{"b\\c/1"});
  EXPECT_EQ(found(at("b\\c/1")), Names{"b\\c/1"}) << "the name of a file";
  EXPECT_EQ(found(at("{[run],x}/*")), (Names{"r/a.bin", "x/{a}.bin"})) << "a choice is a pattern";
  EXPECT_EQ(found(at(R"(\[run\])")), Names{"[run]/a.bin"}) << "a directory";
}

TEST_F(Files, WhereBracketsAndBracesMatchNothingTheErrorSaysHowANameHasThem) {
  touch({"[ab]/a.bin", "{1..3}/a.bin"});
  expect_contains(error(at("[ab]/*.bin")), {"matches no file", R"(a [ in a name is written \[)"});
  expect_contains(error(at("{1..3}/*.bin")),
                  {at("1") + ": No such file", R"(a { in a name is written \{)"});
  const std::string text = error(at(R"(\[c\]*\{)"));
  EXPECT_EQ(text.find("in a name"), std::string::npos) << text;
}

TEST_F(Files, BracesForTooManyNamesAreRefused) {
  expect_contains(error(at("a{0..99999999999}")), {"more than 1000000 names"});
  expect_contains(error(at("a{-9223372036854775808..9223372036854775807}")), {"more than 1000000"});
  expect_contains(error(at("a{0..1000000}")), {"more than 1000000 names"});
  expect_contains(error(at("a{0..9999}{0..9999}")), {"more than 1000000 names"});
}

// A local file of such a name is read all the same.
TEST_F(Files, AnAddressIsNotSupported) {
  const auto unsupported = [](const std::string& pattern, const std::string& scheme) {
    expect_contains(error_of([&] { static_cast<void>(find_files(pattern, ".tar")); }),
                    {"no files from \"" + pattern + "\"", "\"" + scheme + "\" is not supported"});
  };
  for (const char* scheme : {"https://", "s3://", "gs://", "hf://", "file://", "s3:/"}) {
    unsupported(scheme + std::string("bucket/x.tar"), scheme);
    unsupported(scheme + std::string("bucket/x-{000..010}.tar"), scheme);
    unsupported(scheme + std::string("bucket/*.tar"), scheme);
    unsupported(scheme + std::string("bucket/") + std::string(300, 'x'), scheme);
  }
  unsupported("pipe:cat x.tar", "pipe:");
  unsupported("pipe:curl -s https://a/{0..1}.tar | gunzip", "pipe:");
  unsupported("simplecache::s3://bucket/x.tar", "simplecache::");
  unsupported("zip://*.tar::x.zip", "::");
  for (const char* braces : {"{s3,gs}://b/x.tar", "{s3://a,b}/x.tar"}) {
    expect_contains(error(braces), {"\"s3://\" is not supported"});
  }
  expect_contains(error("C:\\data.tar"), {"C:data.tar: No such file"});

  touch({"s3:/bucket/x.bin", "a::b1.bin", "a::b2.bin", "pipe:cat x"});
  const fs::path before = fs::current_path();
  fs::current_path(root());
  for (const char* name :
       {"s3://bucket/x.bin", "s3://bucket", "s3://*/*", "a::b?.bin", "pipe:cat x"}) {
    EXPECT_GE(find_files(name, ".bin").size(), 1U) << name;
  }
  fs::current_path(before);
}

std::string times(std::size_t count, const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

// Neither their number nor the length of a name is bounded by the stack or by the memory.
TEST_F(Files, AnyNumberOfBracesIsToldShortly) {
  for (const std::string& pattern :
       {times(60'000, "{}"), times(60'000, "{") + times(60'000, "}"),
        times(60'000, "{a,") + "b" + times(60'000, "}"), "{" + times(60'000, "0") + "1..999999}",
        times(60'000, "x") + "{1..100000}"}) {
    const std::string text = error(pattern);
    EXPECT_LT(text.size(), 1200U);
    expect_contains(text, {pattern.substr(0, 100)});
  }
  touch(times(20, "{}") + "1");
  EXPECT_EQ(found(at(times(20, "{}") + "{1..1}")), Names{times(20, "{}") + "1"});
}

TEST_F(Files, APatternCannotBreakAMessagesLine) {
  expect_contains(error(at("a\nb\x1b[2J*")), {at("a?b?[2J*") + "\": it matches no file"});
  touch("a\nb.bin");
  expect_contains(error_of([&] { const MappedFile file(at("a\nb.bin/c")); }),
                  {at("a?b.bin/c") + ": Not a directory"});
}

TEST_F(Files, AFileNamedTwiceIsRefused) {
  touch({"a.bin", "b.bin"});
  expect_contains(error({at("a.bin"), at("*.bin")}),
                  {at("a.bin") + " is named twice, also by ", at("*.bin")});
  expect_contains(error(at("{a,b,a}.bin")), {at("a.bin") + " is named twice; "});
  expect_contains(error({at("a.bin"), at("./a.bin")}), {"is named twice"});
}

TEST_F(Files, WhatIsNeitherFileNorDirectoryIsRefused) {
  touch({"d/a.bin", "l/a.bin"});
  ASSERT_EQ(mkfifo(at("d/pipe.bin").c_str(), 0600), 0);
  const std::string problem = at("d/pipe.bin") + " is neither a file nor a directory";
  expect_contains(error(at("d/pipe.bin")), {problem});
  expect_contains(error(at("d")), {problem});
  expect_contains(error(at("d/*.bin")), {problem});
  fs::create_symlink("nowhere", at("l/b.bin"));
  for (const char* pattern : {"l", "l/*", "l/b.bin"}) {
    expect_contains(error(at(pattern)), {at("l/b.bin"), "No such file or directory"});
  }
  fs::create_symlink(at("loop"), at("loop"));
  expect_contains(error(at("loop")), {at("loop"), "Too many levels of symbolic links"});
}

TEST_F(Files, UnreadableDirectoryIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  touch("d/a.bin");
  fs::permissions(at("d"), fs::perms::none);
  for (const char* pattern : {"d", "d/*.bin", "?/*.bin"}) {
    expect_contains(error(at(pattern)), {at("d"), "Permission denied"});
  }
  fs::permissions(at("d"), fs::perms::owner_all);
}

}  // namespace files_test
}  // namespace leat::feeder
