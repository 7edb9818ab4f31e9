// The openers of feeder/interop/c/sources.h, and the options of each.
#include "leat/feeder/interop/c/sources.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/interop/c/openers.h"
#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/memory.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/feeder/sources/web_dataset.h"

namespace leat::feeder::c {
namespace {

static_assert(LEAT_SPLIT_TEST == static_cast<int>(Cifar::kTest) &&
              LEAT_TOKEN_HEADER_NONE == static_cast<int>(TokenHeader::kNone) &&
              LEAT_TOKEN_HEADER_LLM_C == static_cast<int>(TokenHeader::kLlmC) &&
              LEAT_FIT_CENTER_CROP == static_cast<int>(Fit::kCenterCrop) &&
              LEAT_FIT_RANDOM_RESIZED_CROP == static_cast<int>(Fit::kRandomResizedCrop) &&
              LEAT_FIT_EXACT == static_cast<int>(Fit::kExact) &&
              LEAT_WEB_LABEL == static_cast<int>(WebPart::kLabel) &&
              LEAT_WEB_BYTES == static_cast<int>(WebPart::kBytes));

// The sizes of the first versions of structs that grow. Later members are behind these.
constexpr std::size_t kFirstTokens = sizeof(leat_token_shards_options);
constexpr std::size_t kFirstRecords = sizeof(leat_fixed_records_options);
constexpr std::size_t kFirstImage = sizeof(leat_image_options);
constexpr std::size_t kFirstWeb = sizeof(leat_web_options);
constexpr std::size_t kFirstLeftOut = sizeof(leat_web_left_out);
constexpr std::size_t kFirstArrays = sizeof(leat_array_dataset);

// leat_token_shards_options::token for no type.
constexpr std::int32_t kTokenOfHeader = -1;

leat_token_shards_options token_defaults() {
  const TokenShardsOptions from;
  return {.size = sizeof(leat_token_shards_options),
          .sequence_length = from.sequence_length,
          .stride = from.stride,
          .header = static_cast<std::int32_t>(from.header),
          .token = kTokenOfHeader,
          .dtype = static_cast<std::int32_t>(from.dtype),
          .reserved = 0,
          .vocabulary = from.vocabulary,
          .extension = nullptr};
}

leat_fixed_records_options record_defaults() {
  return {.size = sizeof(leat_fixed_records_options),
          .fields = nullptr,
          .field_count = 0,
          .header_bytes = 0,
          .extension = nullptr,
          .name = nullptr};
}

leat_image_options image_defaults() {
  const ImageOptions from;
  return {.size = sizeof(leat_image_options),
          .height = from.height,
          .width = from.width,
          .shorter_side = from.shorter_side,
          .fit = static_cast<std::int32_t>(from.fit),
          .planar = 0,
          .scale = {from.scale[0], from.scale[1]},
          .ratio = {from.ratio[0], from.ratio[1]},
          .mirror = from.mirror,
          .max_pixels = from.jpeg.max_pixels,
          .scaled_decoding = 0,
          .accept_corrupt = 0,
          .antialias = 1,
          .reserved = 0};
}

leat_web_options web_defaults() {
  const WebDatasetOptions from;
  return {.size = sizeof(leat_web_options),
          .parts = nullptr,
          .part_count = 0,
          .index_threads = from.index_threads,
          .open_files = from.open_files,
          .skip_incomplete = 0,
          .accept_short_shards = 0,
          .name = nullptr};
}

/// Returns the text, or `otherwise` for null.
std::string text_or(const char* text, std::string otherwise) {
  return text == nullptr ? std::move(otherwise) : text;
}

template <class Cifar>
leat_status open_cifar(const char* function, const char* directory, std::int32_t split,
                       std::int32_t label, leat_dataset** dataset) {
  return open(function, dataset, [&] {
    require(directory, function, "directory");
    return std::make_shared<Cifar>(directory,
                                   enumerator(split, Cifar::kTest, function, "split", "leat_split"),
                                   CifarOptions{.label = dtype_of(label, function, "label")});
  });
}

template <class Cifar>
leat_status open_cifar_files(const char* function, const char* files, std::int32_t label,
                             leat_dataset** dataset) {
  return open(function, dataset, [&] {
    require(files, function, "files");
    return std::make_shared<Cifar>(FilePatterns(files),
                                   CifarOptions{.label = dtype_of(label, function, "label")});
  });
}

TokenShardsOptions tokens_of(const leat_token_shards_options* given, const char* function) {
  require(given, function, "options");
  const leat_token_shards_options all =
      complete(token_defaults(), *given, kFirstTokens, function, "leat_token_shards_options");
  check_reserved(all.reserved, function, "leat_token_shards_options");
  TokenShardsOptions options{
      .sequence_length = all.sequence_length,
      .stride = all.stride,
      .header = enumerator(all.header, TokenHeader::kLlmC, function, "header", "leat_token_header"),
      .token = all.token == kTokenOfHeader ? std::nullopt
                                           : std::optional(dtype_of(all.token, function, "token")),
      .dtype = dtype_of(all.dtype, function, "dtype"),
      .vocabulary = all.vocabulary};
  options.extension = text_or(all.extension, options.extension);
  return options;
}

FixedRecordsOptions records_of(const leat_fixed_records_options* given, const char* function) {
  require(given, function, "options");
  const leat_fixed_records_options all =
      complete(record_defaults(), *given, kFirstRecords, function, "leat_fixed_records_options");
  FixedRecordsOptions options{.fields = fields_of({all.fields, all.field_count}, function),
                              .header_bytes = all.header_bytes};
  options.extension = text_or(all.extension, options.extension);
  options.name = text_or(all.name, "");
  return options;
}

ImageOptions image_of(const leat_image_options* given, const char* function) {
  if (given == nullptr) return {};
  const leat_image_options all =
      complete(image_defaults(), *given, kFirstImage, function, "leat_image_options");
  check_reserved(all.reserved, function, "leat_image_options");
  return {.height = all.height,
          .width = all.width,
          .fit = enumerator(all.fit, Fit::kExact, function, "fit", "leat_fit"),
          .shorter_side = all.shorter_side,
          .scale = {all.scale[0], all.scale[1]},
          .ratio = {all.ratio[0], all.ratio[1]},
          .mirror = all.mirror,
          .planar = all.planar != 0,
          .antialias = all.antialias != 0,
          .scaled_decoding = all.scaled_decoding != 0,
          .jpeg = {.max_pixels = all.max_pixels, .accept_corrupt = all.accept_corrupt != 0}};
}

/// Splits "jpg,jpeg" into two extensions.
std::vector<std::string> extensions_of(const char* list) {
  std::vector<std::string> extensions(1);
  for (const char* at = list; *at != '\0'; ++at) {
    if (*at == ',') {
      extensions.emplace_back();
    } else {
      extensions.back() += *at;
    }
  }
  return extensions;
}

WebPart part_of(const leat_web_part& given, std::size_t number, const char* function) {
  const std::string what = "parts[" + std::to_string(number) + ']';
  check_reserved(given.reserved, function, what.c_str());
  const auto kind =
      enumerator(given.kind, WebPart::kBytes, function, what + ".kind", "leat_web_kind");
  if (kind == WebPart::kBytes) {
    if (given.extensions == nullptr) refuse(function, what + " has no extensions");
    return raw_bytes(fields_of({&given.field, 1}, function)[0], extensions_of(given.extensions));
  }
  if (given.field.name == nullptr || *given.field.name == '\0') {
    refuse(function, what + " has no name");
  }
  if (given.field.ndim != 0 || given.field.variable_length != 0) {
    refuse(function, what + " has a shape: of an image or a label it follows from the options");
  }
  WebPart part = kind == WebPart::kImage
                     ? jpeg_image(given.field.name, image_of(given.image, function))
                     : class_label(given.field.name);
  if (given.extensions != nullptr) part.extensions = extensions_of(given.extensions);
  return part;
}

WebDatasetOptions web_of(const leat_web_options* given, const char* function) {
  WebDatasetOptions options;
  if (given == nullptr) return options;
  const leat_web_options all =
      complete(web_defaults(), *given, kFirstWeb, function, "leat_web_options");
  options.skip_incomplete = all.skip_incomplete != 0;
  options.accept_short_shards = all.accept_short_shards != 0;
  options.index_threads = all.index_threads;
  options.open_files = all.open_files;
  options.name = text_or(all.name, options.name);
  if (all.parts == nullptr) return options;
  options.parts.clear();
  for (std::size_t i = 0; i < all.part_count; ++i) {
    options.parts.push_back(part_of(all.parts[i], i, function));
  }
  return options;
}

std::vector<InMemory::Tensor> tensors_of(const leat_array_dataset& given, const char* function) {
  if (given.arrays == nullptr || given.array_count == 0) refuse(function, "there are no arrays");
  std::vector<leat_field> fields;
  for (std::size_t i = 0; i < given.array_count; ++i) fields.push_back(given.arrays[i].field);
  std::vector<InMemory::Tensor> tensors;
  for (Field& field : fields_of(fields, function)) {
    const leat_array& array = given.arrays[tensors.size()];
    if (array.values == nullptr && array.bytes != 0) {
      refuse(function, "array \"" + field.name + "\" has " + std::to_string(array.bytes) +
                           " bytes, and no values");
    }
    tensors.push_back(
        {std::move(field), {static_cast<const std::byte*>(array.values), array.bytes}});
  }
  return tensors;
}

/// Arrays of the C program. Calls its `close` once nobody reads them any more.
struct Arrays {
  Arrays(const leat_array_dataset& given, const char* function)
      : dataset(tensors_of(given, function), text_or(given.name, "in memory")),
        user(given.user),
        close(given.close) {}
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;
  ~Arrays() {
    if (owns_user && close != nullptr) close(user);
  }

