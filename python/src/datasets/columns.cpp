// Columns: tables of other libraries as datasets, through the Arrow PyCapsule interface.
//
// Ownership: ArrowTable is made and destroyed with the GIL held. A producer's release() may need
// it, and Columns is destroyed by Python. In between, producers are called without it; one that
// runs Python code takes it by itself.

#include "leat/feeder/sources/columns.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "leat/feeder/sources/columns/arrow_abi.h"
#include "leat/feeder/sources/columns/arrow_table.h"
#include "leat/feeder/sources/web_part.h"
#include "leat/python/calls/arguments.h"
#include "leat/python/calls/text.h"
#include "leat/python/datasets/datasets.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

using feeder::ArrowTable;
using feeder::Columns;
using feeder::ColumnsOptions;
using feeder::Dataset;
using feeder::WebPart;

namespace {

constexpr const char* kMethod = "__arrow_c_stream__";

// Whether `object` is of this class of Hugging Face's datasets, or of a subclass.
bool is_hugging_face(nb::handle object, const char* module, const char* name) {
  for (const nb::handle base : nb::borrow<nb::tuple>(object.type().attr("__mro__"))) {
    if (to_text(base.attr("__name__")) == name && to_text(base.attr("__module__")) == module) {
      return true;
    }
  }
  return false;
}

[[noreturn]] void refuse(nb::handle table) {
  const std::string type = to_text(table.type().attr("__name__"));
  const bool has_splits = is_hugging_face(table, "datasets.dataset_dict", "DatasetDict");
  throw nb::type_error(
      ("leat.Columns takes a table that has __arrow_c_stream__ (of pyarrow, polars, pandas, "
       "DuckDB), or a datasets.Dataset, not a " +
       type + (has_splits ? ": choose one of its splits" : ": make one of these of it"))
          .c_str());
}

// Moves the stream out of the capsule that `table` makes. The capsule then has nothing to release.
std::shared_ptr<ArrowTable> table_of(nb::handle table) {
  if (PyType_Check(table.ptr()) != 0 || !nb::hasattr(table, kMethod)) refuse(table);
  const nb::object capsule = table.attr(kMethod)();
  void* const stream = PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream");
  if (stream == nullptr) throw nb::python_error();
  // A release() that runs Python code may not find the exception that its object is dropped by.
  return {new ArrowTable(*static_cast<ArrowArrayStream*>(stream)), [](ArrowTable* released) {
            const nb::error_scope pending;
            delete released;
          }};
}

// The columns of a datasets.Dataset that its format has, in the table's order.
nb::object columns_of(nb::handle dataset) {
  const nb::object table = dataset.attr("data").attr("table");
  const nb::object wanted = dataset.attr("format")["columns"];
  nb::list names;
  for (const nb::handle name : table.attr("column_names")) {
    if (nb::cast<bool>(wanted.attr("__contains__")(name))) names.append(name);
  }
  return table.attr("select")(names);
}

void fetch(ArrowTable& table, const std::string& name) {
  const WithoutGil others_run;
  table.fetch(name);
}

nb::dict take_dict(Arguments& given, const char* name) {
  const nb::object value = given.take(name);
  if (!value) return {};
  if (!nb::isinstance<nb::dict>(value))
    given.bad_type(name, "a dict by the names of columns", value);
  return nb::borrow<nb::dict>(value);
}

ColumnsOptions options_of(Arguments& given) {
  ColumnsOptions options;
  for (const auto& [name, shape] : take_dict(given, "shapes")) {
    std::vector<std::int64_t>& extents = options.shapes[to_text(name)];
    if (PySequence_Check(shape.ptr()) == 0 || !nb::try_cast(nb::tuple(shape), extents)) {
      given.bad_type("shapes", "a dict of shapes, tuples of ints such as (2,)", shape);
    }
  }
  for (const auto& [name, value] : take_dict(given, "fill")) {
    auto& fill = options.fill[to_text(name)];
    double number = 0;
    if (std::int64_t integer = 0; PyIndex_Check(value.ptr()) != 0 && nb::try_cast(value, integer)) {
      fill = integer;
    } else if (std::uint64_t large = 0;
               PyIndex_Check(value.ptr()) != 0 && nb::try_cast(value, large)) {
      fill = large;
    } else if (PyIndex_Check(value.ptr()) == 0 && nb::try_cast(value, number)) {
      fill = number;
    } else {
      given.bad_type("fill", "a dict of numbers, of which ints are from -2**63 to 2**64-1", value);
    }
  }
  std::vector<WebPart> images;
  given.read("images", images, "a sequence of leat.any_image(...)");
  for (const WebPart& image : images) {
    if (image.kind != WebPart::kImage) {
      throw nb::type_error("leat.Columns: images has to be a sequence of leat.any_image(...)");
    }
    options.images[image.field.name] = image.image;
  }
  given.read("name", options.name);
  return options;
}

void make_columns(Columns* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("Columns", {"table"}, args, kwargs);
  given.require({"table"});
  nb::object table = given.take("table");
  const ColumnsOptions options = options_of(given);
  given.end();
  nb::object rows = nb::none();
  if (is_hugging_face(table, "datasets.arrow_dataset", "Dataset")) {
    const nb::object indices = table.attr("_indices");
    if (!indices.is_none()) rows = indices.attr("table");
    table = columns_of(table);
  }
  const std::shared_ptr<ArrowTable> columns = table_of(table);
  fetch(*columns, options.name);
  std::shared_ptr<ArrowTable> numbers;
  if (!rows.is_none()) {
    numbers = table_of(rows);
    fetch(*numbers, "the rows of " + options.name);
  }
  construct(self, columns, numbers, options);
  remember(self, args, kwargs);
}

}  // namespace

void bind_columns(nb::module_& module) {
  nb::class_<Columns, Dataset>(
      module, "Columns",
      "The rows of a table, without a copy: of what has __arrow_c_stream__ (pyarrow, polars, "
      "pandas, DuckDB), and of a datasets.Dataset, in its order. Each column is a field.",
      nb::is_final())
      .def(
          "__init__", &make_columns,
          nb::sig("def __init__(self, table: Any, *, shapes: Mapping[str, Sequence[int]] = ..., "
                  "fill: Mapping[str, float] = ..., images: Sequence[WebPart] = (), name: str = "
                  "'columns') -> None"),
          "By the names of columns: `shapes` of lists whose rows all have one; `fill`, the values "
          "in the places of nulls, which are errors without (a null row of variable length becomes "
          "empty); `images`, how an image is decoded: any_image(column, ...).")
      .def(
          "categories",
          [](const Columns& self, nb::handle wanted) {
            const std::string name = to_text(wanted);
            const auto field = std::ranges::find(self.fields(), name, &feeder::Field::name);
            if (field == self.fields().end() || !nb::isinstance<nb::str>(wanted)) {
              throw nb::key_error(
                  ("leat: there is no column " + to_text(nb::repr(wanted))).c_str());
            }
            nb::list texts;
            const auto number = static_cast<std::size_t>(field - self.fields().begin());
            for (const std::string& text : self.categories(number)) texts.append(to_str(text));
            return texts;
          },
          nb::arg("name").none(), nb::sig("def categories(self, name: str) -> list[str]"),
          "What the codes of a dictionary's column stand for; [] if it has none of strings.");
}

}  // namespace leat::python
