// InMemory: arrays of the program as a dataset, without a copy.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/sources/mapped_memory.h"
#include "leat/feeder/sources/memory.h"
#include "leat/python/calls/arguments.h"
#include "leat/python/calls/text.h"
#include "leat/python/datasets/datasets.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

using feeder::Dataset;
using feeder::DType;
using feeder::Field;

namespace {

using Array = nb::ndarray<nb::ro>;

/// feeder::InMemory, and the arrays that it reads from: they live, and cannot change their size, as
/// long as it.
class Arrays final : public Dataset {
 public:
  Arrays(std::vector<Array> arrays, std::vector<feeder::InMemory::Tensor> tensors, std::string name)
      : arrays_(std::move(arrays)), data_(std::move(tensors), std::move(name)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return data_.name(); }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return data_.fields(); }
  [[nodiscard]] std::uint64_t size() const noexcept override { return data_.size(); }
  [[nodiscard]] feeder::Blocking blocking() const noexcept override { return data_.blocking(); }
  void read(std::uint64_t index, feeder::Sample& out) const override { data_.read(index, out); }
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t field) const override {
    return data_.length(index, field);
  }
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override {
    return data_.announce(index, seed, epoch);
  }

 private:
  std::vector<Array> arrays_;
  feeder::InMemory data_;
};

std::optional<DType> to_dtype(nb::dlpack::dtype type) {
  for (const Choice<DType>& one : dtypes()) {
    if (to_dlpack(one.value) == type) return one.value;
  }
  return std::nullopt;
}

// Whether the array lies in a file that is mapped, as those of numpy.memmap do.
bool is_mapped(const Array& array, feeder::FileMappings& mappings) {
  std::vector<std::size_t> files;
  mappings.add({static_cast<const std::byte*>(array.data()), array.nbytes()}, files);
  return !files.empty();
}

bool is_contiguous(const Array& array) {
  if (array.size() == 0) return true;
  std::int64_t step = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    const auto extent = static_cast<std::int64_t>(array.shape(i));
    if (extent > 1 && array.stride(i) != step) return false;
    step *= extent;
  }
  return true;
}

[[noreturn]] void refuse(const std::string& name, nb::handle array, const std::string& problem) {
  throw nb::type_error(("leat.InMemory: \"" + name + "\" (" +
                        to_text(array.type().attr("__name__")) + ") " + problem)
                           .c_str());
}

// Arrays of types that neither DLPack nor the buffer protocol has: object, dates...
Array to_array(const std::string& name, nb::handle given) {
  Array array;
  if (!nb::try_cast(given, array, false)) {
    const bool has_type = nb::hasattr(given, "dtype");
    refuse(name, given,
           has_type ? "has elements of type " + to_text(given.attr("dtype")) +
                          ", and cannot be read without a copy; convert it to one of " +
                          names_of(dtypes())
                    : "is no array: give a NumPy array, or what has the buffer protocol or "
                      "__dlpack__");
  }
  if (array.device_type() != nb::device::cpu::value) {
    refuse(name, given, "is in the memory of a device: copy it to the CPU");
  }
  if (array.ndim() == 0)
    refuse(name, given, "is a single number: an array has an entry for each sample");
  if (!is_contiguous(array)) {
    refuse(name, given, "is not contiguous: give numpy.ascontiguousarray(...) of it");
  }
  return array;
}

// The offsets of a leat.Ragged as int64, in the program's memory: mostly without a copy.
Array to_offsets(const std::string& name, nb::handle ragged, feeder::FileMappings& mappings) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object offsets = numpy.attr("asarray")(ragged.attr("offsets"));
  const std::string kind = to_text(offsets.attr("dtype").attr("kind"));
  if ((kind != "i" && kind != "u") || nb::cast<int>(offsets.attr("ndim")) != 1 ||
      nb::len(offsets) == 0) {
    refuse(name, ragged,
           "has offsets that are no integers of one dimension: one more than samples");
  }
  offsets = numpy.attr("ascontiguousarray")(offsets, "int64");
  Array array = to_array(name, offsets);
  if (!is_mapped(array, mappings)) return array;
  return to_array(name, offsets.attr("copy")());
}

void make(Arrays* self, const nb::args& args, const nb::kwargs& kwargs) {
  nb::dict given;
  given.update(kwargs);
  std::string name = "in memory";
  if (args.size() == 1 && nb::isinstance<nb::dict>(args[0])) {
    Arguments options("InMemory", {"arrays"}, args, kwargs);
    given = nb::borrow<nb::dict>(options.take("arrays"));
    options.read("name", name);
    options.end();
  } else if (!args.empty()) {
    throw nb::type_error(
        "leat.InMemory takes arrays by name: InMemory(x=array, y=array), or "
        "InMemory({\"x\": array, \"y\": array}, name=\"...\")");
  }
  std::vector<Array> arrays;
  std::vector<feeder::InMemory::Tensor> tensors;
  feeder::FileMappings mappings;
  const nb::object ragged = nb::module_::import_("leat.ragged").attr("Ragged");
  for (const auto& [key, value] : given) {
    if (!nb::isinstance<nb::str>(key))
      throw nb::type_error("leat.InMemory: the name of an array is a str");
    const std::string field = to_text(key);
    const bool is_ragged = nb::isinstance(value, ragged);
    std::span<const std::int64_t> offsets;
    if (is_ragged) {
      const Array& ends = arrays.emplace_back(to_offsets(field, value, mappings));
      offsets = {static_cast<const std::int64_t*>(ends.data()), ends.size()};
    }
    const nb::object values = is_ragged ? value.attr("values") : nb::borrow(value);
    const Array& array = arrays.emplace_back(to_array(field, values));
    const std::optional<DType> dtype = to_dtype(array.dtype());
    if (!dtype) {
      refuse(
          field, value,
          "has a type of elements that no field has; convert it to one of " + names_of(dtypes()));
    }
    std::vector<std::int64_t> shape(is_ragged ? 1 : 0, 1);  // the longest: InMemory sets it
    for (std::size_t i = 1; i < array.ndim(); ++i) {
      shape.push_back(static_cast<std::int64_t>(array.shape(i)));
    }
    tensors.push_back({{field, *dtype, std::move(shape), is_ragged},
                       {static_cast<const std::byte*>(array.data()), array.nbytes()},
                       is_mapped(array, mappings),
                       offsets});
  }
  new (self) Arrays(std::move(arrays), std::move(tensors), std::move(name));
  remember(self, args, kwargs);
}

}  // namespace

void bind_arrays(nb::module_& module) {
  nb::class_<Arrays, Dataset>(
      module, "InMemory",
      "Arrays with an entry for each sample, as a dataset, without a copy: NumPy arrays, and all "
      "that has the buffer protocol or __dlpack__. They must not change while they are read.",
      nb::is_final())
      .def("__init__", &make,
           nb::sig("def __init__(self, arrays: Mapping[str, Any] = ..., /, *, name: str = "
                   "'in memory', **fields: Any) -> None"),
           "InMemory(x=array, y=array), or InMemory({\"x\": array, \"y\": array}, name=\"...\"). "
           "An array whose entries have several lengths is a leat.Ragged(values, offsets).");
}

}  // namespace leat::python
