#include "leat/overlap/trace/readers/events.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "leat/overlap/trace/readers/builder.h"
#include "leat/overlap/trace/readers/bytes.h"
#include "leat/overlap/trace/readers/numbers.h"

namespace overlap::trace {
namespace {

constexpr std::size_t kMostDepth = 1000;

// What is kept of an event. Texts, because a number may be one: "dur": "3.5".
struct Event {
  enum Text {
    kPh,
    kCat,
    kName,
    kPid,
    kTid,
    kTs,
    kDur,
    kCorrelation,
    kStream,
    kDevice,
    kBytes,
    kEpoch,
    kBatch,
    kArgName,
    kTexts
  };
  std::array<std::string, kTexts> of;
  unsigned has = 0;

  void set(Text which, const std::string& text) {
    of[which].assign(text, 0, which == kTs || which == kDur ? text.npos : Names::kMost);
    has |= 1U << which;
  }
  [[nodiscard]] bool told(Text which) const { return (has >> which & 1U) != 0; }
  [[nodiscard]] std::string_view operator[](Text which) const {
    return told(which) ? std::string_view(of[which]) : "";
  }
};

constexpr std::array<std::pair<std::string_view, Event::Text>, 7> kKeys = {{{"ph", Event::kPh},
                                                                            {"cat", Event::kCat},
                                                                            {"name", Event::kName},
                                                                            {"pid", Event::kPid},
                                                                            {"tid", Event::kTid},
                                                                            {"ts", Event::kTs},
                                                                            {"dur", Event::kDur}}};
constexpr std::array<std::pair<std::string_view, Event::Text>, 7> kArgs = {
    {{"correlation", Event::kCorrelation},
     {"stream", Event::kStream},
     {"device", Event::kDevice},
     {"bytes", Event::kBytes},
     {"epoch", Event::kEpoch},
     {"batch", Event::kBatch},
     {"name", Event::kArgName}}};

template <std::size_t kCount>
std::optional<Event::Text> find(
    const std::array<std::pair<std::string_view, Event::Text>, kCount>& keys,
    std::string_view key) {
  for (const auto& [name, text] : keys) {
    if (name == key) return text;
  }
  return std::nullopt;
}

// Turns events into a trace.
class Events {
 public:
  Events(Trace& trace, const Rules& rules) : trace_(trace), rules_(rules), builder_(trace) {}

  void add(const Event& event);
  void name_device(std::int64_t device, std::string_view name) {
    builder_.name_device(device, name);
  }
  void finish();

 private:
  using Process = std::pair<std::string, std::string>;  // pid, tid

  std::optional<Span> span(const Event& event);
  void add_op(const Event& event, Kind kind, const Span& span);
  void add_leat(const Event& event, const Span& span);
  std::uint32_t thread(const Event& event) {
    return builder_.thread(
        {trace_.names.add(event[Event::kPid]), trace_.names.add(event[Event::kTid])});
  }
  // What a name means, found out once for each.
  template <class Meaning>
  bool cached(std::vector<signed char>& known, std::uint32_t name, const Meaning& meaning) {
    if (name >= known.size()) known.resize(trace_.names.size(), -1);
    if (known[name] < 0) known[name] = meaning(trace_.names[name]) ? 1 : 0;
    return known[name] == 1;
  }

