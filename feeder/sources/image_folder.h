// ImageFolder: a folder for each class, with the images below it. Files: a list of images.
//
//   root/cat/1.jpg   root/cat/young/2.png   root/dog/3.webp     classes: cat (0), dog (1)
//
// The classes, their numbers and the order of the samples are those of torchvision's ImageFolder:
// classes are the folders in the root, in the order of their names' bytes; the images of a class
// come folder by folder, in the order of the folders' paths, and in a folder in the order of their
// names. So cat/9.jpg comes before cat/young/2.png. Otherwise than in torchvision, hidden files and
// folders are left out (.ipynb_checkpoints would be class 0), and what is no image that is read
// here is told. Files in the root itself belong to no class, and are left out.
//
// An image is JPEG, PNG or WebP by its first bytes, whatever its name says. Links are followed.
//
// The constructor of ImageFolder reads each folder once, and asks for no file's status, unless the
// file system does not tell what is a folder, or it is a link. It keeps 8 bytes and the name of
// each file. A read opens its file.
//
// Source: torchvision/datasets/folder.py of torchvision 0.29.
//
// Example:
//   const ImageOptions crop{.fit = Fit::kRandomResizedCrop, .mirror = 0.5};
//   const ImageFolder train("imagenet/train", {.image = crop});
//   const Files some({"a.png", "b.jpg"}, {3, 1});
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/sources/image.h"

namespace leat::feeder {

class ImageList;

/// How an ImageFolder is read.
struct ImageFolderOptions {
  ImageOptions image = {};
  /// What the names of images end in, in any case: "jpg". Other files are left out. Empty: "jpg",
  /// "jpeg", "png", "webp", and an image of another format (.bmp, .gif, .tif, ...) is an error.
  std::vector<std::string> extensions = {};
  /// Accepts classes without images; they have their numbers all the same. Else they are an error.
  bool allow_empty = false;
  std::string name = "image folder";  ///< in messages
};

/// How Files are read.
struct FilesOptions {
  ImageOptions image = {};
  std::string name = "image files";  ///< in messages
};

/// Images in files of their own, with labels. The base of ImageFolder and Files. Fields: "image",
/// image_field() of the options; "label", an int64 scalar, if there are labels. Const functions are
/// thread-safe. A read draws the random numbers of its image.
class ImageFiles : public Dataset {
 public:
  ~ImageFiles() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override;
  /// Opens, reads and decodes; never parks. Throws leat::Error, with the file and, where the
  /// decoder tells it, the byte, if the file cannot be read, or is no image that is read here, is
  /// damaged, or larger than ImageOptions allow; leat::Error if `index` >= size();
  /// std::invalid_argument if the fields of `out` differ.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kSeldom; }
  /// Of the names and labels of all files; of an ImageFolder the names include the folders below
  /// the root, of Files none. Sizes are not known without asking for each.
  [[nodiscard]] std::uint64_t digest() const noexcept override { return digest_; }
  /// Announces the whole file. Opens it.
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override;

  /// Returns the path of a sample's file. Throws leat::Error if `index` >= size().
  [[nodiscard]] std::string path(std::uint64_t index) const;
  /// Returns the label of a sample, without reading its image; 0 if there are no labels. Throws
  /// leat::Error if `index` >= size().
  [[nodiscard]] std::int64_t label(std::uint64_t index) const;

 protected:
  /// With the fields of these options, and no images yet.
  ImageFiles(std::string name, const ImageOptions& image, bool has_labels);
  /// Takes the list of images and its digest.
  void set(ImageList list, std::uint64_t digest);

 private:
  std::string name_;
  ImageOptions image_;
  std::vector<Field> fields_;
  std::unique_ptr<const ImageList> list_;
  std::uint64_t digest_ = 0;
};

/// The images below a folder, by class.
class ImageFolder final : public ImageFiles {
 public:
  /// Looks through the folder. Blocks the thread: about 1 us a file if the folders are in memory.
  /// Throws leat::Error, with the folder or file, if a folder cannot be read; if links form a loop;
  /// if there are no classes or no images, or, without allow_empty, a class has none; if an image
  /// is of a format that is not read here, a link to nothing, or no regular file.
  /// std::invalid_argument for options out of range.
  explicit ImageFolder(const std::filesystem::path& root, const ImageFolderOptions& options = {});

  /// Returns the names of the classes; the place of a name is its label.
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept { return classes_; }

 private:
  std::vector<std::string> classes_;
};

/// The images of a list of files, in its order.
class Files final : public ImageFiles {
 public:
  /// `paths` and `labels` have one entry for each sample; without labels there is no field "label".
  /// A file may occur several times. Looks for no file but the first. Throws std::invalid_argument
  /// for no paths, for one that is empty or contains a 0, for a folder as the first, for another
  /// number of labels, and for options out of range.
  explicit Files(const std::vector<std::string>& paths, std::vector<std::int64_t> labels = {},
                 const FilesOptions& options = {});
};

}  // namespace leat::feeder
