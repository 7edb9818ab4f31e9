// Writes a timeline in the Trace Event Format, which Perfetto and chrome://tracing open.
//
// Example
//   leat::gpu::TraceWriter trace;
//   const leat::gpu::TraceWriter::Track reader{1, 1};
//   trace.name_process(1, "host");
//   trace.name_track(reader, "reader 0");
//   trace.span("read 7", reader, 0us, 20us, R"("bytes":4096)");
//   trace.arrow('s', "batch", 7, reader, 0us);
//   trace.save("loop.json");
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "leat/csp/clock.h"

namespace leat::gpu {

/// A timeline that is being written. Times count from its beginning, and are written in
/// microseconds.
class TraceWriter {
 public:
  /// A row of the timeline: the viewer shows the tracks (threads) of a process together.
  struct Track {
    std::size_t process = 0;
    std::size_t thread = 0;
  };

  /// Names a process.
  void name_process(std::size_t process, std::string_view name);
  /// Names a track.
  void name_track(const Track& track, std::string_view name);
  /// Adds a stretch of time on a track. `args`: the inside of a JSON object, shown with the span. A
  /// span that ends before it begins has no length.
  void span(std::string_view name, const Track& track, Duration begin, Duration end,
            std::string_view args = {});
  /// Adds a part of the arrow `id`, at the span on that track at that time. The arrow begins at
  /// 's', continues at 't', and ends at 'f'.
  void arrow(char phase, std::string_view name, std::size_t id, const Track& track, Duration at);
  /// Adds values of a process at a time, as a graph. `args` as for span().
  void counter(std::string_view name, std::size_t process, Duration at, std::string_view args);

  /// Returns the timeline so far, as a JSON object.
  [[nodiscard]] std::string json() const;
  /// Writes json() to a file. Throws leat::Error, naming the file, if it cannot be written.
  void save(const std::filesystem::path& file) const;

 private:
  std::string events_;  // each a line that ends with a comma
};

/// Writes a timeline's JSON to a file. Throws leat::Error, naming the file, if that fails.
void save_trace(const std::string& json, const std::filesystem::path& file);

}  // namespace leat::gpu
