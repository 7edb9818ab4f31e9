#include "leat/overlap/trace/readers/nsight.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "leat/overlap/trace/readers/builder.h"
#include "leat/overlap/trace/readers/sqlite.h"

namespace overlap::trace {
namespace {

// A serialized id: the process, without the bits of the machine and of the thread.
std::uint64_t process_of(std::int64_t global) {
  return (static_cast<std::uint64_t>(global) >> 24U) & 0xFFFFFFU;
}

// StringIds: names by number, whatever the order and the indexes of the file.
class Strings {
 public:
  explicit Strings(Database& file) {
    Rows rows(file, "StringIds", {{"id"}, {"value"}});
    while (rows.next()) {
      const std::optional<std::string_view> value = rows.text(1);
      const std::string_view kept = value.value_or("?").substr(0, Names::kMost);
      known_.push_back({rows.number(0), texts_.size(), kept.size()});
      texts_ += kept;
    }
    if (!std::ranges::is_sorted(known_, {}, &Known::id)) {
      std::ranges::stable_sort(known_, {}, &Known::id);
    }
  }
  /// Returns a name as it is printed; "?" for a number that is not there.
  [[nodiscard]] std::string operator[](std::optional<std::int64_t> id) const {
    if (!id) return "?";
    const auto found = std::ranges::lower_bound(known_, *id, {}, &Known::id);
    if (found == known_.end() || found->id != *id) return "?";
    return printable(std::string_view(texts_).substr(found->begin, found->size), Names::kMost);
  }

 private:
  struct Known {
    std::int64_t id;
    std::size_t begin;
    std::size_t size;
  };
  std::string texts_;
  std::vector<Known> known_;
};

// GPUs and their names. Processes that see different GPUs may each call theirs 0: then the numbers
// are the machine's.
class Gpus {
 public:
  explicit Gpus(Database& file) {
    Rows rows(file, "TARGET_INFO_CUDA_DEVICE",
              {{"gpuId", false}, {"cudaId", false}, {"pid", false}});
    while (rows.next()) {
      const auto gpu = rows.integer(0);
      const auto cuda = rows.integer(1);
      const auto pid = rows.integer(2);
      if (!gpu || !cuda || !pid) continue;
      gpus_[{static_cast<std::uint64_t>(*pid) & 0xFFFFFFU, *cuda}] = *gpu;
      const auto [first, is_new] = by_cuda_.try_emplace(*cuda, *gpu);
      if (!is_new && first->second != *gpu) is_ambiguous_ = true;
    }
  }
  [[nodiscard]] std::int64_t number(std::uint64_t process, std::int64_t cuda) const {
    const auto found = gpus_.find({process, cuda});
    return is_ambiguous_ && found != gpus_.end() ? found->second : cuda;
  }
  void name(Database& file, Builder& builder) const {
    std::map<std::int64_t, std::string> names;
    Rows rows(file, "TARGET_INFO_GPU", {{"id", false}, {"name", false}});
    while (rows.next()) {
      const auto id = rows.integer(0);
      const auto name = rows.text(1);
      if (id && name) names[*id] = printable(*name, Names::kMost);
    }
    for (const auto& [id, name] : names) builder.name_device(id, name);
    if (is_ambiguous_) return;
    for (const auto& [cuda, gpu] : by_cuda_) {
      if (names.contains(gpu)) builder.name_device(cuda, names[gpu]);
    }
  }

