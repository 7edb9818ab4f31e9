// WebDataset, and the parts of its samples.

#include "leat/feeder/sources/web_dataset.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/sources/web_part.h"
#include "leat/python/calls/arguments.h"
#include "leat/python/calls/text.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/datasets/datasets.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

using feeder::Dataset;
using feeder::ImageOptions;
using feeder::WebDataset;
using feeder::WebDatasetOptions;
using feeder::WebPart;

namespace {

constexpr std::array<Choice<WebPart::Kind>, 3> kKinds{
    {{"image", WebPart::kImage}, {"label", WebPart::kLabel}, {"bytes", WebPart::kBytes}}};

WebPart make_image(const char* function, std::vector<std::string> extensions, const nb::args& args,
                   const nb::kwargs& kwargs) {
  Arguments given(function, {"name"}, args, kwargs);
  std::string name;
  ImageOptions options;
  given.require({"name"});
  given.read("name", name);
  read_image_options(given, options);
  given.read("extensions", extensions);
  given.end();
  return feeder::any_image(std::move(name), options, std::move(extensions));
}

WebPart make_any(const nb::args& args, const nb::kwargs& kwargs) {
  return make_image("any_image", {"jpg", "jpeg", "png", "webp"}, args, kwargs);
}

WebPart make_jpeg(const nb::args& args, const nb::kwargs& kwargs) {
  return make_image("jpeg_image", {"jpg", "jpeg"}, args, kwargs);
}

WebPart make_label(const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("class_label", {"name"}, args, kwargs);
  std::string name;
  std::vector<std::string> extensions{"cls"};
  given.require({"name"});
  given.read("name", name);
  given.read("extensions", extensions);
  given.end();
  return feeder::class_label(std::move(name), std::move(extensions));
}

WebPart make_bytes(const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("raw_bytes", {"field", "extensions"}, args, kwargs);
  std::vector<std::string> extensions;
  given.require({"field", "extensions"});
  const feeder::Field& field = given.object<feeder::Field>("field", "a leat.Field");
  given.read("extensions", extensions);
  given.end();
  return feeder::raw_bytes(field, std::move(extensions));
}

void make_web(WebDataset* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("WebDataset", {"shards"}, args, kwargs);
  WebDatasetOptions options;
  given.require({"shards"});
  const feeder::FilePatterns shards = given.files("shards");
  given.read("parts", options.parts, "a sequence of leat.WebPart");
  given.read("skip_incomplete", options.skip_incomplete);
  given.read("accept_short_shards", options.accept_short_shards);
  given.read("index_threads", options.index_threads);
  given.read("open_files", options.open_files);
  given.read("name", options.name);
  given.end();
  construct(self, shards, options);
  remember(self, args, kwargs);
}

constexpr char kAny[] = "any_image";
constexpr char kJpeg[] = "jpeg_image";
constexpr char kLabel[] = "class_label";
constexpr char kBytes[] = "raw_bytes";

// What `make` makes, with a note of how, for pickle.
template <WebPart (*make)(const nb::args&, const nb::kwargs&), const char* kName>
nb::object made(const nb::args& args, const nb::kwargs& kwargs) {
  nb::object part = nb::cast(make(args, kwargs));
  nb::setattr(part, "_made_of", nb::make_tuple(kName, args, kwargs));
  return part;
}

void bind_web_parts(nb::module_& module) {
  nb::class_<WebPart>(module, "WebPart",
                      "A part of every sample of a WebDataset: a file, and the tensor that it "
                      "becomes. any_image, jpeg_image, class_label and raw_bytes make it.",
                      nb::is_final(), nb::dynamic_attr())
      .def("__reduce__",
           [](nb::handle self) {
             const nb::object made_of = self.attr("_made_of");
             return remake(made_of[0], made_of[1], made_of[2]);
           })
      .def_ro("field", &WebPart::field)
      .def_prop_ro(
          "extensions",
          [](const WebPart& self) {
            nb::list names;
            for (const std::string& one : self.extensions) names.append(to_str(one));
            return nb::tuple(names);
          },
          "Of the file, without the first dot; a sample has exactly one of them.")
      .def_prop_ro(
          "kind", [](const WebPart& self) { return name_in(kKinds, self.kind); },
          "\"image\", \"label\" or \"bytes\".")
      .def("__repr__", [](const WebPart& self) {
        return to_str("<leat.WebPart " + feeder::to_string(self) + ": " + to_string(self.field) +
                      ">");
      });
  module.def("any_image", &made<make_any, kAny>,
             nb::sig("def any_image(name: str, *, " LEAT_IMAGE_OPTIONS
                     ", extensions: str | Sequence[str] = ('jpg', 'jpeg', 'png', 'webp')) -> "
                     "WebPart"),
             "An image: JPEG, PNG or WebP by its first bytes, as uint8 [height, width, 3], or "
             "planar, [3, height, width]. mirror is the probability that left and right are "
             "exchanged.");
  module.def("jpeg_image", &made<make_jpeg, kJpeg>,
             nb::sig("def jpeg_image(name: str, *, " LEAT_IMAGE_OPTIONS
                     ", extensions: str | Sequence[str] = ('jpg', 'jpeg')) -> WebPart"),
             "any_image of files that are called .jpg or .jpeg.");
  module.def("class_label", &made<make_label, kLabel>,
             nb::sig("def class_label(name: str, *, extensions: str | Sequence[str] = ('cls',)) "
                     "-> WebPart"),
             "An integer in ASCII digits, as an int64 scalar.");
  module.def("raw_bytes", &made<make_bytes, kBytes>,
             nb::sig("def raw_bytes(field: Field, extensions: str | Sequence[str]) -> WebPart"),
             "The bytes of a file, unchanged.");
}

}  // namespace

void bind_web_dataset(nb::module_& module) {
  bind_web_parts(module);
  nb::class_<WebDataset, Dataset>(
      module, "WebDataset",
      "Samples as neighbouring files in tar archives. Without parts, the fields are \"image\", "
      "uint8 [224, 224, 3], and \"label\", an int64.",
      nb::is_final())
      .def("__init__", &make_web,
           nb::sig("def __init__(self, shards: Paths, *, parts: Sequence[WebPart] | None = None, "
                   "skip_incomplete: bool = False, accept_short_shards: bool = False, "
                   "index_threads: int = 8, open_files: int = 128, name: str = 'web dataset') -> "
                   "None"),
           "Reads the headers of all shards, about 8 us a sample. skip_incomplete: leaves out "
           "samples that lack a part. accept_short_shards: accepts shards that look like "
           "interrupted downloads. open_files: the most that stay open.")
      .def(
          "key",
          [](const WebDataset& self, nb::handle index) {
            const std::uint64_t number = index_in(self, index);
            std::string key;
            {
              const WithoutGil others_run;
              key = self.key(number);
            }
            return to_str(key);
          },
          nb::arg("index").none(), nb::sig("def key(self, index: int) -> str"),
          "The key of a sample: the path of its files up to the first dot.")
      .def_prop_ro("skipped", &WebDataset::skipped,
                   "Samples that were left out because they lack a part.")
      .def_prop_ro(
          "left_out",
          [](const WebDataset& self) {
            const feeder::WebLeftOut& found = self.left_out();
            nb::dict counts;
            counts["symbolic_links"] = found.symbolic_links;
            counts["devices"] = found.devices;
            counts["unknown_members"] = found.unknown_members;
            counts["files_without_key"] = found.files_without_key;
            return counts;
          },
          "What else in the shards is of no sample, counted by kind. A number that should be 0 "
          "tells of samples that are missing without an error. Hard links are read.");
}

}  // namespace leat::python