  const InMemory dataset;
  void* const user;
  void (*const close)(void* user);
  bool owns_user = false;  // set once the caller has its handle
};

}  // namespace
}  // namespace leat::feeder::c

using namespace leat::feeder::c;  // NOLINT(google-build-using-namespace): this is its C API

extern "C" {

leat_status leat_dataset_open_cifar10(const char* directory, int32_t split, int32_t label,
                                      leat_dataset** dataset) {
  return open_cifar<leat::feeder::Cifar10>(__func__, directory, split, label, dataset);
}

leat_status leat_dataset_open_cifar100(const char* directory, int32_t split, int32_t label,
                                       leat_dataset** dataset) {
  return open_cifar<leat::feeder::Cifar100>(__func__, directory, split, label, dataset);
}

leat_status leat_dataset_open_cifar10_files(const char* files, int32_t label,
                                            leat_dataset** dataset) {
  return open_cifar_files<leat::feeder::Cifar10>(__func__, files, label, dataset);
}

leat_status leat_dataset_open_cifar100_files(const char* files, int32_t label,
                                             leat_dataset** dataset) {
  return open_cifar_files<leat::feeder::Cifar100>(__func__, files, label, dataset);
}

leat_status leat_dataset_open_mnist_files(const char* images, leat_dataset** dataset) {
  const char* const function = __func__;
  return open(function, dataset, [&] {
    require(images, function, "images");
    return std::make_shared<leat::feeder::Mnist>(leat::feeder::FilePatterns(images));
  });
}

leat_status leat_token_shards_options_init(leat_token_shards_options* options, size_t size) {
  return init(token_defaults(), options, size, kFirstTokens, __func__, "leat_token_shards_options");
}

leat_status leat_dataset_open_token_shards(const char* files,
                                           const leat_token_shards_options* options,
                                           leat_dataset** dataset) {
  const char* const function = __func__;
  return open(function, dataset, [&] {
    require(files, function, "files");
    return std::make_shared<leat::feeder::TokenShards>(files, tokens_of(options, function));
  });
}

leat_status leat_fixed_records_options_init(leat_fixed_records_options* options, size_t size) {
  return init(record_defaults(), options, size, kFirstRecords, __func__,
              "leat_fixed_records_options");
}

leat_status leat_dataset_open_fixed_records(const char* files,
                                            const leat_fixed_records_options* options,
                                            leat_dataset** dataset) {
  const char* const function = __func__;
  return open(function, dataset, [&] {
    require(files, function, "files");
    return std::make_shared<leat::feeder::FixedRecords>(files, records_of(options, function));
  });
}

leat_status leat_image_options_init(leat_image_options* options, size_t size) {
  return init(image_defaults(), options, size, kFirstImage, __func__, "leat_image_options");
}

leat_status leat_web_options_init(leat_web_options* options, size_t size) {
  return init(web_defaults(), options, size, kFirstWeb, __func__, "leat_web_options");
}

leat_status leat_dataset_open_web(const char* files, const leat_web_options* options,
                                  leat_dataset** dataset) {
  const char* const function = __func__;
  return open(function, dataset, [&] {
    require(files, function, "files");
    return std::make_shared<leat::feeder::WebDataset>(files, web_of(options, function));
  });
}

leat_status leat_dataset_web_left_out(const leat_dataset* dataset, leat_web_left_out* left_out,
                                      size_t size) {
  return call(__func__, [&](const char* function) {
    require(left_out, function, "left_out");
    const auto open = datasets().find(dataset, function);
    const auto* const web = dynamic_cast<const leat::feeder::WebDataset*>(open->dataset.get());
    if (web == nullptr) refuse(function, "dataset is no WebDataset");
    const leat::feeder::WebLeftOut& found = web->left_out();
    give_struct(leat_web_left_out{.skipped = web->skipped(),
                                  .symbolic_links = found.symbolic_links,
                                  .devices = found.devices,
                                  .unknown_members = found.unknown_members,
                                  .files_without_key = found.files_without_key},
                left_out, size, kFirstLeftOut, function, "leat_web_left_out");
    return LEAT_OK;
  });
}

leat_status leat_dataset_from_arrays(const leat_array_dataset* arrays, leat_dataset** dataset) {
  const char* const function = __func__;
  std::shared_ptr<Arrays> made;
  const leat_status status = open(function, dataset, [&] {
    require(arrays, function, "arrays");
    const leat_array_dataset all =
        complete({}, *arrays, kFirstArrays, function, "leat_array_dataset");
    made = std::make_shared<Arrays>(all, function);
    return std::shared_ptr<const leat::feeder::InMemory>(made, &made->dataset);
  });
  if (status == LEAT_OK) made->owns_user = true;
  return status;
}

}  // extern "C"