 private:
  std::map<std::pair<std::uint64_t, std::int64_t>, std::int64_t> gpus_;  // by process and number
  std::map<std::int64_t, std::int64_t> by_cuda_;
  bool is_ambiguous_ = false;
};

enum OpColumn : std::size_t { kBegin, kEnd, kDevice, kStream, kCorrelation, kProcess, kMore };

std::vector<Column> op_columns(std::initializer_list<Column> more) {
  std::vector<Column> columns = {
      {"start"},           {"end"}, {"deviceId"}, {"streamId"}, {"correlationId", false},
      {"globalPid", false}};
  columns.insert(columns.end(), more);
  return columns;
}

// Of ENUM_CUDA_MEMCPY_OPER: by number, what a copy does and its name.
struct CopyKind {
  const char* name;
  Kind kind;
};
constexpr std::array<CopyKind, 14> kCopyKinds = {{{"Memcpy", Kind::kOther},
                                                  {"Memcpy HtoD", Kind::kH2d},
                                                  {"Memcpy DtoH", Kind::kD2h},
                                                  {"Memcpy HtoA", Kind::kH2d},
                                                  {"Memcpy AtoH", Kind::kD2h},
                                                  {"Memcpy AtoA", Kind::kD2d},
                                                  {"Memcpy AtoD", Kind::kD2d},
                                                  {"Memcpy DtoA", Kind::kD2d},
                                                  {"Memcpy DtoD", Kind::kD2d},
                                                  {"Memcpy HtoH", Kind::kOther},
                                                  {"Memcpy PtoP", Kind::kComm},
                                                  {"Unified memory HtoD", Kind::kH2d},
                                                  {"Unified memory DtoH", Kind::kD2h},
                                                  {"Unified memory DtoD", Kind::kD2d}}};

class Reader {
 public:
  Reader(Trace& trace, const Rules& rules, const std::filesystem::path& file)
      : trace_(trace), rules_(rules), file_(file), strings_(file_), gpus_(file_), builder_(trace) {}

