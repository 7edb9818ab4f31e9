// Objects with members that are Python objects: what the garbage collector needs to know of them.
#pragma once

#include <nanobind/nanobind.h>

namespace leat::python {

/// Py_tp_traverse by Object::traverse.
template <class Object>
int traverse_of(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nanobind::inst_ready(self)) return 0;
  return nanobind::inst_ptr<Object>(self)->traverse(visit, arg);
}

/// Py_tp_clear by Object::clear.
template <class Object>
int clear_of(PyObject* self) {
  if (nanobind::inst_ready(self)) nanobind::inst_ptr<Object>(self)->clear();
  return 0;
}

/// For nanobind::type_slots: a class whose functions traverse(visit, arg) and clear() see to its
/// members.
template <class Object>
inline const PyType_Slot kCollected[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_of<Object>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_of<Object>)},
    {0, nullptr},
};

}  // namespace leat::python
