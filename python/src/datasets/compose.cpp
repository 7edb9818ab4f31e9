// Datasets of datasets: Subset, split, Concat, Mixture, Weighted, Numbered.

#include "leat/feeder/compose.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/python/calls/arguments.h"
#include "leat/python/calls/text.h"
#include "leat/python/datasets/datasets.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

using feeder::Concat;
using feeder::Dataset;
using feeder::Mixture;
using feeder::MixtureOptions;
using feeder::MixturePart;
using feeder::Numbered;
using feeder::Subset;
using feeder::Weighted;
using feeder::WeightedOptions;

namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

const Dataset& part_of(const char* function, nb::handle object) {
  if (nb::isinstance<Dataset>(object)) return nb::cast<const Dataset&>(object);
  throw nb::type_error(
      (std::string("leat.") + function + " composes Leat's own datasets (leat.TokenShards, " +
       "leat.InMemory, ...), not a " + to_text(object.type().attr("__name__")) +
       ": compose datasets in Python by torch.utils.data, and map what is composed: leat." +
       function + "(...).map(f)")
          .c_str());
}

// The parts live as long as what is composed of them, whatever becomes of its attributes.
template <class Data>
void hold(Data* self, nb::handle part) {
  nb::keep_alive_obj(nb::find(self), part);
}

// A sequence that is iterated over once.
nb::object items_of(const Arguments& given, const char* name, const char* wanted,
                    nb::handle object) {
  if (PySequence_Check(object.ptr()) == 0 || nb::isinstance<nb::str>(object) ||
      nb::isinstance<Dataset>(object)) {
    given.bad_type(name, wanted, object);
  }
  nb::object items = nb::steal(PySequence_Tuple(object.ptr()));
  if (!items) throw nb::python_error();
  return items;
}

// Numbers of one dimension, as NumPy makes them of sequences, arrays and tensors.
nb::object to_array(const Arguments& given, const char* name, nb::handle object, const char* kinds,
                    const char* wanted) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array = numpy.attr("asarray")(object);
  const bool is_empty = array.attr("size").equal(nb::int_(0));
  const std::string kind = to_text(array.attr("dtype").attr("kind"));
  if (nb::cast<int>(array.attr("ndim")) != 1 ||
      (!is_empty && std::string(kinds).find(kind) == std::string::npos)) {
    given.bad_type(name, wanted, object);
  }
  return array;
}

std::vector<double> doubles(const Arguments& given, const char* name, nb::handle object) {
  const nb::object array = to_array(given, name, object, "fiu", "a sequence of floats");
  const auto values =
      nb::cast<Vector<double>>(array.attr("astype")("float64", nb::arg("order") = "C"));
  return {values.data(), values.data() + values.size()};
}

void make_subset(Subset* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("Subset", {"dataset", "numbers"}, args, kwargs);
  given.require({"dataset", "numbers"});
  const nb::object dataset = given.take("dataset");
  const nb::object numbers = given.take("numbers");
  given.end();
  const Dataset& from = part_of("Subset", dataset);
  const char* const wanted = "a range, or a sequence of ints";
  if (PyRange_Check(numbers.ptr())) {
    const auto count = static_cast<std::int64_t>(PyObject_Size(numbers.ptr()));
    const std::int64_t step = PyLong_AsLongLong(numbers.attr("step").ptr());
    const std::uint64_t first =
        count == 0 ? 0 : PyLong_AsUnsignedLongLong(numbers.attr("start").ptr());
    if (PyErr_Occurred() != nullptr) {  // below 0, or beyond 64 bits
      PyErr_Clear();
      given.bad_value("numbers", "a range of numbers in the dataset", numbers);
    }
    new (self) Subset(Subset::range(from, first, static_cast<std::uint64_t>(count), step));
  } else {
    const nb::object array = to_array(given, "numbers", numbers, "iu", wanted);
    if (nb::len(array) > 0) {
      const nb::int_ least(array.attr("min")());
      if (least < nb::int_(0))
        given.bad_value("numbers", "numbers in the dataset, from 0 on", least);
    }
    const auto values =
        nb::cast<Vector<std::uint64_t>>(array.attr("astype")("uint64", nb::arg("order") = "C"));
    construct(self, from, std::vector(values.data(), values.data() + values.size()));
  }
  hold(self, dataset);
  remember(self, args, kwargs, true);
}

