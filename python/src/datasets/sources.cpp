// The datasets of feeder/sources that read files of records: TokenShards, FixedRecords, CIFAR,
// MNIST.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/feeder/sources/npy_files.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/python/calls/arguments.h"
#include "leat/python/calls/text.h"
#include "leat/python/datasets/datasets.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

using feeder::Cifar;
using feeder::CifarOptions;
using feeder::Dataset;
using feeder::Field;
using feeder::FilePatterns;
using feeder::FixedRecords;
using feeder::FixedRecordsOptions;
using feeder::Mnist;
using feeder::Npy;
using feeder::NpyArrays;
using feeder::TokenHeader;
using feeder::TokenShards;
using feeder::TokenShardsOptions;

namespace {

constexpr std::array<Choice<TokenHeader>, 3> kHeaders{
    {{"auto", TokenHeader::kAuto}, {"none", TokenHeader::kNone}, {"llm.c", TokenHeader::kLlmC}}};
constexpr std::array<Choice<Cifar::Split>, 2> kCifarSplits{
    {{"train", Cifar::kTrain}, {"test", Cifar::kTest}}};
constexpr std::array<Choice<Mnist::Split>, 2> kMnistSplits{
    {{"train", Mnist::kTrain}, {"test", Mnist::kTest}}};

void make_token_shards(TokenShards* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("TokenShards", {"files"}, args, kwargs);
  TokenShardsOptions options;
  given.require({"files", "sequence_length"});
  const FilePatterns files = given.files("files");
  given.read("sequence_length", options.sequence_length);
  given.read("stride", options.stride);
  given.read("header", options.header, kHeaders);
  if (given.has("token")) {
    given.read("token", options.token.emplace());
  } else {
    static_cast<void>(given.take("token"));  // None
  }
  given.read("dtype", options.dtype);
  given.read("vocabulary", options.vocabulary);
  given.read("extension", options.extension);
  given.end();
  construct(self, files, options);
  remember(self, args, kwargs);
}

void make_fixed_records(FixedRecords* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("FixedRecords", {"files"}, args, kwargs);
  FixedRecordsOptions options;
  given.require({"files", "fields"});
  const FilePatterns files = given.files("files");
  given.read("fields", options.fields, "a sequence of leat.Field");
  given.read("header_bytes", options.header_bytes);
  given.read("extension", options.extension);
  given.read("name", options.name);
  given.end();
  construct(self, files, options);
  remember(self, args, kwargs);
}

// Data(directory, split, ...), or Data(files, ...).
template <class Data, class Split, class... Options>
void make_split(Data* self, Arguments& given, const std::array<Choice<Split>, 2>& splits,
                const Options&... options) {
  Split split{};
  if (given.has("split")) {
    const std::filesystem::path folder = given.path("files");
    given.read("split", split, splits);
    given.end();
    construct(self, folder, split, options...);
  } else {
    const FilePatterns files = given.files("files");
    static_cast<void>(given.take("split"));
    given.end();
    construct(self, files, options...);
  }
}

template <class Data>
void bind_cifar(nb::module_& module, const char* name, const char* doc) {
  nb::class_<Data, Dataset>(module, name, doc, nb::is_final())
      .def(
          "__init__",
          [name](Data* self, const nb::args& args, const nb::kwargs& kwargs) {
            Arguments given(name, {"files", "split"}, args, kwargs);
            CifarOptions options;
            given.require({"files"});
            given.read("label", options.label);
            make_split(self, given, kCifarSplits, options);
            remember(self, args, kwargs);
          },
          nb::sig("def __init__(self, files: Paths, split: Literal['train', 'test'] | None = None, "
                  "*, label: DTypeLike = 'uint8') -> None"),
          "With a split: the files of the format in the folder `files`. Without: all `files`.");
}

void make_mnist(Mnist* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("Mnist", {"files", "split"}, args, kwargs);
  given.require({"files"});
  make_split(self, given, kMnistSplits);
  remember(self, args, kwargs);
}

// Npy(files), Npy(x=files, y=files), or Npy({"x": files}, name="...").
void make_npy(Npy* self, const nb::args& args, const nb::kwargs& kwargs) {
  std::string name;
  if (!args.empty() && !nb::isinstance<nb::dict>(args[0])) {
    Arguments given("Npy", {"files"}, args, kwargs);
    given.require({"files"});
    const FilePatterns files = given.files("files");
    given.read("name", name);
    given.end();
    construct(self, files, name);
  } else {
    nb::object arrays = nb::borrow(kwargs);
    if (!args.empty()) {
      Arguments given("Npy", {"files"}, args, kwargs);
      arrays = given.take("files");
      given.read("name", name);
      given.end();
    }
    Arguments given("Npy", {}, nb::borrow<nb::args>(nb::tuple()), nb::borrow<nb::kwargs>(arrays));
    std::vector<NpyArrays> all;
    for (const nb::handle key : arrays) {
      const std::string field = to_text(key);
      given.require({field.c_str()});  // None stands for nothing
      all.push_back({field, given.files(field.c_str())});
    }
    construct(self, all, name);
  }
  remember(self, args, kwargs);
}

// The array shares the memory of the dataset, which lives as long as it.
nb::ndarray<nb::numpy, const std::uint8_t> view(const nb::object& self,
                                                std::span<const std::uint8_t> values,
                                                std::initializer_list<std::size_t> shape) {
  return {values.data(), shape, self};
}

void bind_mnist(nb::module_& module) {
  nb::class_<Mnist, Dataset>(
      module, "Mnist",
      "MNIST, and datasets in the same format, in memory. Fields: \"image\", uint8 [28, 28]; "
      "\"label\", uint8, a scalar.",
      nb::is_final())
      .def("__init__", &make_mnist,
           nb::sig("def __init__(self, files: Paths, split: Literal['train', 'test'] | None = "
                   "None) -> None"),
           "With a split: the two files of the format in the folder `files`, or these with .gz. "
           "Without: `files` are the files of images; the labels of each are in the file with "
           "\"labels\" for \"images\" in its name.")
      .def_prop_ro(
          "images",
          [](const nb::object& self) {
            const auto& data = nb::cast<const Mnist&>(self);
            return view(self, data.images(), {data.size(), data.rows(), data.columns()});
          },
          "All images, read-only, without a copy.")
      .def_prop_ro(
          "labels",
          [](const nb::object& self) {
            const auto& data = nb::cast<const Mnist&>(self);
            return view(self, data.labels(), {data.size()});
          },
          "All labels, read-only, without a copy.");
}

}  // namespace

