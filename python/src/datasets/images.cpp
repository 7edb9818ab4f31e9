// ImageFolder, Files, and the options of all images.

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/feeder/sources/image_folder.h"
#include "leat/python/calls/arguments.h"
#include "leat/python/calls/text.h"
#include "leat/python/datasets/datasets.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

using feeder::Dataset;
using feeder::Files;
using feeder::FilesOptions;
using feeder::Fit;
using feeder::ImageFiles;
using feeder::ImageFolder;
using feeder::ImageFolderOptions;

namespace {

constexpr std::array<Choice<Fit>, 4> kFits{{{"stretch", Fit::kStretch},
                                            {"center_crop", Fit::kCenterCrop},
                                            {"random_resized_crop", Fit::kRandomResizedCrop},
                                            {"exact", Fit::kExact}}};

// A path as Python has it: what is no UTF-8 comes back as it was.
nb::object to_path(std::string_view path) {
  nb::object text = nb::steal(
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
  if (!text) throw nb::python_error();
  return text;
}

void make_folder(ImageFolder* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("ImageFolder", {"root"}, args, kwargs);
  ImageFolderOptions options;
  given.require({"root"});
  const std::filesystem::path root = given.path("root");
  read_image_options(given, options.image);
  given.read("extensions", options.extensions);
  given.read("allow_empty", options.allow_empty);
  given.read("name", options.name);
  given.end();
  construct(self, root, options);
  remember(self, args, kwargs);
}

void make_files(Files* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("Files", {"paths", "labels"}, args, kwargs);
  FilesOptions options;
  given.require({"paths"});
  const std::vector<std::string> paths = given.files("paths").all();
  std::vector<std::int64_t> labels;
  given.read("labels", labels, std::numeric_limits<std::int64_t>::min());
  read_image_options(given, options.image);
  given.read("name", options.name);
  given.end();
  construct(self, paths, std::move(labels), options);
  remember(self, args, kwargs, true);
}

}  // namespace

void read_image_options(Arguments& given, feeder::ImageOptions& options) {
  given.read("height", options.height);
  given.read("width", options.width);
  given.read("fit", options.fit, kFits);
  given.read("shorter_side", options.shorter_side);
  given.read("scale", options.scale);
  given.read("ratio", options.ratio);
  given.read("mirror", options.mirror);
  given.read("planar", options.planar);
  given.read("antialias", options.antialias);
  given.read("scaled_decoding", options.scaled_decoding);
  given.read("max_pixels", options.jpeg.max_pixels);
  given.read("accept_corrupt", options.jpeg.accept_corrupt);
}

void bind_images(nb::module_& module) {
  nb::class_<ImageFiles, Dataset>(
      module, "ImageFiles",
      "Images in files of their own: JPEG, PNG or WebP by the first bytes. The base of ImageFolder "
      "and Files.")
      .def(
          "path",
          [](const ImageFiles& self, nb::handle index) {
            return to_path(self.path(index_in(self, index)));
          },
          nb::arg("index").none(), nb::sig("def path(self, index: int) -> str"),
          "The path of a sample's file.")
      .def(
          "label",
          [](const ImageFiles& self, nb::handle index) {
            return self.label(index_in(self, index));
          },
          nb::arg("index").none(), nb::sig("def label(self, index: int) -> int"),
          "The label of a sample, without reading its image; 0 if there are no labels.");
  nb::class_<ImageFolder, ImageFiles>(
      module, "ImageFolder",
      "A folder for each class, with images below it: torchvision's classes, numbers and order. "
      "Fields: \"image\", uint8 [height, width, 3]; \"label\", int64, the number of the class.",
      nb::is_final())
      .def("__init__", &make_folder,
           nb::sig("def __init__(self, root: str | os.PathLike[str], *, " LEAT_IMAGE_OPTIONS
                   ", extensions: str | Sequence[str] = (), allow_empty: bool = False, name: str = "
                   "'image folder') -> None"),
           "Looks through all folders once. extensions: which files are images; without them .jpg, "
           ".jpeg, .png and .webp, and images of other formats are an error. allow_empty: accepts "
           "classes without images. The other options are those of any_image.")
      .def_prop_ro(
          "classes",
          [](const ImageFolder& self) {
            nb::list names;
            for (const std::string& one : self.classes()) names.append(to_path(one));
            return names;
          },
          nb::sig("def classes(self) -> list[str]"), "The names of the classes, by their numbers.")
      .def_prop_ro(
          "class_to_idx",
          [](const ImageFolder& self) {
            nb::dict numbers;
            for (std::size_t i = 0; i < self.classes().size(); ++i) {
              numbers[to_path(self.classes()[i])] = i;
            }
            return numbers;
          },
          nb::sig("def class_to_idx(self) -> dict[str, int]"), "The numbers of the classes.");
  nb::class_<Files, ImageFiles>(
      module, "Files",
      "Images by a list of files, in its order. Fields: \"image\", uint8 [height, width, 3]; with "
      "labels, \"label\", int64.",
      nb::is_final())
      .def("__init__", &make_files,
           nb::sig("def __init__(self, paths: str | os.PathLike[str] | Sequence[str | "
                   "os.PathLike[str]], labels: Sequence[int] | None = None, *, " LEAT_IMAGE_OPTIONS
                   ", name: str = 'image files') -> None"),
           "labels: one for each path. The other options are those of any_image.");
}

}  // namespace leat::python
