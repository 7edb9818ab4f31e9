// The datasets of the C API: an opener for each source, and one that calls back.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/c/calls.h"
#include "leat/feeder/sources/mnist.h"

namespace leat::feeder::c {
namespace {

static_assert(LEAT_INT8 == static_cast<int>(DType::kInt8) &&
              LEAT_INT64 == static_cast<int>(DType::kInt64) &&
              LEAT_UINT8 == static_cast<int>(DType::kUint8) &&
              LEAT_UINT64 == static_cast<int>(DType::kUint64) &&
              LEAT_FLOAT16 == static_cast<int>(DType::kFloat16) &&
              LEAT_BFLOAT16 == static_cast<int>(DType::kBFloat16) &&
              LEAT_FLOAT64 == static_cast<int>(DType::kFloat64));

bool is_dtype(std::int32_t dtype) noexcept { return dtype >= LEAT_INT8 && dtype <= LEAT_FLOAT64; }

// What leat_sample::leat points to.
struct Reading {
  Sample* sample;
};

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("leat: leat_dataset_from_function: " + why);
}

Field field_of(const leat_field& given, std::size_t number) {
  if (given.name == nullptr || *given.name == '\0') {
    refuse("fields[" + std::to_string(number) + "] has no name");
  }
  const std::string what = "field \"" + std::string(given.name) + '"';
  if (!is_dtype(given.dtype)) {
    refuse(what + " has dtype " + std::to_string(given.dtype) + ", which is no leat_dtype");
  }
  if (given.ndim < 0 || (given.ndim > 0 && given.shape == nullptr)) {
    refuse(what + " has ndim " + std::to_string(given.ndim) + " and " +
           (given.shape == nullptr ? "no shape" : "a shape"));
  }
  if (given.variable_length != 0 && given.ndim == 0) {
    refuse(what + " is a scalar, which has no length that could vary");
  }
  const std::span<const std::int64_t> shape(given.shape, static_cast<std::size_t>(given.ndim));
  for (const std::int64_t extent : shape) {
    if (extent < 1) refuse(what + " has an extent of " + std::to_string(extent));
  }
  return {.name = given.name,
          .dtype = static_cast<DType>(given.dtype),
          .shape = {shape.begin(), shape.end()},
          .variable_length = given.variable_length != 0};
}

/// Reads by calling back into C.
class FunctionDataset final : public Dataset {
 public:
  explicit FunctionDataset(const leat_function_dataset& given)
      : name_(given.name == nullptr ? "function" : given.name), given_(given) {
    for (std::size_t i = 0; i < given.field_count; ++i) {
      Field field = field_of(given.fields[i], i);
      for (const Field& other : fields_) {
        if (other.name == field.name) refuse("two fields have the name \"" + field.name + '"');
      }
      fields_.push_back(std::move(field));
    }
  }
  ~FunctionDataset() override {
    if (owns_user_ && given_.close != nullptr) given_.close(given_.user);
  }
  /// From now on it is the dataset that closes what it was given. Until then the caller does.
  void own_user() noexcept { owns_user_ = true; }

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return given_.samples; }
  [[nodiscard]] Blocking blocking() const noexcept override {
    return given_.never_blocks == 0 ? Blocking::kOften : Blocking::kNever;
  }
  void read(std::uint64_t index, Sample& out) const override;

 private:
  const std::string name_;
  const leat_function_dataset given_;  // but for its pointers to name and fields, which are copied
  std::vector<Field> fields_;
  bool owns_user_ = false;
};

/// An array for the time of the read, of a type that needs no construction.
template <class T>
std::span<T> take(Sample& sample, std::size_t count) {
  return {reinterpret_cast<T*>(sample.scratch(count * sizeof(T)).data()), count};
}

