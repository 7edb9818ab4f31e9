// Binds leat.Batch. leat/_core.pyi says more of each function.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/python/batches/batch.h"
#include "leat/python/calls/arguments.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/module.h"

namespace leat::python {
namespace {

namespace nb = nanobind;

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<Batch>(self)->traverse(visit, arg) : 0;
}

int clear(PyObject* self) {
  const std::vector<nb::object> dropped = nb::inst_ptr<Batch>(self)->take_arrays();
  return 0;
}

nb::handle type_of_dicts() { return reinterpret_cast<PyObject*>(&PyDict_Type); }

nb::dict dict_of(nb::handle mapping) {
  const InCall inside;  // a mapping has Python code
  return nb::borrow<nb::dict>(type_of_dicts()(mapping));
}

void make(Batch* self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("Batch", {"mapping"}, args, kwargs);
  given.require({"mapping"});
  const nb::object mapping = given.take("mapping");
  given.end();
  const nb::object type = nb::module_::import_("collections.abc").attr("Mapping");
  if (PyObject_IsInstance(mapping.ptr(), type.ptr()) != 1) {
    given.bad_type("mapping", "a mapping of names to tensors", mapping);
  }
  new (self) Batch(dict_of(mapping));
}

// What copy and pickle make: a dict. copy.copy() gives one of the same tensors.
nb::tuple reduce(nb::handle self) {
  return nb::make_tuple(type_of_dicts(), nb::make_tuple(dict_of(self)));
}

// left | right, one of which is a batch, as of dicts.
nb::object merged(nb::handle left, nb::handle right) {
  const auto plain = [](nb::handle one) {
    return nb::isinstance<Batch>(one) ? nb::object(dict_of(one)) : nb::borrow(one);
  };
  nb::object made = nb::steal(PyNumber_Or(plain(left).ptr(), plain(right).ptr()));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

nb::object at(Batch& batch, nb::handle name) {
  std::string_view text;
  if (!nb::try_cast(name, text)) batch.refuse_key(name);
  return batch.at(text);
}

bool contains(const Batch& batch, nb::handle name) {
  std::string_view text;
  return nb::try_cast(name, text) && batch.has(text);
}

nb::object get(Batch& batch, nb::handle name, nb::object otherwise) {
  std::string_view text;
  return nb::try_cast(name, text) && batch.has(text) ? batch.at(text) : std::move(otherwise);
}

// A view of a mapping, of collections.abc: "KeysView", ...
template <const char* kView>
nb::object view_of(nb::handle batch) {
  const InCall inside;
  return nb::module_::import_("collections.abc").attr(kView)(batch);
}
constexpr char kKeys[] = "KeysView";
constexpr char kValues[] = "ValuesView";
constexpr char kItems[] = "ItemsView";

}  // namespace

void bind_batch(nb::module_& module) {
  static const std::array<PyType_Slot, 3> slots{
      {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
       {Py_tp_clear, reinterpret_cast<void*>(clear)},
       {0, nullptr}}};
  const auto of_info = [](auto member) {
    return [member](const Batch& batch) -> nb::object {
      return batch.info().has_value() ? nb::cast((*batch.info()).*member) : nb::none();
    };
  };
  auto type =
      nb::class_<Batch>(
          module, "Batch",
          "The tensors of a batch by name, as arrays of the feed's framework. The slot "
          "goes back when the batch and all that shares its memory are gone.",
          nb::type_slots(slots.data()), nb::is_weak_referenceable(), nb::is_final(), nb::pooled())
          .def("__init__", &make, nb::sig("def __init__(self, mapping: Mapping[str, Any]) -> None"),
               "A batch without a lease, of these tensors, with the numbers of the batch that this "
               "thread has just walked over.")
          .def("__getitem__", &at, nb::arg().none(),
               "The array of that name, without a copy. On a GPU, binds the current stream.")
          .def("__contains__", &contains, nb::arg().none())
          .def("__iter__",
               [](Batch& batch) {
                 batch.walk();
                 return nb::cast(batch.names()).attr("__iter__")();
               })
          .def("__reduce__", &reduce)
          .def("__or__", &merged, nb::arg().none())
          .def(
              "__ror__", [](nb::handle self, nb::handle other) { return merged(other, self); },
              nb::arg().none())
          .def("__len__", [](const Batch& batch) { return batch.names().size(); })
          .def("keys", &view_of<kKeys>)
          .def("values", &view_of<kValues>)
          .def("items", &view_of<kItems>)
          .def("get", &get, nb::arg("name").none(), nb::arg("default") = nb::none())
          .def("__repr__", &Batch::repr)
          .def_prop_ro("opaque",
                       [](const Batch& batch) {
                         return nb::bytes(batch.opaque().data(), batch.opaque().size());
                       })
          .def("arrays", &Batch::arrays, "The arrays of all tensors, in order.")
          .def("release", &Batch::release,
               "Gives up the batch's own share of the slot; arrays that live keep theirs.")
          .def("commit", &Batch::commit,
               "Counts the batch as trained on, before the loop asks for the next one.")
          .def("on", &Batch::on, nb::arg("stream").none(),
               "Makes one more stream wait for the batch's copy, and the slot's release wait for "
               "it.")
          .def_prop_ro("epoch", of_info(&BatchInfo::epoch), "The epoch of the batch.")
          .def_prop_ro("index", of_info(&BatchInfo::index),
                       "The global batch's number in its epoch.")
          .def_prop_ro("size", of_info(&BatchInfo::size),
                       "Samples in this batch; packed: samples and pieces of samples.")
          .def_prop_ro("rows", of_info(&BatchInfo::rows),
                       "Rows of each tensor: size, or more where the last batch is padded.")
          .def_prop_ro("elements", of_info(&BatchInfo::elements),
                       "Packed: elements of all samples; otherwise 0.")
          .def_prop_ro("step_size", of_info(&BatchInfo::step_size),
                       "Samples (packed: elements) of the step over all ranks, as planned.")
          .def_prop_ro("step_shards", of_info(&BatchInfo::step_shards),
                       "How many ranks have samples in this step.")
          .def_prop_ro("copied", &Batch::is_copied,
                       "Whether its arrays are copies, because too many batches were held, or "
                       "because it was peeked at.");
  nb::module_::import_("collections.abc").attr("Mapping").attr("register")(type);
}

}  // namespace leat::python