  void read() {
    Rows kernels(file_, "CUPTI_ACTIVITY_KIND_KERNEL",
                 op_columns({{"demangledName", false}, {"shortName", false}}));
    Rows copies(
        file_, "CUPTI_ACTIVITY_KIND_MEMCPY",
        op_columns({{"copyKind"}, {"srcKind", false}, {"dstKind", false}, {"bytes", false}}));
    Rows sets(file_, "CUPTI_ACTIVITY_KIND_MEMSET", op_columns({}));
    Rows graphs(file_, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", op_columns({{"graphId", false}}));
    // Schemas before globalPid tell no process of an op: its number has to do.
    for (const Rows* const rows : {&kernels, &copies, &sets, &graphs}) {
      by_process_ = by_process_ && (!rows->is_there() || rows->has(kProcess));
    }
    if (kernels.is_there() && !kernels.has(kMore + 1)) kernels.need(kMore);
    read_kernels(kernels);
    read_copies(copies);
    while (sets.next()) add(sets, {.name = trace_.names.add("Memset"), .kind = Kind::kMemset});
    while (graphs.next()) {
      const auto id = graphs.integer(kMore);
      const std::string name = "CUDA graph" + (id ? " " + std::to_string(*id) : "");
      add(graphs, {.name = trace_.names.add(name), .kind = Kind::kCompute, .is_graph = true});
    }
    read_calls("CUPTI_ACTIVITY_KIND_RUNTIME");
    read_calls("CUPTI_ACTIVITY_KIND_DRIVER");
    read_ranges();
    gpus_.name(file_, builder_);
    builder_.finish();
  }

 private:
  // The times, or one more that is dropped.
  std::optional<Span> span(Rows& rows) {
    const std::optional<Time> begin = rows.integer(kBegin);
    const std::optional<Time> end = rows.integer(kEnd);
    if (!begin || !end || *begin < 0 || *end < *begin) {
      ++trace_.oddities.dropped;
      return std::nullopt;
    }
    return Span{*begin, *end};
  }
  [[nodiscard]] Builder::Correlation correlation(std::optional<std::int64_t> number,
                                                 std::optional<std::int64_t> global) const {
    if (!number || (by_process_ && !global)) return {};
    return {by_process_ ? process_of(*global) : 0, static_cast<std::uint64_t>(*number)};
  }
  std::uint32_t thread(std::optional<std::int64_t> global) {
    const std::int64_t number = global.value_or(0);
    return builder_.thread({process_of(number), static_cast<std::uint64_t>(number)});
  }
  void add(Rows& rows, Op op) {
    const std::optional<Span> at = span(rows);
    if (!at) return;
    op.begin = at->begin;
    op.end = at->end;
    const std::optional<std::int64_t> process = rows.integer(kProcess);
    const std::int64_t device = gpus_.number(process_of(process.value_or(0)), rows.number(kDevice));
    builder_.add(device, std::to_string(rows.number(kStream)), op,
                 correlation(rows.integer(kCorrelation), process));
  }
  void read_kernels(Rows& rows);
  void read_copies(Rows& rows);
  void read_calls(const char* table);
  void read_ranges();

  Trace& trace_;
  const Rules& rules_;
  Database file_;
  Strings strings_;
  Gpus gpus_;
  Builder builder_;
  bool by_process_ = true;
};

void Reader::read_kernels(Rows& rows) {
  std::unordered_map<std::optional<std::int64_t>, Op> known;  // by the name's number
  while (rows.next()) {
    const std::optional<std::int64_t> full = rows.integer(kMore);
    const std::optional<std::int64_t> id = full ? full : rows.integer(kMore + 1);
    const auto [found, is_new] = known.try_emplace(id);
    if (is_new) {
      const std::string name = strings_[id];
      found->second.name = trace_.names.add(name);
      found->second.kind = is_comm(name, rules_) ? Kind::kComm : Kind::kCompute;
    }
    add(rows, found->second);
  }
}

void Reader::read_copies(Rows& rows) {
  while (rows.next()) {
    const std::int64_t number = rows.integer(kMore).value_or(0);
    const bool is_known = number >= 0 && number < static_cast<std::int64_t>(kCopyKinds.size());
    const CopyKind& copy = kCopyKinds[is_known ? static_cast<std::size_t>(number) : 0];
    Op op{.kind = copy.kind};
    const std::int64_t bytes = rows.integer(kMore + 3).value_or(0);
    op.bytes = bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
    std::string name = copy.name;
    if (copy.kind == Kind::kH2d || copy.kind == Kind::kD2h) {
      const auto host = rows.integer(copy.kind == Kind::kH2d ? kMore + 1 : kMore + 2);
      if (host == 0) op.memory = Memory::kPageable;
      if (host == 1) op.memory = Memory::kPinned;
      if (op.memory != Memory::kUnknown) name += host == 0 ? " (pageable)" : " (pinned)";
    }
    op.name = trace_.names.add(name);
    add(rows, op);
  }
}

void Reader::read_calls(const char* table) {
  Rows rows(file_, table,
            {{"start"}, {"end"}, {"nameId"}, {"globalTid"}, {"correlationId", false}});
  std::unordered_map<std::optional<std::int64_t>, std::uint32_t> known;  // by the name's number
  while (rows.next()) {
    const std::optional<Span> at = span(rows);
    if (!at) continue;
    const std::optional<std::int64_t> id = rows.integer(2);
    const auto [found, is_new] = known.try_emplace(id);
    if (is_new) found->second = trace_.names.add(without_endings(strings_[id]));
    const std::optional<std::int64_t> global = rows.integer(3);
    builder_.add(Call{at->begin, at->end, thread(global), found->second},
                 correlation(rows.integer(4), global));
  }
}

void Reader::read_ranges() {
  // NvtxPushPopRange, NvtxStartEndRange, and those imported as text; others are marks, categories.
  const std::set<std::int64_t> ranges = {59, 60, 70, 71};
  Rows rows(file_, "NVTX_EVENTS",
            {{"start"},
             {"end"},
             {"globalTid"},
             {"eventType", false},
             {"text", false},
             {"textId", false}});
  if (rows.is_there() && !rows.has(5)) rows.need(4);
  while (rows.next()) {
    // Without types, what has an end.
    if (rows.has(3) ? !ranges.contains(rows.integer(3).value_or(0)) : !rows.integer(kEnd)) continue;
    const std::optional<Span> at = span(rows);
    if (!at) continue;
    const std::optional<std::string_view> text = rows.text(4);
    const std::string name = text ? printable(*text, Names::kMost) : strings_[rows.integer(5)];
    builder_.add(Range{at->begin, at->end, thread(rows.integer(2)), trace_.names.add(name)});
  }
}

}  // namespace

Trace read_nsight(const std::filesystem::path& file, const Rules& rules) {
  Trace trace;
  trace.file = file.string();
  trace.format = "Nsight Systems";
  Reader(trace, rules, file).read();
  return trace;
}

}  // namespace overlap::trace
