// Shared by the openers of datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/field.h"
#include "leat/feeder/interop/c/calls.h"

namespace leat::feeder::c {

/// Throws std::invalid_argument for an argument of `function` that is out of range.
[[noreturn]] void refuse(const char* function, const std::string& why);

/// Throws std::invalid_argument if `reserved` is not 0: a later version may give it a meaning.
void check_reserved(std::int32_t reserved, const char* function, const char* what);

/// Returns whether `dtype` is a leat_dtype.
[[nodiscard]] bool is_dtype(std::int32_t dtype) noexcept;
/// Returns the dtype. Throws std::invalid_argument, which names the option, for any other number.
[[nodiscard]] DType dtype_of(std::int32_t dtype, const char* function, const char* option);

/// Returns the given fields. Throws std::invalid_argument for no field, for an invalid field, and
/// for two fields of one name.
[[nodiscard]] std::vector<Field> fields_of(std::span<const leat_field> given, const char* function);

/// The enumerator with number `value`, 0 to `last`. Throws std::invalid_argument for other numbers.
template <class Enum>
Enum enumerator(std::int32_t value, Enum last, const char* function, const std::string& option,
                const char* type) {
  if (value >= 0 && value <= static_cast<std::int32_t>(last)) return static_cast<Enum>(value);
  refuse(function, option + " is " + std::to_string(value) + ", which is no " + type);
}

/// Returns the caller's options. Options that the caller's header does not declare have defaults.
template <class Options>
Options complete(const Options& defaults, const Options& given, std::size_t least,
                 const char* function, const char* type) {
  check_size(given.size, least, sizeof(Options), function, type);
  Options all = defaults;
  std::memcpy(static_cast<void*>(&all), &given, given.size);
  return all;
}

/// Sets the first `size` bytes of the caller's options to their defaults.
template <class Options>
leat_status init(Options defaults, Options* options, std::size_t size, std::size_t least,
                 const char* function, const char* type) {
  return call(function, [&](const char*) {
    require(options, function, "options");
    defaults.size = size;
    give_struct(defaults, options, size, least, function, type);
    return LEAT_OK;
  });
}

/// Stores a handle of the dataset in `out`.
[[nodiscard]] leat_status give(std::shared_ptr<const Dataset> dataset, leat_dataset** out);

/// An opener: opens with `make`, which returns a std::shared_ptr<const Dataset>.
template <class Make>
leat_status open(const char* function, leat_dataset** out, Make&& make) {
  return call(function, [&](const char*) {
    require(out, function, "dataset");
    *out = nullptr;
    return give(make(), out);
  });
}

}  // namespace leat::feeder::c
