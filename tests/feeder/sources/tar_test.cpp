// Which files an archive holds and where, in all the dialects; and what is no whole archive.
#include "leat/feeder/sources/tar.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/data/synthetic_web.h"
#include "tests/feeder/sources/web_files.h"

namespace leat::feeder {
namespace tar_test {

class Tar : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "a.tar"; }
  void write(const Bytes& bytes) const { directory_.write("a.tar", bytes); }

  std::vector<TarMember> members() const {  // without folders
    TarReader tar(path());
    std::vector<TarMember> found;
    for (TarMember member; tar.next(member);) {
      if (member.kind != TarKind::kFolder) found.push_back(member);
    }
    return found;
  }
  std::string error() const {
    return error_of([&] { static_cast<void>(members()); });
  }
  std::string error(const Bytes& bytes) const {
    write(bytes);
    return error();
  }
  // The data of a member, as its place says.
  std::string data(const TarMember& member) const {
    const Bytes bytes = read_bytes(path());
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(member.data);
    return {begin, begin + static_cast<std::ptrdiff_t>(member.size)};
  }

  const std::string long_name_ = std::string(60, 'd') + "/" + std::string(90, 'f') + ".jpg";
  TemporaryDirectory directory_;
};

TEST_F(Tar, FilesAreFoundWhereTheyAre) {
  write(tar_file("a/0.cls", "7") + tar_file("a/0.txt", std::string(512, 'x')) +
        tar_file("a/1.txt", "") + tar_file("a/1.cls", std::string(20'000, 'y')) + tar_end());
  const std::vector<TarMember> found = members();
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].name, "a/0.cls");
  EXPECT_EQ(found[0].begin, 0U);
  EXPECT_EQ(found[0].data, 512U);
  EXPECT_EQ(data(found[0]), "7");
  EXPECT_EQ(data(found[1]), std::string(512, 'x'));
  EXPECT_EQ(data(found[2]), "");
  EXPECT_EQ(data(found[3]), std::string(20'000, 'y'));
  EXPECT_EQ(found[3].begin, 512U * 5);
  const Bytes bytes = read_bytes(path());
  for (const TarMember& member : found) {
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data()) + member.begin;
    EXPECT_EQ(tar_digest({begin, member.data - member.begin}), member.digest);
  }
}

TEST_F(Tar, MembersAreToldByTheirKind) {
  Bytes directory_with_size = tar_header("dir", 4096, '5');  // GNU: how large it may become
  write(tar_header("dir/", 0, '5') + directory_with_size + tar_header("link.jpg", 9, '2') +
        tar_header("hard.jpg", 12'345, '1') + tar_header("pipe.jpg", 0, '6') +
        tar_header("disk.jpg", 0, '4') + tar_header("old_directory/", 0, '\0') +
        tar_file("comment", "52 comment=x\n", 'g') + tar_file("volume", "", 'V') +
        tar_file("new", "of a type not known here", 'Q') + tar_file("a.txt", "a", '\0') +
        tar_file("b.txt", "b", '7') + tar_end());
  const std::vector<TarMember> found = members();
  const std::vector<TarKind> kinds = {TarKind::kSymbolicLink, TarKind::kHardLink, TarKind::kDevice,
                                      TarKind::kDevice,       TarKind::kUnknown,  TarKind::kFile,
                                      TarKind::kFile};
  ASSERT_EQ(found.size(), kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(found[i].kind, kinds[i]) << i;
  EXPECT_EQ(found[5].name, "a.txt");
  EXPECT_EQ(data(found[5]), "a");
  EXPECT_EQ(found[6].name, "b.txt");
}

TEST_F(Tar, LinksNameWhatTheyLeadToInAllDialects) {
  const std::string record = " linkpath=" + long_name_ + "\n";
  write(tar_link("plain", "a.txt") + tar_file("././@LongLink", long_name_ + '\0', 'K') +
        tar_link("gnu", "cut") + tar_file("x", std::to_string(record.size() + 3) + record, 'x') +
        tar_link("pax", "cut") + tar_link("full", std::string(100, 'n')) +
        tar_link("soft", "b.txt", 0, '2') + tar_end());
  std::vector<std::string> leads_to;
  for (const TarMember& member : members()) leads_to.push_back(member.link);
  EXPECT_EQ(leads_to, (std::vector<std::string>{"a.txt", long_name_, long_name_,
                                                std::string(100, 'n'), "b.txt"}));
}

// pax can give a hard link data of its own. Other programs gave it the file's size, without data.
TEST_F(Tar, WhatFollowsAHardLinkDecidesWhetherItHasData) {
  for (const std::string& body : {std::string(600, 'x'), std::string(600, '\0')}) {
    write(tar_file("a.txt", body) + tar_link("with.txt", "a.txt", 600) + padded(bytes_of(body)) +
          tar_link("without.txt", "a.txt", 600) + tar_file("b.txt", std::string(1, 'b')) +
          tar_link("last.txt", "a.txt", 600) + tar_end());
    const std::vector<TarMember> found = members();
    ASSERT_EQ(found.size(), 5U);
    EXPECT_EQ(found[1].kind, TarKind::kFile);
    EXPECT_EQ(data(found[1]), body);
    EXPECT_EQ(found[2].kind, TarKind::kHardLink);
    EXPECT_EQ(found[2].size, 0U);
    EXPECT_EQ(data(found[3]), "b");
    EXPECT_EQ(found[4].kind, TarKind::kHardLink);
  }
  expect_contains(error(tar_link("cut.txt", "a.txt", 5'000) + Bytes(1'024, 'x')), {"damaged"});
}

TEST_F(Tar, LongNamesOfAllDialects) {
  Bytes with_prefix = tar_header("f.jpg", 1);
  set_text(with_prefix, 345, "some/folder");
  Bytes gnu_with_times = tar_header("g.jpg", 1, '0', std::string("ustar  \0", 8));
  set_text(gnu_with_times, 345, octal(123, 11));  // GNU's atime, no prefix
  const std::string record = " path=" + long_name_ + "\n";
  const std::string pax =
      std::to_string(record.size() + 3) + record + "29 mtime=1234567890.12345678\n";
  write(with_checksum(with_prefix) + padded({1}) + with_checksum(gnu_with_times) + padded({1}) +
        tar_file("././@LongLink", std::string("x\0", 2), 'K') +
        tar_file("././@LongLink", long_name_ + '\0', 'L') + tar_file("cut", "gnu") +
        tar_file("PaxHeaders/x", pax, 'x') + tar_file("cut", "pax") +
        tar_header(std::string(100, 'n'), 0) + tar_header("v7.txt", 0, '\0', "") + tar_end());
  const std::vector<TarMember> found = members();
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found[0].name, "some/folder/f.jpg");
  EXPECT_EQ(found[1].name, "g.jpg");
  EXPECT_EQ(found[2].name, long_name_);
  EXPECT_EQ(data(found[2]), "gnu");
  EXPECT_EQ(found[2].data - found[2].begin, 5 * kTarBlock);
  EXPECT_EQ(found[3].name, long_name_);
  EXPECT_EQ(data(found[3]), "pax");
  EXPECT_EQ(found[4].name, std::string(100, 'n'));
  EXPECT_EQ(found[5].name, "v7.txt");

  TarReader tar(path());
  tar.seek(found[3].begin);
  TarMember again;
  ASSERT_TRUE(tar.next(again));
  EXPECT_EQ(again.name, long_name_);
}

TEST_F(Tar, SizesInBinaryAndInRecords) {
  Bytes binary = tar_header("binary", 0);
  for (std::size_t i = 124; i < 136; ++i) binary[i] = 0;
  binary[124] = 0x80;
  binary[134] = 2;
  binary[135] = 3;
  write(with_checksum(binary) + padded(Bytes(515, 'b')) + tar_file("x", "12 size=600\n", 'x') +
        tar_header("record", 0) + padded(Bytes(600, 'r')) + tar_file("last", "l") + tar_end());
  const std::vector<TarMember> found = members();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(data(found[0]), std::string(515, 'b'));
  EXPECT_EQ(data(found[1]), std::string(600, 'r'));
  EXPECT_EQ(data(found[2]), "l");
}

TEST_F(Tar, WhatTarsOwnProgramWrites) {
  if (std::system("tar --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no tar here";
  const std::string folder = std::string(60, 'd') + "/" + std::string(60, 'e');
  std::filesystem::create_directories(directory_.path() / "in" / folder);
  directory_.write("in/a.txt", bytes_of("alpha"));
  directory_.write("in/" + folder + "/b.txt", bytes_of("beta"));
  for (const std::string format : {"v7", "ustar", "gnu", "pax"}) {
    const std::string what = format == "v7" ? "a.txt" : "a.txt " + std::string(60, 'd');
    const std::string command = "tar --format=" + format + " -C " +
                                (directory_.path() / "in").string() + " -cf " + path().string() +
                                " " + what;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    const std::vector<TarMember> found = members();
    ASSERT_EQ(found.size(), format == "v7" ? 1U : 2U) << format;
    EXPECT_EQ(found[0].name, "a.txt");
    EXPECT_EQ(data(found[0]), "alpha");
    if (format == "v7") continue;
    EXPECT_EQ(found[1].name, folder + "/b.txt");
    EXPECT_EQ(data(found[1]), "beta");
  }
}

TEST_F(Tar, WhatTheWriterWritesIsRead) {
  for (const TarWriter::LongNames dialect : {TarWriter::kPax, TarWriter::kGnu}) {
    TarWriter writer(path(), dialect);
    writer.add("short", std::string("1"));
    for (std::size_t length = 98; length < 104; ++length) {
      writer.add(std::string(length, 'n'), std::string(length * 10, 'x'));
    }
    writer.finish();
    const std::vector<TarMember> found = members();
    ASSERT_EQ(found.size(), 7U);
    for (std::size_t i = 1; i < 7; ++i) {
      EXPECT_EQ(found[i].name, std::string(97 + i, 'n'));
      EXPECT_EQ(data(found[i]), std::string((97 + i) * 10, 'x'));
    }
  }
}

TEST_F(Tar, AnEmptyArchiveHasNoFiles) {
  write(Bytes(10'240));
  EXPECT_TRUE(members().empty());
}

TEST_F(Tar, WhatIsNoTarIsTold) {
  expect_contains(error(), {path().string(), "No such file or directory"});
  expect_contains(error({}), {path().string(), "it is empty"});
  expect_contains(error(bytes_of("hello")), {"it is no tar archive", "byte 0"});
  expect_contains(error(Bytes(2000, 'x')), {"it is no tar archive"});
  expect_contains(error(gzip(tar_end())), {"compressed with gzip", "decompress it"});
  expect_contains(error(Bytes{0x28, 0xb5, 0x2f, 0xfd} + tar_end()), {"compressed with zstd"});
  expect_contains(error(Bytes{'P', 'K', 3, 4} + tar_end()), {"it is a zip or .npz archive"});
  expect_contains(error(Bytes{0xfd, '7', 'z', 'X', 'Z', 0} + tar_end()), {"compressed with xz"});
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  expect_contains(error(), {path().string(), "it is a directory"});
}

// At whatever byte: the only end is the marked one.
TEST_F(Tar, AnArchiveThatIsCutOffIsAnError) {
  const Bytes whole = tar_file("a.txt", std::string(700, 'a')) +
                      tar_file("././@LongLink", long_name_ + '\0', 'L') + tar_file("cut", "b");
  for (std::size_t size = 1; size <= whole.size(); size += size % 512 < 2 ? 1U : 73U) {
    write(first(whole, size));
    EXPECT_THROW(members(), Error) << "cut at byte " << size;
  }
  write(whole + Bytes(1));  // of the mark, one byte will do: nothing else can follow
  EXPECT_EQ(members().size(), 2U);
  expect_contains(error(first(whole, 1000)),
                  {"truncated: the data of a.txt begins at byte 512 and has 700", "ends at 1000"});
  expect_contains(error(first(whole, 1600)), {"truncated: it ends within a header (byte 1536)"});
  expect_contains(
      error(first(whole, 1536)),
      {"truncated: it ends at byte 1536 without the mark of its end", "truncate -s +1024"});
}

TEST_F(Tar, DamagedHeadersAreTold) {
  const Bytes start = tar_file("a.txt", "a");
  Bytes second = tar_file("b.txt", "b");
  second[0] ^= 1;
  expect_contains(error(start + second + tar_end()), {"damaged: no header", "(byte 1024)"});
  Bytes no_number = tar_header("b.txt", 0);
  set_text(no_number, 124, "12x4");
  expect_contains(error(start + with_checksum(no_number) + tar_end()),
                  {"a damaged size (byte 1148)"});
  Bytes negative = tar_header("b.txt", 0);
  for (std::size_t i = 124; i < 136; ++i) negative[i] = 0xff;
  expect_contains(error(start + with_checksum(negative) + tar_end()), {"a damaged size"});
  expect_contains(error(start + tar_header("b.txt", 0777'7777'7777) + tar_end()),
                  {"truncated: the data of b.txt begins at byte 1536 and has 8589934591"});
  for (const char* const record :
       {"12 size=6x0\n", "99 path=x\n", "4 \n", "x", "12 path=abcd", "9 path_x\n", "0 path=x\n"}) {
    expect_contains(error(tar_file("x", record, 'x') + start + tar_end()),
                    {"a damaged pax record (byte 512)"});
  }
  expect_contains(error(tar_file("x", "13 path=a.b\n\n", 'x') + tar_end()),
                  {"it ends where a member was described"});
  expect_contains(error(tar_header("x", 2'000'000, 'x') + Bytes(2'000'384) + start + tar_end()),
                  {"more than a megabyte of headers"});
  Bytes many;
  for (int i = 0; i < 2100; ++i) many = std::move(many) + tar_header("x", 0, 'x');
  expect_contains(error(many + start + tar_end()), {"more than a megabyte of headers"});
}

TEST_F(Tar, WhatCannotBeReadInPlaceIsRefused) {
  expect_contains(error(tar_header("s.bin", 0, 'S') + tar_end()), {"a sparse file (byte 0)"});
  expect_contains(error(tar_file("x", "22 GNU.sparse.major=1\n", 'x') + tar_end()),
                  {"a sparse file", "without tar's --sparse"});
  expect_contains(error(tar_header("m.bin", 0, 'M') + tar_end()), {"--multi-volume"});
}

TEST_F(Tar, ArchivesOneBehindTheOtherAreAnError) {
  const Bytes one = tar_file("a.txt", "a") + tar_end();
  expect_contains(error(one + one),
                  {"something follows the end-of-archive mark (byte 2048)", "--concatenate"});
  write(one + Bytes(7168));  // padding to a tape's record
  EXPECT_EQ(members().size(), 1U);
}

// As GNU tar and Python's tarfile end an archive. More is space that was reserved and not written.
TEST_F(Tar, MoreZerosThanEndAnArchiveAreAnError) {
  constexpr std::size_t kMost = 10'752;
  const Bytes file = tar_file("a.txt", "a");
  write(file + Bytes(kMost));
  EXPECT_EQ(members().size(), 1U);
  for (const std::size_t zeros : {kMost + 1, std::size_t{5'000'000}}) {
    expect_contains(error(file + Bytes(zeros)),
                    {path().string(), "from byte 1024 on, more than 10752 bytes are 0",
                     "fetch the file again", "accept_short_shards"});
    TarReader tar(path(), true);
    TarMember member;
    ASSERT_TRUE(tar.next(member));
    EXPECT_FALSE(tar.next(member));
  }
  expect_contains(error(Bytes(1'000'000)), {"from byte 0 on, more than 10752 bytes are 0"});
}

TEST_F(Tar, WhatFollowsManyZerosIsFoundWhereverItIs) {
  const Bytes file = tar_file("a.txt", "a");
  for (const std::size_t zeros : {512U, 10'752U, 11'264U, 3'000'320U}) {
    write(file + Bytes(zeros) + file + tar_end());
    expect_contains(
        error_of([&] {
          TarReader tar(path(), true);
          for (TarMember member; tar.next(member);) {
          }
        }),
        {"something follows the end-of-archive mark (byte " + std::to_string(1024 + zeros) + ")"});
  }
}

}  // namespace tar_test
}  // namespace leat::feeder
