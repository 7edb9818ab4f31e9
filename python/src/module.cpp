// The extension `leat._core`. Each part of it is bound by a function of its own file.

#include "leat/python/module.h"

#include <nanobind/nanobind.h>

NB_MODULE(_core, module) {
  module.doc() = "What leat's Python files are made of. Private: import leat.";
  module.attr("__version__") = LEAT_VERSION;
  leat::python::bind_errors(module);
  leat::python::bind_devices(module);
  leat::python::bind_datasets(module);
  leat::python::bind_sources(module);
  leat::python::bind_web_dataset(module);
  leat::python::bind_images(module);
  leat::python::bind_arrays(module);
  leat::python::bind_compose(module);
  leat::python::bind_columns(module);
  leat::python::bind_readers(module);
  leat::python::bind_stats(module);
  leat::python::bind_tensor(module);
  leat::python::bind_batch(module);
  leat::python::bind_loop(module);
  leat::python::bind_departure(module);
  leat::python::bind_prefetcher(module);
  leat::python::bind_overlap(module);
  leat::python::bind_stand_in(module);
}
