// ImageFolder and Files: torchvision's classes and order, and what is in the way is told.
#include "leat/feeder/sources/image_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/data/synthetic_images.h"
#include "tests/feeder/sources/idx_files.h"
#include "tests/feeder/sources/known_images.h"
#include "tests/feeder/sources/synthetic_files.h"
#include "tests/support/cold_file.h"

namespace leat::feeder {
namespace image_folder_test {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr ImageOptions kSmall{.height = 6, .width = 5};

Bytes jpeg(std::uint64_t seed = 1) {
  const auto image = encode_jpeg(synthetic_image(seed, 0, 20, 15), 20, 15);
  Bytes bytes(image.size());
  std::memcpy(bytes.data(), image.data(), image.size());
  return bytes;
}

class ImageFolders : public testing::Test {
 protected:
  fs::path root() const { return directory_.path() / "root"; }
  // Writes an image, and the folders that lead to it.
  void add(const std::string& name, const Bytes& image = jpeg()) const {
    fs::create_directories((root() / name).parent_path());
    directory_.write("root/" + name, image);
  }
  void link(const std::string& target, const std::string& name) const {
    fs::create_directories((root() / name).parent_path());
    fs::create_symlink(target, root() / name);
  }
  // "1 dog/a.jpg" and so on.
  Names samples(const ImageFolderOptions& options = {}) const {
    const ImageFolder data(root(), options);
    Names found;
    for (std::uint64_t i = 0; i < data.size(); ++i) {
      const std::string path = data.path(i);
      EXPECT_TRUE(path.starts_with(root().string() + "/"));
      found.push_back(std::to_string(data.label(i)) + " " +
                      path.substr(root().string().size() + 1));
    }
    return found;
  }
  std::string error(const ImageFolderOptions& options = {}) const {
    return error_of([&] { const ImageFolder data(root(), options); });
  }

