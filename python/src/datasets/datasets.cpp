// Field, and Dataset: what all datasets have.

#include "leat/python/datasets/datasets.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/sample.h"
#include "leat/python/calls/arguments.h"
#include "leat/python/calls/text.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

using feeder::Dataset;
using feeder::DType;
using feeder::Field;

namespace {

nb::tuple shape_of(const Field& field) {
  nb::list shape;
  for (const std::int64_t extent : field.shape) shape.append(extent);
  return nb::tuple(shape);
}

nb::tuple parts_of(const Field& field) {
  return nb::make_tuple(to_str(field.name), to_string(field.dtype), shape_of(field),
                        field.variable_length);
}

// Reads a sample. What a part of it throws names the part and the number there, as a Prefetcher
// does.
void read_into(feeder::Sample& out, const Dataset& data, std::uint64_t index) {
  try {
    data.read(index, out);
  } catch (const Error& error) {
    const std::string origin = data.origin(index, out.seed(), out.epoch());
    if (origin.empty() || typeid(error) != typeid(Error)) throw;
    throw Error("leat: " + origin + ": " + error.what());
  }
}

// The arrays share the buffer that was read into; the last of them frees it.
nb::dict read(const Dataset& data, std::uint64_t index, std::uint64_t seed, std::uint64_t epoch) {
  const std::span<const Field> fields = data.fields();
  for (const Field& field : fields) {
    if (field.dtype != DType::kBFloat16) continue;
    throw nb::type_error(("leat: NumPy has no bfloat16, the type of field \"" + field.name +
                          "\": read it by a leat.Prefetcher, with framework=None or \"torch\"")
                             .c_str());
  }
  auto buffer = std::make_unique<feeder::SampleBuffer>(fields, seed, epoch, index);
  {
    const WithoutGil others_run;
    read_into(*buffer, data, index);
  }
  const feeder::SampleBuffer& sample = *buffer;
  const nb::capsule owner(
      buffer.get(), [](void* freed) noexcept { delete static_cast<feeder::SampleBuffer*>(freed); });
  static_cast<void>(buffer.release());
  nb::dict arrays;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Field& field = fields[f];
    const std::span<const std::byte> bytes = sample.bytes(f);
    std::vector<std::size_t> shape(field.shape.begin(), field.shape.end());
    if (field.variable_length) shape[0] = bytes.size() / field.row_bytes();
    // Not const: the buffer is the arrays' own.
    void* const values = const_cast<std::byte*>(bytes.data());
    arrays[to_str(field.name)] = nb::ndarray<nb::numpy>(values, shape.size(), shape.data(), owner,
                                                        nullptr, to_dlpack(field.dtype));
  }
  return arrays;
}

nb::str describe(nb::handle self) {
  const auto& data = nb::cast<const Dataset&>(self);
  std::string text = "<leat.";
  text.append(to_text(self.type().attr("__name__")))
      .append(" \"")
      .append(data.name())
      .append("\": ")
      .append(std::to_string(data.size()))
      .append(" samples of");
  const char* before = " ";
  for (const Field& field : data.fields()) {
    text.append(before).append(to_string(field));
    before = ", ";
  }
  return to_str(text.append(">"));
}

void bind_field(nb::module_& module) {
  nb::class_<Field>(module, "Field", "One tensor of every sample: its name, type and shape.",
                    nb::is_final())
      .def(
          "__init__",
          [](Field* self, const nb::args& args, const nb::kwargs& kwargs) {
            Arguments given("Field", {"name", "dtype", "shape"}, args, kwargs);
            Field field;
            given.require({"name", "dtype"});
            given.read("name", field.name);
            given.read("dtype", field.dtype);
            given.read("shape", field.shape);
            given.read("variable_length", field.variable_length);
            given.end();
            new (self) Field(std::move(field));
          },
          nb::sig("def __init__(self, name: str, dtype: DTypeLike, shape: Sequence[int] = (), *, "
                  "variable_length: bool = False) -> None"),
          "With variable_length, the first extent differs from sample to sample; shape[0] is the "
          "largest.")
      .def_prop_ro("name", [](const Field& self) { return to_str(self.name); })
      .def_prop_ro(
          "dtype", [](const Field& self) { return feeder::to_string(self.dtype); },
          "\"uint8\", \"float32\" and so on.")
      .def_prop_ro("shape", &shape_of, "Of one sample; (): a scalar.")
      .def_ro("variable_length", &Field::variable_length)
      .def(
          "__eq__", [](const Field& self, const Field& other) { return self == other; },
          nb::is_operator())
      .def("__hash__", [](const Field& self) { return nb::hash(parts_of(self)); })
      .def("__reduce__",
           [](nb::handle self) {
             const auto& field = nb::cast<const Field&>(self);
             nb::dict kwargs;
             kwargs["variable_length"] = field.variable_length;
             return remake(self.type(),
                           nb::make_tuple(to_str(field.name), feeder::to_string(field.dtype),
                                          shape_of(field)),
                           kwargs);
           })
      .def("__repr__", [](const Field& self) {
        return nb::str("leat.Field({!r}, {!r}, {!r}{})")
            .format(to_str(self.name), feeder::to_string(self.dtype), shape_of(self),
                    self.variable_length ? ", variable_length=True" : "");
      });
}

}  // namespace

nb::object copied(nb::handle value, bool arrays) {
  if (PyDict_CheckExact(value.ptr()) != 0) {
    nb::dict copy;
    for (const auto& [key, item] : nb::cast<nb::dict>(value)) copy[key] = copied(item, arrays);
    return copy;
  }
  const bool is_tuple = PyTuple_CheckExact(value.ptr()) != 0;
  if (is_tuple || PyList_CheckExact(value.ptr()) != 0) {
    nb::list copy;
    for (const nb::handle item : value) copy.append(copied(item, arrays));
    return is_tuple ? nb::object(nb::tuple(copy)) : nb::object(copy);
  }
  if (arrays && nb::hasattr(value, "__array__")) {
    return nb::module_::import_("numpy").attr("array")(value);
  }
  return nb::borrow(value);
}

