// Mapped files that change their size while they are read: data or an error, and no signal.
#include <array>
#include <optional>
#include <vector>

#include "leat/feeder/sample.h"
#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/token_shards.h"
#include "tests/fuzz/support.h"

namespace {

using namespace leat::feeder;
using namespace leat::fuzz;

constexpr std::array kTokens = {DType::kUint16, DType::kUint32, DType::kInt32, DType::kInt64};

void read_while_it_changes(const Dataset& data, const MemoryFile& file, Numbers& numbers) {
  SampleBuffer sample(data.fields());
  for (int i = 0; i < 6; ++i) {
    const std::uint64_t index = numbers.take(2) % data.size();
    data.will_read(index, 0, 0);
    data.announce(index, 0, 0);
    succeeds([&] { data.read(index, sample); }, file.path().string());
    if (numbers.below(3) == 0) file.resize(numbers.take(2));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kOptions = 40;
  const std::size_t options = std::min(size, kOptions);
  Numbers numbers({data + size - options, options});
  const std::uint64_t kind = numbers.below(3);
  const MemoryFile file(Input(data, size - options));
  const FilePatterns name = file.path();
  const auto use = [&](const Dataset& set) { read_while_it_changes(set, file, numbers); };
  succeeds(
      [&] {
        if (kind == 0) {
          use(TokenShards(
              name, {.sequence_length = 1 + numbers.below(64),
                     .stride = numbers.below(64),
                     .header = static_cast<TokenHeader>(numbers.below(3)),
                     .token = numbers.below(5) == 0 ? std::nullopt
                                                    : std::optional(kTokens[numbers.below(4)]),
                     .dtype = kTokens[numbers.below(4)],
                     .vocabulary = numbers.take(2)}));
        } else if (kind == 1) {
          const auto extent = static_cast<std::int64_t>(numbers.below(100));
          use(FixedRecords(name,
                           {.fields = {{"a", DType::kUint8, {extent}}, {"b", DType::kFloat32, {}}},
                            .header_bytes = numbers.take(2)}));
        } else {
          use(Cifar10(name, {.label = DType::kInt64}));
        }
      },
      file.path().string(), true);
  return 0;
}
