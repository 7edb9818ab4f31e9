// The datasets of the C API that read MNIST's files and that call a C function.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/interop/c/openers.h"
#include "leat/feeder/sources/mnist.h"

namespace leat::feeder::c {
namespace {

// leat_sample::leat points to it.
struct Reading {
  Sample* sample;
};

constexpr const char* kFromFunction = "leat_dataset_from_function";
constexpr std::size_t kFirstFunction = offsetof(leat_function_dataset, length);

/// A dataset that calls a C function to read.
class FunctionDataset final : public Dataset {
 public:
  explicit FunctionDataset(const leat_function_dataset& given)
      : name_(given.name == nullptr ? "function" : given.name),
        given_(given),
        fields_(fields_of({given.fields, given.field_count}, kFromFunction)) {}
  ~FunctionDataset() override {
    if (owns_user_ && given_.close != nullptr) given_.close(given_.user);
  }
  /// From now on the dataset calls `close` when it is destroyed. Until then the caller cleans up.
  void own_user() noexcept { owns_user_ = true; }

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return given_.samples; }
  [[nodiscard]] Blocking blocking() const noexcept override {
    return given_.never_blocks == 0 ? Blocking::kOften : Blocking::kNever;
  }
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t field) const override {
    if (given_.length == nullptr || !fields_[field].variable_length) return std::nullopt;
    const InRead here;
    return given_.length(given_.user, index, field);
  }

 private:
  const std::string name_;
  const leat_function_dataset given_;  // its `name` and `fields` are not used: they were copied
  const std::vector<Field> fields_;
  bool owns_user_ = false;
};

/// Returns an array that lives until the read is over, of a type that needs no construction.
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
  if (failed != 0) {  // the reader adds the sample and the dataset
    throw Error(error[0] != '\0' ? std::string(error.data())
                                 : "the read function returned " + std::to_string(failed) +
                                       " and left no text in sample->error");
  }
  for (std::size_t f = 0; f < count; ++f) {
    if (fields_[f].variable_length) out.set_length(f, lengths[f]);
  }
}

}  // namespace
}  // namespace leat::feeder::c

using namespace leat::feeder::c;  // NOLINT(google-build-using-namespace): this is its C API

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
    return std::make_shared<Mnist>(
        directory,
        enumerator(split, Mnist::kTest, "leat_dataset_open_mnist", "split", "leat_mnist_split"));
  });
}

leat_status leat_dataset_from_function(const leat_function_dataset* function,
                                       leat_dataset** dataset) {
  const char* const name = __func__;
  std::shared_ptr<FunctionDataset> made;
  const leat_status status = open(name, dataset, [&] {
    require(function, name, "function");
    const leat_function_dataset all =
        complete({}, *function, kFirstFunction, name, "leat_function_dataset");
    if (all.read == nullptr) refuse(name, "there is no read function");
    made = std::make_shared<FunctionDataset>(all);
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
