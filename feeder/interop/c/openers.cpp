#include "leat/feeder/interop/c/openers.h"

#include <utility>

namespace leat::feeder::c {
namespace {

static_assert(LEAT_INT8 == static_cast<int>(DType::kInt8) &&
              LEAT_INT64 == static_cast<int>(DType::kInt64) &&
              LEAT_UINT8 == static_cast<int>(DType::kUint8) &&
              LEAT_UINT64 == static_cast<int>(DType::kUint64) &&
              LEAT_FLOAT16 == static_cast<int>(DType::kFloat16) &&
              LEAT_BFLOAT16 == static_cast<int>(DType::kBFloat16) &&
              LEAT_FLOAT64 == static_cast<int>(DType::kFloat64) &&
              LEAT_BOOL == static_cast<int>(DType::kBool));

Field field_of(const leat_field& given, std::size_t number, const char* function) {
  if (given.name == nullptr || *given.name == '\0') {
    refuse(function, "fields[" + std::to_string(number) + "] has no name");
  }
  const std::string what = "field \"" + std::string(given.name) + '"';
  if (!is_dtype(given.dtype)) {
    refuse(function,
           what + " has dtype " + std::to_string(given.dtype) + ", which is no leat_dtype");
  }
  if (given.ndim < 0 || (given.ndim > 0 && given.shape == nullptr)) {
    refuse(function, what + " has ndim " + std::to_string(given.ndim) + " and " +
                         (given.shape == nullptr ? "no shape" : "a shape"));
  }
  if (given.variable_length != 0 && given.ndim == 0) {
    refuse(function, what + " is a scalar, which has no length that could vary");
  }
  const std::span<const std::int64_t> shape(given.shape, static_cast<std::size_t>(given.ndim));
  for (const std::int64_t extent : shape) {
    if (extent < 1) refuse(function, what + " has an extent of " + std::to_string(extent));
  }
  return {.name = given.name,
          .dtype = static_cast<DType>(given.dtype),
          .shape = {shape.begin(), shape.end()},
          .variable_length = given.variable_length != 0};
}

}  // namespace

void refuse(const char* function, const std::string& why) {
  throw std::invalid_argument(std::string("leat: ") + function + ": " + why);
}

void check_reserved(std::int32_t reserved, const char* function, const char* what) {
  if (reserved == 0) return;
  refuse(function, std::string(what) + ": reserved is " + std::to_string(reserved) +
                       " and not 0: call the _init function first, or set all of it to zeros");
}

bool is_dtype(std::int32_t dtype) noexcept { return dtype >= LEAT_INT8 && dtype <= LEAT_BOOL; }

DType dtype_of(std::int32_t dtype, const char* function, const char* option) {
  if (is_dtype(dtype)) return static_cast<DType>(dtype);
  refuse(function,
         std::string(option) + " is " + std::to_string(dtype) + ", which is no leat_dtype");
}

std::vector<Field> fields_of(std::span<const leat_field> given, const char* function) {
  if (given.data() == nullptr || given.empty()) refuse(function, "there are no fields");
  std::vector<Field> fields;
  for (std::size_t i = 0; i < given.size(); ++i) {
    Field field = field_of(given[i], i, function);
    for (const Field& other : fields) {
      if (other.name == field.name) {
        refuse(function, "two fields have the name \"" + field.name + '"');
      }
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

leat_status give(std::shared_ptr<const Dataset> dataset, leat_dataset** out) {
  auto open = std::make_shared<OpenDataset>();
  for (const Field& field : dataset->fields()) {
    open->fields.push_back({.name = field.name.c_str(),
                            .dtype = static_cast<std::int32_t>(field.dtype),
                            .ndim = static_cast<std::int32_t>(field.shape.size()),
                            .shape = field.shape.data(),
                            .variable_length = field.variable_length ? 1 : 0});
  }
  open->dataset = std::move(dataset);
  *out = static_cast<leat_dataset*>(datasets().insert(std::move(open)));
  return LEAT_OK;
}

}  // namespace leat::feeder::c
