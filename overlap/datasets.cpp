#include "leat/overlap/datasets.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "leat/feeder/field.h"
#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/files.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/feeder/sources/web_dataset.h"

namespace overlap {
namespace {

using leat::feeder::DType;
using leat::feeder::FilePatterns;

[[noreturn]] void refuse(std::string_view what) {
  throw std::invalid_argument("leat-overlap: no dataset \"" + std::string(what) + "\"; there are " +
                              dataset_forms());
}

// Splits "1024:files" into 1024 and "files".
std::pair<std::size_t, std::string> number_and_files(std::string_view rest, std::string_view what) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const auto length = static_cast<std::size_t>(end - rest.data());
  if (error != std::errc{} || number == 0 || length >= rest.size() || rest[length] != ':') {
    refuse(what);
  }
  return {number, std::string(rest.substr(length + 1))};
}

}  // namespace

std::string dataset_forms() {
  return "mnist:DIRECTORY, cifar10:FILES, tokens:LENGTH:FILES, records:BYTES:FILES, web:FILES";
}

std::unique_ptr<const leat::feeder::Dataset> open_dataset(std::string_view what) {
  using leat::feeder::Mnist;
  const std::size_t colon = what.find(':');
  if (colon == std::string_view::npos || colon + 1 == what.size()) refuse(what);
  const std::string_view format = what.substr(0, colon);
  const std::string_view rest = what.substr(colon + 1);
  const std::string files(rest);
  if (format == "mnist") return std::make_unique<Mnist>(files, Mnist::kTrain);
  if (format == "cifar10") return std::make_unique<leat::feeder::Cifar10>(FilePatterns(files));
  if (format == "web") return std::make_unique<leat::feeder::WebDataset>(FilePatterns(files));
  if (format == "tokens") {
    const auto [length, shards] = number_and_files(rest, what);
    return std::make_unique<leat::feeder::TokenShards>(
        FilePatterns(shards), leat::feeder::TokenShardsOptions{.sequence_length = length});
  }
  if (format == "records") {
    const auto [bytes, shards] = number_and_files(rest, what);
    return std::make_unique<leat::feeder::FixedRecords>(
        FilePatterns(shards),
        leat::feeder::FixedRecordsOptions{
            .fields = {{"record", DType::kUint8, {static_cast<std::int64_t>(bytes)}}}});
  }
  refuse(what);
}

Shape shape_of(const Shape& shape, const leat::feeder::Dataset& data) {
  Shape of = shape;
  of.name = data.name();
  of.tensors = data.fields().size();
  of.sample_bytes = 0;
  for (const leat::feeder::Field& field : data.fields()) of.sample_bytes += field.bytes();
  of.t_read = leat::Duration::zero();
  return of;
}

}  // namespace overlap