  Trace& trace_;
  const Rules& rules_;
  Builder builder_;
  std::vector<signed char> is_comm_;
  std::vector<signed char> is_data_;
  // Of Leat's traces: by pid of a device, its name; by tracks, theirs; by pid, epoch and batch, the
  // batch.
  std::map<std::string, std::string, std::less<>> processes_;
  std::map<Process, std::string> tracks_;
  std::map<std::string, std::map<std::pair<std::int64_t, std::int64_t>, Batch>> batches_;
  std::vector<std::pair<Process, Span>> waits_;
  bool has_ops_ = false;
};

std::optional<Span> Events::span(const Event& event) {
  const std::optional<Time> begin = nanoseconds(event[Event::kTs]);
  const std::optional<Time> length = nanoseconds(event[Event::kDur]);
  Time end = 0;
  if (!begin || !length || *begin < 0 || *length < 0 ||
      __builtin_add_overflow(*begin, *length, &end)) {
    ++trace_.oddities.dropped;
    return std::nullopt;
  }
  return Span{*begin, end};
}

void Events::add(const Event& event) {
  const std::string_view cat = event[Event::kCat];
  if (event[Event::kPh] == "M") {
    if (event[Event::kName] == "process_name")
      processes_[std::string(event[Event::kPid])] = event[Event::kArgName];
    if (event[Event::kName] == "thread_name")
      tracks_[{std::string(event[Event::kPid]), std::string(event[Event::kTid])}] =
          event[Event::kArgName];
    return;
  }
  if (event[Event::kPh] != "X") return;
  const std::string_view name = event[Event::kName];
  const auto is = [&](auto... names) { return ((cat == names) || ...); };
  const bool is_kernel = is("kernel", "Kernel");
  const bool is_copy = is("gpu_memcpy", "Memcpy");
  const bool is_set = is("gpu_memset", "Memset");
  if (is_kernel || is_copy || is_set) {
    const std::optional<Span> at = span(event);
    if (at) add_op(event, is_kernel ? Kind::kCompute : is_set ? Kind::kMemset : Kind::kOther, *at);
  } else if (is("cuda_runtime", "cuda_driver", "Runtime")) {
    const std::optional<Span> at = span(event);
    if (!at) return;
    builder_.add(Call{at->begin, at->end, thread(event), trace_.names.add(without_endings(name))},
                 {0, number_of<std::uint64_t>(event[Event::kCorrelation]).value_or(0)});
  } else if (is("user_annotation") ||
             (is("cpu_op", "Operator") &&
              (name.starts_with("ProfilerStep#") || rules_.data.has_value() ||
               name.starts_with("enumerate(DataLoader)#")))) {
    const std::uint32_t text = trace_.names.add(name);
    if (!is("user_annotation") && !name.starts_with("ProfilerStep#") &&
        !cached(is_data_, text, [&](const std::string& of) { return is_data(of, rules_); })) {
      return;
    }
    const std::optional<Span> at = span(event);
    if (at) builder_.add(Range{at->begin, at->end, thread(event), text});
  } else if (is("leat")) {
    const std::optional<Span> at = span(event);
    if (at) add_leat(event, *at);
  }
}

void Events::add_op(const Event& event, Kind kind, const Span& span) {
  Op op{.begin = span.begin,
        .end = span.end,
        .name = trace_.names.add(event[Event::kName]),
        .kind = kind};
  if (kind == Kind::kOther) op.kind = kind_of_copy(event[Event::kName], op.memory);
  if (kind == Kind::kCompute &&
      cached(is_comm_, op.name, [&](const std::string& of) { return is_comm(of, rules_); })) {
    op.kind = Kind::kComm;
  }
  op.bytes = number_of<std::uint64_t>(event[Event::kBytes]).value_or(0);
  const std::string_view device = event[event.told(Event::kDevice) ? Event::kDevice : Event::kPid];
  std::string_view stream = event[event.told(Event::kStream) ? Event::kStream : Event::kTid];
  if (stream.starts_with("stream ")) stream.remove_prefix(7);
  builder_.add(number_of<std::int64_t>(device).value_or(0), stream, op,
               {0, number_of<std::uint64_t>(event[Event::kCorrelation]).value_or(0)});
  has_ops_ = true;
}

void Events::add_leat(const Event& event, const Span& span) {
  const std::string_view name = event[Event::kName];
  const auto epoch = number_of<std::int64_t>(event[Event::kEpoch]);
  const auto number = number_of<std::int64_t>(event[Event::kBatch]);
  if (!epoch || !number) return;
  if (name.starts_with("wait ")) {
    waits_.push_back({{std::string(event[Event::kPid]), std::string(event[Event::kTid])}, span});
    return;
  }
  if (!name.starts_with("copy ") && !name.starts_with("use ")) return;
  Batch& batch = batches_[std::string(event[Event::kPid])][{*epoch, *number}];
  batch.epoch = *epoch;
  batch.number = *number;
  (name.starts_with("copy ") ? batch.copy : batch.use) = span;
}

void Events::finish() {
  builder_.finish();
  for (auto& [process, batches] : batches_) {
    Loop loop{.name = processes_.contains(process) ? processes_[process] : "process " + process,
              .batches = {},
              .waits = {}};
    for (auto& [key, batch] : batches) {
      if (batch.use) loop.batches.push_back(batch);
    }
    std::ranges::sort(loop.batches, {}, [](const Batch& batch) { return batch.use->end; });
    // "rank 0: host:0" waits on the track "rank 0: consumer waits for a batch".
    const std::string rank = loop.name.substr(0, loop.name.find(':'));
    for (const auto& [track, span] : waits_) {
      const auto named = tracks_.find(track);
      if (named != tracks_.end() && named->second == rank + ": consumer waits for a batch")
        loop.waits.push_back(span);
    }
    if (!loop.batches.empty()) trace_.loops.push_back(std::move(loop));
  }
  trace_.format = has_ops_ || trace_.loops.empty() ? "PyTorch profiler" : "Leat";
}

// Takes what nlohmann's parser finds. Of all that is nested, only what is named here counts.
class Handler {
 public:
  Handler(Trace& trace, Events& events) : trace_(trace), events_(events) {}

  std::string fault;  // why parsing ended; "": it did not