nb::tuple remake(nb::handle maker, nb::handle args, nb::handle kwargs) {
  return nb::make_tuple(nb::module_::import_("leat.readers.remake").attr("remake"),
                        nb::make_tuple(maker, args, kwargs));
}

nb::dlpack::dtype to_dlpack(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const std::string_view name = feeder::to_string(dtype);
  Code code = Code::Int;
  if (dtype == DType::kBFloat16) code = Code::Bfloat;
  if (dtype == DType::kBool) code = Code::Bool;
  if (name.starts_with("uint")) code = Code::UInt;
  if (name.starts_with("float")) code = Code::Float;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

std::string to_string(const Field& field) {
  std::string text = field.name + " " + feeder::to_string(field.dtype) + " [";
  for (std::size_t i = 0; i < field.shape.size(); ++i) {
    text.append(i == 0 ? "" : ", ").append(i == 0 && field.variable_length ? "<=" : "");
    text.append(std::to_string(field.shape[i]));
  }
  return text.append("]");
}

std::uint64_t index_in(const Dataset& data, nb::handle number) {
  const std::string dataset = "leat: dataset \"" + std::string(data.name()) + "\"";
  if (PyIndex_Check(number.ptr()) == 0) {
    throw nb::type_error((dataset + " takes the number of a sample, an int, not " +
                          to_text(nb::repr(number)) + ": ask for one sample at a time")
                             .c_str());
  }
  const auto size = static_cast<std::int64_t>(data.size());
  const std::int64_t index = PyNumber_AsSsize_t(number.ptr(), nullptr);  // too large: the largest
  if (index == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  const std::int64_t from_begin = index < 0 ? index + size : index;
  if (from_begin < 0 || from_begin >= size) {
    throw nb::index_error((dataset + " has " + std::to_string(size) +
                           " samples, and none with the number " + to_text(number))
                              .c_str());
  }
  return static_cast<std::uint64_t>(from_begin);
}

const Dataset& to_dataset(nb::handle object) {
  if (!nb::isinstance<Dataset>(object)) {
    throw nb::type_error((std::string("leat: a dataset has to be a leat.Dataset (leat.TokenShards, "
                                      "leat.InMemory, ...), not a ") +
                          to_text(object.type().attr("__name__")))
                             .c_str());
  }
  return nb::cast<const Dataset&>(object);
}

void bind_datasets(nb::module_& module) {
  bind_field(module);
  nb::class_<Dataset>(module, "Dataset", nb::dynamic_attr(),
                      "Samples by number. The base of all datasets.")
      .def("__len__", &Dataset::size)
      .def("__reduce__",
           [](nb::handle self) {
             const nb::object made_of = self.attr("_made_of");
             return remake(self.type(), made_of[0], made_of[1]);
           })
      .def(
          "__getitem__",
          [](const Dataset& self, nb::handle index) {
            const std::uint64_t number = index_in(self, index);
            if (!self.varies_by_epoch()) return read(self, number, 0, 0);
            // As the reader of a DataLoader that asks for it; outside of one, 0 and 0.
            const nb::object run =
                nb::module_::import_("leat.readers.rng").attr("seed_and_epoch")();
            return read(self, number, nb::cast<std::uint64_t>(run[0]),
                        nb::cast<std::uint64_t>(run[1]));
          },
          nb::arg("index").none(), nb::sig("def __getitem__(self, index: int) -> dict"),
          "A sample, as read() returns it.")
      .def("__iter__",
           [](nb::handle self) {
             nb::object samples = nb::steal(PySeqIter_New(self.ptr()));
             if (!samples) throw nb::python_error();
             return samples;
           })
      .def(
          "read",
          [](const Dataset& self, const nb::args& args, const nb::kwargs& kwargs) {
            Arguments given("Dataset.read", {"index"}, args, kwargs);
            std::uint64_t seed = 0;
            std::uint64_t epoch = 0;
            given.require({"index"});
            const std::uint64_t index = index_in(self, given.take("index"));
            given.read("seed", seed);
            given.read("epoch", epoch);
            given.end();
            return read(self, index, seed, epoch);
          },
          nb::sig("def read(self, index: int, *, seed: int = 0, epoch: int = 0) -> dict"),
          "A sample: NumPy arrays by the names of the fields. A Prefetcher with this seed reads "
          "the same sample in that epoch.")
      .def(
          "map",
          [](nb::handle self, nb::handle function) {
            return nb::module_::import_("leat.readers.source").attr("Mapped")(self, function);
          },
          nb::arg("function").none(),
          "A dataset of function(sample), where a sample is a dict of arrays. Readers call it.")
      .def_prop_ro(
          "name", [](const Dataset& self) { return to_str(self.name()); },
          "In messages and reports.")
      .def_prop_ro("fields",
                   [](const Dataset& self) {
                     nb::list fields;
                     for (const Field& field : self.fields()) fields.append(field);
                     return nb::tuple(fields);
                   })
      .def_prop_ro("digest", &Dataset::digest,
                   "Tells datasets apart: a state of another dataset is refused. 0: not known.")
      .def_prop_ro("is_ordered", &Dataset::is_ordered,
                   "Whether its numbers are an order already, as those of a Mixture are: a "
                   "Prefetcher takes the samples by number then.")
      .def("__repr__", &describe);
}

}  // namespace leat::python