  TemporaryDirectory directory_;
};

// What torchvision 0.29's ImageFolder gives for this tree, without the hidden ones:
// python/tests/test_images.py compares the two.
TEST_F(ImageFolders, ClassesNumbersAndOrderAreThoseOfTorchvision) {
  for (const char* const name :
       {"b/2.jpg", "b/10.jpg", "a/z.jpg", "a/b/x.jpg", "a/b-c/y.JPG", "a/b/a/w.jpeg", "a-b/q.jpg",
        "a.b/q.jpeg", "B/1.jpg", "a/readme.txt", "a/noextension", "stray.jpg", "b/.hidden.jpg",
        ".ipynb_checkpoints/c.jpg", "a/.git/d.jpg", "b/jpg"}) {
    add(name);
  }
  const ImageFolder data(root());
  EXPECT_EQ(data.classes(), (Names{"B", "a", "a-b", "a.b", "b"}));
  EXPECT_EQ(samples(),
            (Names{"0 B/1.jpg", "1 a/z.jpg", "1 a/b/x.jpg", "1 a/b-c/y.JPG", "1 a/b/a/w.jpeg",
                   "2 a-b/q.jpg", "3 a.b/q.jpeg", "4 b/10.jpg", "4 b/2.jpg"}));
}

TEST_F(ImageFolders, AClassWithoutImagesIsAnErrorUnlessItIsAllowedAndThenHasItsNumber) {
  add("a/1.jpg");
  add("b/note.txt");
  add("c/1.jpg");
  fs::create_directory(root() / "d");
  expect_contains(error(), {(root() / "b").string() + ": the class has no images, nor have 1 other",
                            "allow_empty"});
  EXPECT_EQ(samples({.allow_empty = true}), (Names{"0 a/1.jpg", "2 c/1.jpg"}));
  EXPECT_EQ(ImageFolder(root(), {.allow_empty = true}).classes().size(), 4U);
  fs::remove(root() / "a/1.jpg");
  fs::remove(root() / "c/1.jpg");
  expect_contains(error({.allow_empty = true}), {"has no images, nor have 3 other", ".webp"});
}

TEST_F(ImageFolders, AnImageThatIsNotReadIsNamedUnlessExtensionsSayWhatIsRead) {
  add("a/1.jpg");
  add("a/2.BMP");
  expect_contains(error(), {(root() / "a/2.BMP").string(), "not read", "extensions"});
  EXPECT_EQ(samples({.extensions = {"jpg"}}), (Names{"0 a/1.jpg"}));
  EXPECT_EQ(samples({.extensions = {".bmp", "JPG"}}), (Names{"0 a/1.jpg", "0 a/2.BMP"}));
  fs::remove(root() / "a/2.BMP");
  add("a/3.png");
  if (kReadsPng) {
    EXPECT_EQ(samples(), (Names{"0 a/1.jpg", "0 a/3.png"}));
  } else {
    expect_contains(error(), {"3.png", "built without libpng", "libpng-dev"});
  }
}

TEST_F(ImageFolders, LinksAreFollowedAndThoseThatLeadNowhereOrBackAreErrors) {
  add("a/1.jpg");
  link("../a/1.jpg", "b/one.jpg");
  link("../a", "b/all");
  link("nowhere", "b/nothing");  // no image by its name
  link("a", "c");
  EXPECT_EQ(samples(), (Names{"0 a/1.jpg", "1 b/one.jpg", "1 b/all/1.jpg", "2 c/1.jpg"}));
  link("nowhere", "b/two.jpg");
  expect_contains(error(), {(root() / "b/two.jpg").string() + ": it is a link to nothing"});
  fs::remove(root() / "b/two.jpg");
  for (const char* const target : {"../b", "..", "."}) {
    link(target, "b/back");
    expect_contains(error(), {(root() / "b/back").string() + ": it is a link to", "remove"});
    fs::remove(root() / "b/back");
  }
}

TEST_F(ImageFolders, WhatIsNoFolderOrNoFileIsNamed) {
  expect_contains(error(), {root().string(), "No such file"});
  expect_contains(error_of([] { const ImageFolder data("s3://bucket/train"); }),
                  {"\"s3://\" is not supported", "download"});
  directory_.write("root", jpeg());
  expect_contains(error(), {root().string(), "Not a directory"});
  fs::remove(root());
  add("1.jpg");
  expect_contains(error(), {root().string(), "no folders", "Files"});
  fs::create_directory(root() / "a");
  ASSERT_EQ(mkfifo((root() / "a/1.jpg").c_str(), 0600), 0);
  expect_contains(error(), {(root() / "a/1.jpg").string(), "no regular file"});
}

TEST_F(ImageFolders, AnyDepthIsRead) {
  std::string deep = "a";
  for (int i = 0; i < 300; ++i) deep += "/d";
  add(deep + "/1.jpg");
  EXPECT_EQ(samples(), (Names{"0 " + deep + "/1.jpg"}));
}

TEST_F(ImageFolders, TheDigestIsOfNamesAndLabelsNotOfThePlaceOfTheRoot) {
  add("a/1.jpg");
  add("b/1.jpg", jpeg(2));
  const std::uint64_t before = ImageFolder(root()).digest();
  fs::rename(root(), directory_.path() / "moved");
  EXPECT_EQ(ImageFolder(directory_.path() / "moved/").digest(), before);
  fs::rename(directory_.path() / "moved", root());
  fs::create_directory(root() / "aa");
  EXPECT_NE(ImageFolder(root(), {.allow_empty = true}).digest(), before);  // b is class 2
  fs::remove(root() / "aa");
  fs::rename(root() / "b/1.jpg", root() / "b/2.jpg");
  EXPECT_NE(ImageFolder(root()).digest(), before);
}

TEST_F(ImageFolders, EachImageIsReadByItsFirstBytesWithItsLabel) {
  std::vector<KnownPixels> known;
  if (kReadsPng) known.push_back(known_image_named("rgb16_interlaced.png"));
  if (kReadsWebp) known.push_back(known_image_named("lossless_alpha.webp"));
  if (known.empty()) GTEST_SKIP() << "built without libpng and libwebp";
  add("0/first.jpg");
  for (std::size_t i = 0; i < known.size(); ++i) {
    add("z/" + std::to_string(i) + ".jpg", {known[i].image.begin(), known[i].image.end()});
  }
  const ImageFolder data(root(), {.image = {.height = 11, .width = 13}});
  EXPECT_EQ(data.name(), "image folder");
  EXPECT_EQ(data.blocking(), Blocking::kSeldom);
  ASSERT_EQ(data.fields().size(), 2U);
  EXPECT_EQ(data.fields()[0], (Field{"image", DType::kUint8, {11, 13, 3}}));
  EXPECT_EQ(data.fields()[1], (Field{"label", DType::kInt64, {}}));
  from_several_threads(20 * known.size(), [&](std::uint64_t i) {
    const KnownPixels& one = known[i % known.size()];
    SampleBuffer sample(data.fields());
    data.read(1 + i % known.size(), sample);
    const auto pixels = sample.as<std::uint8_t>(0);
    EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), one.pixels.begin(), one.pixels.end()));
    EXPECT_EQ(sample.as<std::int64_t>(1)[0], 1);
  });
}

