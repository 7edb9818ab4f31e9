// Traces as JSON, plain and packed, whole and cut off: figures that add up to the nanosecond, or an
// error that names the file.
#include <zlib.h>

#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/overlap/trace/figures/analysis.h"
#include "leat/overlap/trace/readers/bytes.h"
#include "leat/overlap/trace/readers/events.h"
#include "leat/overlap/trace/report/json.h"
#include "leat/overlap/trace/report/table.h"
#include "tests/fuzz/support.h"

namespace {

using namespace overlap::trace;
using namespace leat::fuzz;

std::vector<std::uint8_t> packed(Input bytes) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  require(deflateInit2(&stream, 1, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflate");
  std::vector<std::uint8_t> out(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<std::uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate has no room");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void check(const Figures& of) {
  const Time parts = of[Part::kCompute] + of[Part::kSumComm] + of[Part::kSumCopies] +
                     of[Part::kSumMemory] + of[Part::kSumOther];
  require(parts == of[Part::kBusy], "the parts are not the busy time");
  require(std::accumulate(of.idle.begin(), of.idle.end(), Time{0}) == of.length - parts,
          "the causes are not the idle time");
  require(of.most() >= 0 && of.most() <= of.length, "a part longer than the step");
}

void report(const std::filesystem::path& file, const AnalysisOptions& options, bool partial) {
  try {
    const TraceReport found = analyze(read_events(file, options.rules, partial), options);
    for (const DeviceReport& device : found.devices) {
      check(device.whole);
      check(device.mean);
      for (const Figures& step : device.of_steps) check(step);
    }
    require(!json_report("", {found, found}).empty(), "no JSON");
    require(!csv_report({found}).empty(), "no CSV");
    require(!text_report({found, found}).empty(), "no table");
    require(!comparison({found}, {found}).empty(), "no comparison");
  } catch (const std::invalid_argument& error) {
    require(options.rules.step || options.steps.only, error.what());
  } catch (const Unreadable& error) {
    const std::string text = error.what();
    require(text.starts_with(file.string()), "the file is not named: " + text);
    require(text.size() < 1000, "a text of " + std::to_string(text.size()) + " bytes");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Numbers numbers({data, size});
  AnalysisOptions options;
  const std::uint64_t how = numbers.take(1);
  options.steps.by_host = (how & 1) != 0;
  if ((how & 2) != 0) options.link = 1e9;
  if ((how & 4) != 0) options.rules.step.emplace("s|1");
  if ((how & 32) != 0) options.steps.only.emplace(0, 3);
  const std::uint64_t cut = (how & 8) != 0 ? numbers.take(2) : 0;
  std::vector<std::uint8_t> bytes(numbers.rest().begin(), numbers.rest().end());
  if ((how & 16) != 0) bytes = packed(bytes);
  if (cut < bytes.size()) bytes.resize(bytes.size() - cut);
  const MemoryFile file(bytes);
  report(file.path(), options, false);
  report(file.path(), options, true);
  return 0;
}