// A subset refers to the list of all: that has the memory of each.
nb::list split(const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("split", {"dataset", "parts"}, args, kwargs);
  given.require({"dataset", "parts"});
  const nb::object dataset = given.take("dataset");
  const std::vector<double> parts = doubles(given, "parts", given.take("parts"));
  std::uint64_t seed = 0;
  given.read("seed", seed);
  given.end();
  auto subsets =
      std::make_unique<std::deque<Subset>>(feeder::split(part_of("split", dataset), parts, seed));
  const nb::capsule owner(
      subsets.get(), [](void* freed) noexcept { delete static_cast<std::deque<Subset>*>(freed); });
  std::deque<Subset>& all = *subsets.release();
  const nb::object args_then = copied(args, true);
  const nb::object kwargs_then = copied(kwargs, true);
  nb::list found;
  for (std::size_t j = 0; j < all.size(); ++j) {
    const nb::object one = nb::cast(&all[j], nb::rv_policy::reference);
    nb::keep_alive_obj(one, owner);
    nb::keep_alive_obj(one, dataset);
    nb::setattr(one, "_made_of", nb::make_tuple(args_then, kwargs_then, j));
    found.append(one);
  }
  return found;
}

void make_concat(Concat* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("Concat", {"datasets"}, args, kwargs);
  given.require({"datasets"});
  const nb::object datasets =
      items_of(given, "datasets", "a sequence of datasets", given.take("datasets"));
  given.end();
  std::vector<std::reference_wrapper<const Dataset>> parts;
  for (const nb::handle part : datasets) parts.emplace_back(part_of("Concat", part));
  construct(self, parts);
  for (const nb::handle part : datasets) hold(self, part);
  remember(self, args, kwargs, true);
}

// A number of samples, an int that may be left out. Python's len() cannot be more.
std::optional<std::uint64_t> optional_int(Arguments& given, const char* name) {
  std::uint64_t value = 0;
  const bool is_given = given.has(name);
  given.read(name, value);
  if (value > std::numeric_limits<std::int64_t>::max()) {
    given.bad_value(name, "an int below 2**63", nb::cast(value));
  }
  return is_given ? std::optional(value) : std::nullopt;
}

double weight_of(const Arguments& given, const char* name, nb::handle object) {
  const double value = PyFloat_AsDouble(object.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    given.bad_type(name, "a float for each weight", object);
  }
  return value;
}

// A pair, as a tuple or a list.
std::optional<std::pair<nb::object, nb::object>> pair_of(nb::handle object) {
  if (!nb::isinstance<nb::tuple>(object) && !nb::isinstance<nb::list>(object)) return std::nullopt;
  if (nb::len(object) != 2) return std::nullopt;
  return std::pair<nb::object, nb::object>(object[0], object[1]);
}

void make_mixture(Mixture* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("Mixture", {"parts"}, args, kwargs);
  given.require({"parts"});
  const char* const wanted = "a sequence of datasets, or of pairs (dataset, weight)";
  const nb::object list = items_of(given, "parts", wanted, given.take("parts"));
  std::vector<MixturePart> parts;
  std::vector<nb::object> held;
  for (const nb::handle one : list) {
    const auto pair = pair_of(one);
    held.push_back(pair ? pair->first : nb::borrow(one));
    parts.push_back({part_of("Mixture", held.back())});
    if (pair) parts.back().weight = weight_of(given, "parts", pair->second);
  }
  MixtureOptions options{.samples = optional_int(given, "samples")};
  const char* const wanted_stages = "a sequence of pairs (first epoch, weights)";
  if (const nb::object stages = given.take("stages")) {
    for (const nb::handle one : items_of(given, "stages", wanted_stages, stages)) {
      const auto pair = pair_of(one);
      std::uint64_t first = 0;
      if (!pair || PyBool_Check(pair->first.ptr()) || !nb::try_cast(pair->first, first)) {
        given.bad_type("stages", wanted_stages, one);
      }
      options.stages.push_back({first, doubles(given, "stages", pair->second)});
    }
  }
  given.read("shuffle", options.shuffle);
  given.end();
  construct(self, parts, options);
  for (const nb::object& part : held) hold(self, part);
  remember(self, args, kwargs, true);
}

void make_weighted(Weighted* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("Weighted", {"dataset", "weights"}, args, kwargs);
  given.require({"dataset", "weights"});
  const nb::object dataset = given.take("dataset");
  const std::vector<double> weights = doubles(given, "weights", given.take("weights"));
  WeightedOptions options{.samples = optional_int(given, "samples")};
  given.read("replacement", options.replacement);
  given.end();
  construct(self, part_of("Weighted", dataset), std::span(weights), options);
  hold(self, dataset);
  remember(self, args, kwargs, true);
}

