#include "leat/overlap/trace/model.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <stdexcept>

namespace overlap::trace {
namespace {

constexpr std::size_t kMatched = 1000;

bool starts_with_any_case(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::ranges::equal(text.substr(0, lower.size()), lower, {}, [](char c) {
           return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
         });
}

}  // namespace

const char* to_string(Memory memory) noexcept {
  return memory == Memory::kPinned ? "pinned" : memory == Memory::kPageable ? "pageable" : "?";
}

const char* to_string(Kind kind) noexcept {
  constexpr std::array<const char*, kKinds> kNames = {"compute", "comm",   "h2d",  "d2h",
                                                      "d2d",     "memset", "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint32_t Names::add(std::string_view text) {
  text = text.substr(0, kMost);
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(texts_.size());
  if (number == kNone) throw std::length_error("a trace with more than 2^32 names");
  numbers_.emplace(texts_.emplace_back(text), number);
  return number;
}

Span Device::all() const noexcept {
  Span all{ops.front().begin, ops.front().end};
  for (const Op& op : ops) all.end = std::max(all.end, op.end);
  return all;
}

bool finds(const std::regex& pattern, std::string_view text) {
  text = text.substr(0, kMatched);
  return std::regex_search(text.begin(), text.end(), pattern);
}

bool is_comm(std::string_view kernel, const Rules& rules) {
  return std::ranges::any_of(std::array{"nccl", "rccl", "mscclkernel"},
                             [&](const char* of) { return starts_with_any_case(kernel, of); }) ||
         (rules.comm.has_value() && finds(*rules.comm, kernel));
}

bool is_data(std::string_view range, const Rules& rules) {
  return (range.starts_with("enumerate(DataLoader)#") && range.ends_with("__next__")) ||
         (rules.data.has_value() && finds(*rules.data, range));
}

bool is_sync(std::string_view call) noexcept {
  const bool is_api = call.starts_with("cuda") || call.starts_with("hip") || call.starts_with("cu");
  return (is_api && call.ends_with("Synchronize")) || call == "cudaMemcpy" || call == "hipMemcpy" ||
         call == "hipMemcpyWithStream";
}

std::string_view without_endings(std::string_view call) noexcept {
  while (true) {
    const std::size_t at = call.rfind('_');
    if (at == std::string_view::npos || at == 0) return call;
    const std::string_view ending = call.substr(at + 1);
    const bool is_version =
        ending.size() > 1 && ending[0] == 'v' &&
        std::ranges::all_of(ending.substr(1), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_version && ending != "ptsz" && ending != "ptds") return call;
    call = call.substr(0, at);
  }
}

Kind kind_of_copy(std::string_view name, Memory& memory) noexcept {
  if (name.find("Pageable") != std::string_view::npos) memory = Memory::kPageable;
  if (name.find("Pinned") != std::string_view::npos) memory = Memory::kPinned;
  constexpr std::array<std::pair<std::string_view, Kind>, 4> kDirections = {
      {{"HtoD", Kind::kH2d}, {"DtoH", Kind::kD2h}, {"DtoD", Kind::kD2d}, {"PtoP", Kind::kComm}}};
  for (const auto& [direction, kind] : kDirections) {
    if (name.find(direction) != std::string_view::npos) return kind;
  }
  return Kind::kOther;
}

}  // namespace overlap::trace