void bind_sources(nb::module_& module) {
  nb::class_<TokenShards, Dataset>(
      module, "TokenShards",
      "Windows of token shards: the files of nanoGPT and llm.c, and .npy files of one dimension. "
      "Fields: \"x\" and \"y\", each [sequence_length]; y is x, one token later.",
      nb::is_final())
      .def(
          "__init__", &make_token_shards,
          nb::sig("def __init__(self, files: Paths, *, sequence_length: int, stride: int = 0, "
                  "header: Literal['auto', 'none', 'llm.c'] = 'auto', token: DTypeLike | None = "
                  "None, dtype: DTypeLike = 'int32', vocabulary: int = 0, extension: str = "
                  "'.bin') -> None"),
          "stride: tokens from one window to the next; 0: sequence_length. header: \"auto\" "
          "recognises llm.c's and NumPy's, and refuses files of other known formats; \"none\": "
          "tokens begin at byte 0. token: uint16, uint32, int32 or int64; None: what the header "
          "says, uint16 in files without one. dtype: the type of x and y. vocabulary: a token that "
          "is not below it is an error; 0: any that dtype can hold.")
      .def_prop_ro(
          "token", [](const TokenShards& self) { return to_string(self.token()); },
          "The type of the tokens in the files.")
      .def_prop_ro("tokens", &TokenShards::tokens,
                   "Tokens in all files, including those that are in no window.");
  nb::class_<FixedRecords, Dataset>(
      module, "FixedRecords",
      "Records of one size in binary files: the tensors of a sample, one after the other, as "
      "numpy.ndarray.tofile writes them.",
      nb::is_final())
      .def("__init__", &make_fixed_records,
           nb::sig("def __init__(self, files: Paths, *, fields: Sequence[Field], header_bytes: "
                   "int = 0, extension: str = '.bin', name: str | None = None) -> None"),
           "header_bytes: bytes to skip at the start of each file; with 0, a .npy file or an "
           "archive "
           "is an error.");
  nb::class_<Npy, Dataset>(
      module, "Npy",
      "Samples in .npy files, along the first axis. The files of an array are its shards; a "
      "structured type is a field for each of its members.",
      nb::is_final())
      .def("__init__", &make_npy,
           nb::sig("def __init__(self, files: Files | Mapping[str, Files] = ..., /, *, name: Any = "
                   "None, **fields: Files) -> None"),
           "Npy(x=files, y=files), or Npy({\"x\": files, \"y\": files}, name=\"...\"): a field of "
           "each. "
           "Npy(files): the field is \"x\", or the members of a structured type.");
  bind_cifar<feeder::Cifar10>(module, "Cifar10",
                              "CIFAR-10, the binary version. Fields: \"image\", uint8 [3, 32, 32]; "
                              "\"label\".");
  bind_cifar<feeder::Cifar100>(module, "Cifar100",
                               "CIFAR-100, the binary version. Fields: \"image\", uint8 [3, 32, "
                               "32]; \"label\"; \"coarse_label\".");
  bind_mnist(module);
}

}  // namespace leat::python