void make_numbered(Numbered* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("Numbered", {"dataset"}, args, kwargs);
  given.require({"dataset"});
  const nb::object dataset = given.take("dataset");
  given.end();
  construct(self, part_of("Numbered", dataset));
  hold(self, dataset);
  remember(self, args, kwargs, true);
}

}  // namespace

void bind_compose(nb::module_& module) {
  nb::class_<Subset, Dataset>(
      module, "Subset", "Some samples of a dataset, by their numbers. Packs, if the dataset does.",
      nb::is_final())
      .def("__init__", &make_subset,
           nb::sig("def __init__(self, dataset: Dataset, numbers: range | Sequence[int] | "
                   "NDArray[Any]) -> None"),
           "numbers: a range, which takes no memory, or ints in any order, which take 8 bytes "
           "each.")
      .def("__reduce__", [](nb::handle self) {
        const nb::object made_of = self.attr("_made_of");
        if (nb::len(made_of) == 2) return remake(self.type(), made_of[0], made_of[1]);
        return remake(nb::str("_split_part"), made_of, nb::dict());
      });
  module.def("split", &split,
             nb::sig("def split(dataset: Dataset, parts: Sequence[float], *, seed: int = 0) -> "
                     "list[Subset]"),
             "Divides a dataset at random into parts that have no sample in common. parts: their "
             "shares, relative to each other. They depend on this seed alone, which is not the "
             "run's: they are the same in each epoch.");
  module.def(
      "_split_part",
      [](const nb::tuple& args, const nb::dict& kwargs, std::size_t part) {
        return nb::object(split(nb::borrow<nb::args>(args), nb::borrow<nb::kwargs>(kwargs))[part]);
      },
      nb::arg("arguments"), nb::arg("named"), nb::arg("part"),
      nb::sig("def _split_part(arguments: Sequence[Any], named: Mapping[str, Any], part: int) -> "
              "Subset"),
      "One part of split(), for pickle.");
  nb::class_<Concat, Dataset>(
      module, "Concat",
      "Datasets one after the other; one may come several times. Their fields are equal; of "
      "variable length, the longest counts. Packs, if all parts do.",
      nb::is_final())
      .def("__init__", &make_concat,
           nb::sig("def __init__(self, datasets: Sequence[Dataset]) -> None"), "");
  nb::class_<Mixture, Dataset>(
      module, "Mixture",
      "Several datasets, evenly mixed by weights, in an order of its own, which the seed of the "
      "Prefetcher decides. Each part is passed through completely, shuffled anew for each pass, "
      "before it begins again, also across epochs. Cannot be packed: pack a Concat, or mix windows "
      "of a fixed length.",
      nb::is_final())
      .def("__init__", &make_mixture,
           nb::sig("def __init__(self, parts: Sequence[Dataset | tuple[Dataset, float]], *, "
                   "samples: int | None = None, stages: Sequence[tuple[int, Sequence[float]]] | "
                   "None = None, shuffle: bool = True) -> None"),
           "parts: datasets with weights; without, the weights are their sizes. samples: in an "
           "epoch; None: as many as the parts have together. stages: (first epoch, weights), a "
           "curriculum; a stage that is appended changes nothing before it. shuffle=False: each "
           "pass is in the order of the numbers.");
  nb::class_<Weighted, Dataset>(
      module, "Weighted",
      "Samples of a dataset as often as their weights say, drawn anew in each epoch. Cannot be "
      "packed.",
      nb::is_final())
      .def("__init__", &make_weighted,
           nb::sig("def __init__(self, dataset: Dataset, weights: Sequence[float] | NDArray[Any], "
                   "*, samples: int | None = None, replacement: bool = False) -> None"),
           "weights: one for each sample. samples: in an epoch; None: as many as the dataset has. "
           "replacement: draws samples independently of each other; else each comes as often as "
           "its weight says, rounded down or up.");
  nb::class_<Numbered, Dataset>(
      module, "Numbered",
      "A dataset, and in each sample its number, as the field \"number\". Of a Mixture, the number "
      "is that in the part, and a field \"source\" has the part; of a Weighted, that in the "
      "dataset.",
      nb::is_final())
      .def("__init__", &make_numbered, nb::sig("def __init__(self, dataset: Dataset) -> None"), "");
}

}  // namespace leat::python
