#include "leat/gpu/trace_writer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "leat/csp/error.h"

namespace leat::gpu {
namespace {

// With three decimals.
std::string microseconds(Duration time) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3f",
                std::chrono::duration<double, std::micro>(time).count());
  return text.data();
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ') {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escaped.data();
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string place(const TraceWriter::Track& track) {
  return "\"pid\":" + std::to_string(track.process) + ",\"tid\":" + std::to_string(track.thread);
}

std::string metadata(std::string_view what, const TraceWriter::Track& track,
                     std::string_view name) {
  return R"({"ph":"M","name":)" + quoted(what) + ',' + place(track) + R"(,"args":{"name":)" +
         quoted(name) + "}},\n";
}

}  // namespace

void TraceWriter::name_process(std::size_t process, std::string_view name) {
  events_ += metadata("process_name", {process, 0}, name);
}

void TraceWriter::name_track(const Track& track, std::string_view name) {
  events_ += metadata("thread_name", track, name);
}

void TraceWriter::span(std::string_view name, const Track& track, Duration begin, Duration end,
                       std::string_view args) {
  events_ += R"({"ph":"X","name":)" + quoted(name) + R"(,"cat":"leat",)" + place(track) +
             ",\"ts\":" + microseconds(begin) +
             ",\"dur\":" + microseconds(std::max(end - begin, Duration::zero())) + ",\"args\":{";
  events_ += args;
  events_ += "}},\n";
}

void TraceWriter::arrow(char phase, std::string_view name, std::size_t id, const Track& track,
                        Duration at) {
  events_ += R"({"ph":")" + std::string(1, phase) + R"(","name":)" + quoted(name) +
             R"(,"cat":"leat","id":)" + std::to_string(id) + ',' + place(track) +
             ",\"ts\":" + microseconds(at) + ",\"bp\":\"e\"},\n";
}

void TraceWriter::counter(std::string_view name, std::size_t process, Duration at,
                          std::string_view args) {
  events_ += R"({"ph":"C","name":)" + quoted(name) + ",\"pid\":" + std::to_string(process) +
             ",\"ts\":" + microseconds(at) + ",\"args\":{";
  events_ += args;
  events_ += "}},\n";
}

std::string TraceWriter::json() const {
  std::string text = R"({"displayTimeUnit":"ms","traceEvents":[)"
                     "\n";
  text.reserve(text.size() + events_.size() + 3);
  if (!events_.empty()) text.append(events_, 0, events_.size() - 2) += '\n';  // no last comma
  return text += "]}\n";
}

void TraceWriter::save(const std::filesystem::path& file) const { save_trace(json(), file); }

void save_trace(const std::string& json, const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << json;
  out.close();
  if (!out) throw Error("leat: cannot write the trace to " + file.string());
}

}  // namespace leat::gpu