void FunctionDataset::read(std::uint64_t index, Sample& out) const {
  const std::size_t count = fields_.size();
  const std::span<void*> rooms = take<void*>(out, count);
  const std::span<std::size_t> bytes = take<std::size_t>(out, count);
  const std::span<std::size_t> lengths = take<std::size_t>(out, count);
  for (std::size_t f = 0; f < count; ++f) {
    const std::span<std::byte> room = out.bytes(f);
    rooms[f] = room.data();
    bytes[f] = room.size();
    lengths[f] = out.length(f);
  }
  std::array<char, 512> error{};
  Reading reading{&out};
  leat_sample sample{.index = index,
                     .epoch = out.epoch(),
                     .field_count = count,
                     .fields = rooms.data(),
                     .bytes = bytes.data(),
                     .lengths = lengths.data(),
                     .error = error.data(),
                     .error_size = error.size(),
                     .leat = &reading};
  int failed = 0;
  {
    const InRead here;
    failed = given_.read(given_.user, &sample);
  }
  error.back() = '\0';
  if (failed != 0) {  // the reader says which sample it was, and of what
    throw Error(error[0] != '\0' ? std::string(error.data())
                                 : "the read function returned " + std::to_string(failed) +
                                       " and left no text in sample->error");
  }
  for (std::size_t f = 0; f < count; ++f) {
    if (fields_[f].variable_length) out.set_length(f, lengths[f]);
  }
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

/// Opens with `make`, which returns a std::shared_ptr<const Dataset>. An opener is no more.
template <class Make>
leat_status open(const char* function, leat_dataset** out, Make&& make) noexcept {
  return call(function, [&](const char*) {
    require(out, function, "dataset");
    *out = nullptr;
    return give(make(), out);
  });
}

}  // namespace
}  // namespace leat::feeder::c

using namespace leat::feeder::c;  // NOLINT(google-build-using-namespace): whose border this is

extern "C" {

size_t leat_dtype_size(int32_t dtype) {
  return is_dtype(dtype) ? leat::feeder::size_of(static_cast<leat::feeder::DType>(dtype)) : 0;
}

const char* leat_dtype_name(int32_t dtype) {
  return is_dtype(dtype) ? leat::feeder::to_string(static_cast<leat::feeder::DType>(dtype)) : "?";
}

leat_status leat_dataset_open_mnist(const char* directory, int32_t split, leat_dataset** dataset) {
  using leat::feeder::Mnist;
  return open(__func__, dataset, [&] {
    require(directory, "leat_dataset_open_mnist", "directory");
    if (split != LEAT_MNIST_TRAIN && split != LEAT_MNIST_TEST) {
      throw std::invalid_argument("leat: leat_dataset_open_mnist: split is " +
                                  std::to_string(split) + ", which is no leat_mnist_split");
    }
    return std::make_shared<Mnist>(directory,
                                   split == LEAT_MNIST_TRAIN ? Mnist::kTrain : Mnist::kTest);
  });
}

leat_status leat_dataset_from_function(const leat_function_dataset* function,
                                       leat_dataset** dataset) {
  const char* const name = __func__;
  std::shared_ptr<FunctionDataset> made;
  const leat_status status = open(name, dataset, [&] {
    require(function, name, "function");
    check_size(function->size, sizeof(leat_function_dataset), sizeof(leat_function_dataset), name,
               "leat_function_dataset");
    if (function->read == nullptr) refuse("there is no read function");
    if (function->fields == nullptr || function->field_count == 0) refuse("there are no fields");
    made = std::make_shared<FunctionDataset>(*function);
    return made;
  });
  if (status == LEAT_OK) made->own_user();
  return status;
}

leat_status leat_dataset_size(const leat_dataset* dataset, uint64_t* samples) {
  return call(__func__, [&](const char* function) {
    require(samples, function, "samples");
    *samples = datasets().find(dataset, function)->dataset->size();
    return LEAT_OK;
  });
}

leat_status leat_dataset_fields(const leat_dataset* dataset, const leat_field** fields,
                                size_t* count) {
  return call(__func__, [&](const char* function) {
    require(fields, function, "fields");
    require(count, function, "count");
    const auto open = datasets().find(dataset, function);
    *fields = open->fields.data();
    *count = open->fields.size();
    return LEAT_OK;
  });
}

leat_status leat_dataset_close(leat_dataset* dataset) {
  return call(__func__, [&](const char* function) {
    if (dataset != nullptr) static_cast<void>(datasets().remove(dataset, function));
    return LEAT_OK;
  });
}

uint64_t leat_sample_random(leat_sample* sample) {
  if (sample == nullptr || sample->leat == nullptr) return 0;
  return static_cast<Reading*>(sample->leat)->sample->random()();
}

void* leat_sample_scratch(leat_sample* sample, size_t bytes) {
  if (sample == nullptr || sample->leat == nullptr || bytes > PTRDIFF_MAX / 2) return nullptr;
  try {
    return static_cast<Reading*>(sample->leat)->sample->scratch(bytes).data();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // extern "C"