  bool null() { return true; }
  bool boolean(bool /*value*/) { return true; }
  bool number_integer(std::int64_t /*value*/) { return true; }
  bool number_unsigned(std::uint64_t /*value*/) { return true; }
  bool number_float(double /*value*/, const std::string& /*text*/) { return true; }
  bool binary(std::vector<std::uint8_t>& /*value*/) { return true; }
  bool string(std::string& text) {
    if (skipped_ > 0) return true;
    if ((place_ == In::kEvent || place_ == In::kEventArgs) && field_) event_.set(*field_, text);
    if (place_ == In::kDevice && key_ == "id") device_ = number_of<std::int64_t>(text);
    if (place_ == In::kDevice && key_ == "name") device_name_.assign(text, 0, Names::kMost);
    if (place_ == In::kInfo && key_ == "rank") trace_.rank = number_of<std::int64_t>(text);
    return true;
  }
  bool key(std::string& name) {
    if (skipped_ > 0) return true;
    if (place_ == In::kEvent) {
      field_ = find(kKeys, name);
      is_args_ = name == "args";
    } else if (place_ == In::kEventArgs) {
      field_ = find(kArgs, name);
    } else {
      key_ = name;
    }
    return true;
  }
  bool start_object(std::size_t /*elements*/) { return open(false); }
  bool start_array(std::size_t /*elements*/) { return open(true); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::json::exception& error) {
    // "[...] parse error at line 1, column 5: syntax error while parsing value - unexpected ..."
    // and then the last token, as it was mended, of up to 16 MiB.
    const std::string_view text = error.what();
    const std::size_t at = text.find(": ");
    fault = at == std::string_view::npos ? text : text.substr(at + 2);
    fault.resize(std::min(fault.find("; last read: "), fault.size()));
    return false;
  }

 private:
  enum class In : std::uint8_t {
    kNothing,
    kRoot,
    kEvents,
    kEvent,
    kEventArgs,
    kDevices,
    kDevice,
    kInfo
  };

  // What begins where. std::nullopt: nothing that counts.
  [[nodiscard]] std::optional<In> inner(bool is_array) const {
    switch (place_) {
      case In::kNothing: return is_array ? In::kEvents : In::kRoot;
      case In::kRoot:
        if (is_array && key_ == "traceEvents") return In::kEvents;
        if (is_array && key_ == "deviceProperties") return In::kDevices;
        if (!is_array && key_ == "distributedInfo") return In::kInfo;
        return std::nullopt;
      case In::kEvents: return is_array ? std::nullopt : std::optional(In::kEvent);
      case In::kEvent: return is_args_ && !is_array ? std::optional(In::kEventArgs) : std::nullopt;
      case In::kDevices: return is_array ? std::nullopt : std::optional(In::kDevice);
      default: return std::nullopt;
    }
  }
  bool open(bool is_array) {
    if (++depth_ > kMostDepth) {
      fault = "nested more than " + std::to_string(kMostDepth) + " deep";
      return false;
    }
    if (skipped_ > 0) {
      ++skipped_;
      return true;
    }
    const std::optional<In> in = inner(is_array);
    if (!in) {
      skipped_ = 1;
      return true;
    }
    if (*in == In::kEvents) has_events = true;
    if (*in == In::kEvent) event_.has = 0;
    if (*in == In::kDevice) device_.reset();
    outer_.push_back(place_);
    place_ = *in;
    field_.reset();
    return true;
  }
  bool close() {
    --depth_;
    if (skipped_ > 0) {
      --skipped_;
      return true;
    }
    if (place_ == In::kEvent) events_.add(event_);
    if (place_ == In::kDevice && device_) events_.name_device(*device_, device_name_);
    place_ = outer_.back();
    outer_.pop_back();
    field_.reset();
    return true;
  }

  Trace& trace_;
  Events& events_;
  In place_ = In::kNothing;
  std::vector<In> outer_;
  std::size_t depth_ = 0;
  std::size_t skipped_ = 0;  // levels of what does not count
  std::string key_;
  std::optional<Event::Text> field_;
  bool is_args_ = false;
  Event event_;
  std::optional<std::int64_t> device_;
  std::string device_name_;

 public:
  bool has_events = false;
};

}  // namespace

Trace read_events(const std::filesystem::path& file, const Rules& rules, bool partial) {
  Trace trace;
  trace.file = file.string();
  Events events(trace, rules);
  Handler handler(trace, events);
  try {
    JsonBytes bytes(file);
    if (!nlohmann::json::sax_parse(JsonBytes::Cursor(bytes), JsonBytes::Cursor(), &handler)) {
      throw Unreadable(trace.file + ", byte " + std::to_string(bytes.offset()) + ": " +
                       handler.fault);
    }
    if (!handler.has_events) {
      throw Unreadable(
          trace.file +
          ": JSON without traceEvents; a trace of the PyTorch profiler or of Leat has them");
    }
  } catch (const Unreadable& error) {
    if (!partial || !handler.has_events) throw;
    trace.partial = error.what();
  }
  events.finish();
  if (!trace.partial.empty() && trace.devices.empty() && trace.loops.empty())
    throw Unreadable(trace.partial + "; before that is no op of a GPU");
  return trace;
}

}  // namespace overlap::trace
