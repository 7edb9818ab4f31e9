// Nsight Systems' databases: a trace whose numbers lead somewhere and whose names are printable, or
// an error.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "leat/overlap/trace/model.h"
#include "leat/overlap/trace/readers/bytes.h"
#include "leat/overlap/trace/readers/nsight.h"
#include "tests/fuzz/support.h"

namespace {

// SQLite follows links, and that of a MemoryFile leads nowhere.
class SharedFile {
 public:
  SharedFile() : path_("/dev/shm/leat-nsight-fuzz-" + std::to_string(getpid())) {}
  ~SharedFile() { std::filesystem::remove(path_); }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::uint8_t* data, std::size_t size) const {
    std::FILE* const file = std::fopen(path_.c_str(), "wb");
    leat::fuzz::require(file != nullptr, "no file in /dev/shm");
    leat::fuzz::require(std::fwrite(data, 1, size, file) == size, "/dev/shm is full");
    std::fclose(file);
  }

 private:
  std::string path_;
};

void require_printable(const std::string& text) {
  for (const char c : text) {
    leat::fuzz::require((c >= ' ' || c < '\0') && c != '\x7F', "a control character in: " + text);
  }
}

void check(const overlap::trace::Trace& trace) {
  using namespace overlap::trace;
  using leat::fuzz::require;
  for (std::uint32_t i = 0; i < trace.names.size(); ++i) {
    require(trace.names[i].size() <= Names::kMost, "a long name");
    require_printable(trace.names[i]);
  }
  const auto span = [](Time begin, Time end) { require(0 <= begin && begin <= end, "a span"); };
  for (const Device& device : trace.devices) {
    require_printable(device.name);
    require(!device.ops.empty(), "a device without ops");
    for (const Op& op : device.ops) {
      span(op.begin, op.end);
      require(op.name < trace.names.size() && op.stream < device.streams.size(), "an op's number");
      require(op.call == kNone || op.call < trace.calls.size(), "an op's call");
    }
  }
  const auto check_host = [&](const auto& events) {
    for (const auto& event : events) {
      span(event.begin, event.end);
      require(event.name < trace.names.size() && event.thread < trace.threads.size(), "a number");
    }
  };
  check_host(trace.calls);
  check_host(trace.ranges);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const SharedFile file;
  file.write(data, size);
  try {
    check(overlap::trace::read_nsight(file.path(), {}));
  } catch (const overlap::trace::Unreadable& error) {
    const std::string text = error.what();
    leat::fuzz::require(text.starts_with(file.path() + ": "), "no file's name in: " + text);
    leat::fuzz::require(text.size() < 1000, "a text of " + std::to_string(text.size()) + " bytes");
    require_printable(text);
  }
  return 0;
}
