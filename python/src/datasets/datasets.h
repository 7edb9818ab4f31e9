// What the files that bind datasets share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "leat/feeder/dataset.h"
#include "leat/feeder/field.h"
#include "leat/feeder/sources/image.h"
#include "leat/python/calls/arguments.h"
#include "leat/python/calls/waiting.h"

namespace leat::python {

/// Makes `*self`, the object in the memory of a Python object, without the GIL: constructors of
/// datasets read files.
template <class Data, class... Arguments>
void construct(Data* self, Arguments&&... arguments) {
  const WithoutGil others_run;
  new (self) Data(std::forward<Arguments>(arguments)...);
}

/// Copies lists, tuples and dicts in `value`, and arrays in them if `arrays`: the caller may change
/// them later.
[[nodiscard]] nanobind::object copied(nanobind::handle value, bool arrays);

/// Notes what `self` was made of, for pickle: the unpickled one is made anew, from the same files.
/// `arrays`: with copies of arrays.
template <class Data>
void remember(Data* self, const nanobind::args& args, const nanobind::kwargs& kwargs,
              bool arrays = false) {
  nanobind::setattr(nanobind::find(self), "_made_of",
                    nanobind::make_tuple(copied(args, arrays), copied(kwargs, arrays)));
}

/// What pickle takes for an object that was made by `maker(*args, **kwargs)`.
[[nodiscard]] nanobind::tuple remake(nanobind::handle maker, nanobind::handle args,
                                     nanobind::handle kwargs);

/// "x int32 [1024]"; of variable length "tokens int32 [<=1024]". Needs the GIL.
[[nodiscard]] std::string to_string(const feeder::Field& field);

/// The type of elements, as DLPack has it.
[[nodiscard]] nanobind::dlpack::dtype to_dlpack(feeder::DType dtype);

/// The number of a sample, as in a list: negative, it counts from the end. Throws IndexError if
/// there is none.
[[nodiscard]] std::uint64_t index_in(const feeder::Dataset& data, nanobind::handle number);

/// The dataset that a Python object is, valid as long as that object. Throws TypeError for any
/// other object.
[[nodiscard]] const feeder::Dataset& to_dataset(nanobind::handle object);

/// Reads the options of an image, which LEAT_IMAGE_OPTIONS lists, where they are given.
void read_image_options(Arguments& given, feeder::ImageOptions& options);

}  // namespace leat::python

/// Their signature.
#define LEAT_IMAGE_OPTIONS                                                               \
  "height: int = 224, width: int = 224, fit: Literal['stretch', 'center_crop', "         \
  "'random_resized_crop', 'exact'] = 'stretch', shorter_side: int = 256, scale: "        \
  "Sequence[float] = (0.08, 1.0), ratio: Sequence[float] = (0.75, 1.3333333333333333), " \
  "mirror: float = 0.0, planar: bool = False, antialias: bool = True, scaled_decoding: " \
  "bool = False, max_pixels: int = 134217728, accept_corrupt: bool = False"
