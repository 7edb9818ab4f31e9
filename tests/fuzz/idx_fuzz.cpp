// IDX arrays, plain and compressed: as many values as the shape says, or an error.
#include "leat/feeder/sources/idx.h"
#include "tests/fuzz/support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace leat::fuzz;
  Numbers numbers({data, size});
  const auto dimensions = static_cast<unsigned>(1 + numbers.below(4));
  const MemoryFile file(numbers.rest());
  succeeds(
      [&] {
        const leat::feeder::IdxArray array = leat::feeder::read_idx(file.path(), dimensions);
        require(array.shape.size() == dimensions, "another number of dimensions");
        std::size_t values = 1;
        for (const std::size_t extent : array.shape) values *= extent;
        require(array.values.size() == values, "another number of values than the shape says");
      },
      file.path().string());
  return 0;
}
