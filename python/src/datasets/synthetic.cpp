// Generated data in the formats of the datasets, for tests and benchmarks.

#include "leat/feeder/sources/synthetic.h"

#include <nanobind/nanobind.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "leat/feeder/sources/synthetic_web.h"
#include "leat/python/calls/arguments.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

using feeder::JpegColor;

namespace {

constexpr std::array<Choice<JpegColor>, 3> kColors{
    {{"ycc", JpegColor::kYcc}, {"gray", JpegColor::kGray}, {"cmyk", JpegColor::kCmyk}}};

// The files that `write` writes, as pathlib.Path.
template <class What, class Write>
nb::list written(Arguments& given, const What& what, const Write& write) {
  const std::filesystem::path folder = given.path("directory");
  given.end();
  std::vector<std::filesystem::path> files;
  {
    const WithoutGil others_run;
    files = write(folder, what);
  }
  const nb::object path = nb::module_::import_("pathlib").attr("Path");
  nb::list paths;
  for (const std::filesystem::path& file : files) {
    const std::string& name = file.native();
    const nb::object text = nb::steal(
        PyUnicode_DecodeFSDefaultAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
    if (!text) throw nb::python_error();
    paths.append(path(text));
  }
  return paths;
}

nb::list write_records(const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("write_records", {"directory"}, args, kwargs);
  feeder::SyntheticRecords what;
  given.require({"directory", "samples"});
  given.read("samples", what.samples);
  given.read("shards", what.shards);
  given.read("seed", what.seed);
  given.read("record_bytes", what.record_bytes);
  given.read("header_bytes", what.header_bytes);
  return written(given, what, &feeder::write_records);
}

nb::list write_cifar10(const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("write_cifar10", {"directory"}, args, kwargs);
  feeder::SyntheticCifar10 what;
  given.require({"directory"});
  given.read("samples", what.samples);
  given.read("shards", what.shards);
  given.read("seed", what.seed);
  return written(given, what, &feeder::write_cifar10);
}

nb::list write_tokens(const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("write_tokens", {"directory"}, args, kwargs);
  feeder::SyntheticTokens what;
  given.require({"directory", "tokens"});
  given.read("tokens", what.tokens);
  given.read("shards", what.shards);
  given.read("seed", what.seed);
  given.read("token", what.token);
  given.read("header", what.header);
  given.read("vocabulary", what.vocabulary);
  return written(given, what, &feeder::write_tokens);
}

nb::list write_synthetic_web(const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("write_synthetic_web", {"directory"}, args, kwargs);
  feeder::SyntheticWebOptions what;
  given.require({"directory"});
  given.read("samples", what.samples);
  given.read("samples_per_shard", what.samples_per_shard);
  given.read("min_width", what.min_width);
  given.read("max_width", what.max_width);
  given.read("min_height", what.min_height);
  given.read("max_height", what.max_height);
  given.read("classes", what.classes);
  given.read("seed", what.seed);
  given.read("quality", what.encoding.quality);
  given.read("color", what.encoding.color, kColors);
  given.read("chroma_columns", what.encoding.chroma_columns);
  given.read("chroma_rows", what.encoding.chroma_rows);
  given.read("progressive", what.encoding.progressive);
  given.read("restart_rows", what.encoding.restart_rows);
  return written(given, what, &feeder::write_synthetic_web);
}

}  // namespace

void bind_synthetic(nb::module_& module) {
  module.def("write_records", &write_records,
             nb::sig("def write_records(directory: Path, *, samples: int, shards: int = 1, seed: "
                     "int = 0, record_bytes: int = 4096, header_bytes: int = 0) -> "
                     "list[pathlib.Path]"),
             "Writes generated files for FixedRecords.");
  module.def("write_cifar10", &write_cifar10,
             nb::sig("def write_cifar10(directory: Path, *, samples: int = 50000, shards: int = 5, "
                     "seed: int = 0) -> list[pathlib.Path]"),
             "Writes generated files for Cifar10, with split=\"train\".");
  module.def("write_tokens", &write_tokens,
             nb::sig("def write_tokens(directory: Path, *, tokens: int, shards: int = 1, seed: int "
                     "= 0, token: DTypeLike = 'uint16', header: bool = True, vocabulary: int = "
                     "50257) -> list[pathlib.Path]"),
             "Writes generated files for TokenShards.");
  module.def("write_synthetic_web", &write_synthetic_web,
             nb::sig("def write_synthetic_web(directory: Path, *, samples: int = 1000, "
                     "samples_per_shard: int = 500, min_width: int = 400, max_width: int = 600, "
                     "min_height: int = 300, max_height: int = 450, classes: int = 1000, seed: int "
                     "= 0, quality: int = 90, color: Literal['ycc', 'gray', 'cmyk'] = 'ycc', "
                     "chroma_columns: int = 2, chroma_rows: int = 2, progressive: bool = False, "
                     "restart_rows: int = 0) -> list[pathlib.Path]"),
             "Writes generated shards of JPEG images for WebDataset into an existing folder: ten "
             "seconds for 1000 samples of the default size. classes=0: a sample's label is its "
             "number.");
}

}  // namespace leat::python