TEST_F(ImageFolders, WhatCannotBeReadIsToldWithTheFile) {
  const Bytes image = jpeg();
  add("a/1.jpg", first(image, image.size() / 2));
  add("a/2.jpg");
  add("a/3.jpg", Bytes());
  const ImageFolder data(root(), {.image = kSmall});
  SampleBuffer sample(data.fields());
  expect_contains(error_of([&] { data.read(0, sample); }),
                  {(root() / "a/1.jpg").string(), "Premature end", "near byte"});
  fs::remove(root() / "a/2.jpg");
  expect_contains(error_of([&] { data.read(1, sample); }),
                  {(root() / "a/2.jpg").string(), "No such file"});
  EXPECT_EQ(data.announce(1, 0, 0), 0U);
  expect_contains(error_of([&] { data.read(2, sample); }),
                  {(root() / "a/3.jpg").string(), "it is empty", "JPEG, PNG or WebP"});
  EXPECT_EQ(data.announce(2, 0, 0), 0U);
  expect_contains(error_of([&] { data.read(3, sample); }), {"image folder has no sample 3"});
  expect_contains(error_of([&] { static_cast<void>(data.path(3)); }), {"has no sample 3"});
  expect_contains(error_of([&] { static_cast<void>(data.label(3)); }), {"has no sample 3"});
  SampleBuffer other(data.fields().first(1));
  EXPECT_THROW(data.read(0, other), std::invalid_argument);
}

TEST_F(ImageFolders, AnAnnouncementIsOfTheWholeFile) {
  const auto large = encode_jpeg(synthetic_image(1, 0, 300, 200), 300, 200);
  Bytes bytes(large.size());
  std::memcpy(bytes.data(), large.data(), large.size());
  add("a/1.jpg", bytes);
  LEAT_MAKE_COLD(root() / "a/1.jpg");
  const ImageFolder data(root(), {.image = kSmall});
  EXPECT_EQ(data.announce(0, 0, 0), bytes.size());
}

TEST_F(ImageFolders, FilesAreReadInTheOrderOfTheListAlsoTwice) {
  add("x/1.jpg", jpeg(1));
  add("x/2.jpg", jpeg(2));
  const std::string one = (root() / "x/1.jpg").string();
  const std::string two = (root() / "x/2.jpg").string();
  const Files data({two, one, two, "missing.jpg"}, {7, -3, 9, 0}, {.image = kSmall});
  EXPECT_EQ(data.size(), 4U);
  EXPECT_EQ(data.name(), "image files");
  std::vector<Bytes> pixels;
  for (std::uint64_t i = 0; i < 3; ++i) {
    SampleBuffer sample(data.fields());
    data.read(i, sample);
    const auto found = sample.as<std::uint8_t>(0);
    pixels.emplace_back(found.begin(), found.end());
    EXPECT_EQ(sample.as<std::int64_t>(1)[0], data.label(i));
  }
  EXPECT_EQ(data.label(1), -3);
  EXPECT_EQ(data.path(0), two);
  EXPECT_EQ(pixels[0], pixels[2]);
  EXPECT_NE(pixels[0], pixels[1]);
  SampleBuffer sample(data.fields());
  expect_contains(error_of([&] { data.read(3, sample); }), {"missing.jpg: No such file"});
  const Files unlabeled({one}, {}, {.image = kSmall});
  EXPECT_EQ(unlabeled.fields().size(), 1U);
  SampleBuffer alone(unlabeled.fields());
  unlabeled.read(0, alone);
  EXPECT_NE(unlabeled.digest(), Files({two}).digest());
  EXPECT_NE(Files({one}, {1}).digest(), Files({one}, {2}).digest());
}

TEST_F(ImageFolders, AListThatCannotBeIsACallersError) {
  EXPECT_THROW(Files({}), std::invalid_argument);
  EXPECT_THROW(Files({"a", ""}), std::invalid_argument);
  EXPECT_THROW(Files({std::string("a\0b", 3)}), std::invalid_argument);
  EXPECT_THROW(Files({"a", "b"}, {1}), std::invalid_argument);
  EXPECT_THROW(Files({"/", "a"}), std::invalid_argument);  // a folder
  EXPECT_THROW(Files({"a"}, {}, {.image = {.height = 0}}), std::invalid_argument);
  EXPECT_THROW(ImageFolder(root(), {.image = {.height = 0}}), std::invalid_argument);
}

}  // namespace image_folder_test
}  // namespace leat::feeder
