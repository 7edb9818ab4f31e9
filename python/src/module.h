// What a file of the extension offers to module.cpp: one function, which binds that file's part.
#pragma once

#include <nanobind/nanobind.h>

namespace leat::python {

/// Batch. After bind_tensor().
void bind_batch(nanobind::module_& module);

/// devices() and cuda_status().
void bind_devices(nanobind::module_& module);

/// The exceptions. The first, so that errors of the others are translated.
void bind_errors(nanobind::module_& module);
/// Field and Dataset.
void bind_datasets(nanobind::module_& module);
/// The datasets of files of records. After bind_datasets.
void bind_sources(nanobind::module_& module);
/// WebDataset and its parts. After bind_datasets.
void bind_web_dataset(nanobind::module_& module);
/// Datasets of datasets. After bind_datasets.
void bind_compose(nanobind::module_& module);
/// ImageFolder and Files. After bind_datasets.
void bind_images(nanobind::module_& module);
/// Readers. After bind_datasets.
void bind_readers(nanobind::module_& module);
/// Stats, FailedSample, Trace.
void bind_stats(nanobind::module_& module);
/// InMemory. After bind_datasets.
void bind_arrays(nanobind::module_& module);
/// Columns. After bind_web_dataset.
void bind_columns(nanobind::module_& module);
/// Loop and Epoch. After bind_batch().
void bind_loop(nanobind::module_& module);
/// Departure.
void bind_departure(nanobind::module_& module);

/// Prefetcher. After bind_loop() and bind_datasets().
void bind_prefetcher(nanobind::module_& module);

/// LoopMeter and its figures.
void bind_overlap(nanobind::module_& module);

/// The submodule _stand_in, in the module that tests link with a software CUDA runtime; in the
/// package's module nothing.
void bind_stand_in(nanobind::module_& module);

/// Tensor.
void bind_tensor(nanobind::module_& module);

}  // namespace leat::python
