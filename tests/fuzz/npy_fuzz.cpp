// NumPy's files as datasets: the fields that the header says and all bytes of the samples, or an
// error.
#include <algorithm>
#include <set>
#include <string>

#include "leat/feeder/sample.h"
#include "leat/feeder/sources/npy_files.h"
#include "tests/fuzz/support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace leat::feeder;
  using namespace leat::fuzz;
  Numbers numbers({data, size});
  const bool changes = numbers.below(4) == 0;
  const std::uint64_t size_then = numbers.take(2);
  const MemoryFile file(numbers.rest());
  succeeds(
      [&] {
        const Npy samples(file.path());
        std::set<std::string> names;
        std::size_t bytes = 0;
        for (const Field& field : samples.fields()) {
          require(names.insert(field.name).second, "two fields of a name");
          require(field.bytes() > 0, "a field without bytes");
          bytes += field.bytes();
        }
        require(bytes > 0, "no fields");
        require(samples.size() <= numbers.rest().size() / bytes, "more samples than bytes");
        if (samples.size() == 0) return;
        SampleBuffer sample(samples.fields());
        const std::uint64_t last = std::min<std::uint64_t>(samples.size(), 8);
        for (std::uint64_t i = 0; i < last; ++i) {
          samples.will_read(samples.size() - 1 - i, 0, 0);
          samples.announce(i, 0, 0);
          succeeds([&] { samples.read(samples.size() - 1 - i, sample); }, file.path().string());
          if (changes && i == 1) file.resize(size_then);
        }
      },
      file.path().string(), true);
  return 0;
}
