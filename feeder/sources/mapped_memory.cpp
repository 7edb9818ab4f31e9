#include "leat/feeder/sources/mapped_memory.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "leat/csp/base/page_size.h"
#include "leat/csp/error.h"

namespace leat::feeder {
namespace {

// Returns the number at the front of `text`, and takes it and the character behind it away.
std::uintptr_t take_maps_number(std::string_view& text, int base) {
  std::uintptr_t value = 0;
  const char* const end = std::from_chars(text.data(), text.data() + text.size(), value, base).ptr;
  const auto read = static_cast<std::size_t>(end - text.data());
  text.remove_prefix(std::min(read + 1, text.size()));
  return value;
}

void skip_maps_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find(' '), text.size()));
  text.remove_prefix(std::min<std::size_t>(1, text.size()));
}

}  // namespace

FileMappings::FileMappings() {
  std::ifstream file("/proc/self/maps");
  if (!file) {
    throw Error(
        std::string("leat: cannot open /proc/self/maps, which tells what memory is of files "
                    "that may shrink: ") +
        std::strerror(errno) + "; close files, raise the limit of open files, or mount /proc");
  }
  const std::string all(std::istreambuf_iterator<char>(file), {});
  // 7f00a000-7f00c000 r--s 00000000 fe:01 1234    /data/table.arrow
  for (std::string_view rest = all; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::uintptr_t begin = take_maps_number(line, 16);
    const std::uintptr_t end = take_maps_number(line, 16);
    for (int i = 0; i < 3; ++i) skip_maps_word(line);
    const bool is_file = take_maps_number(line, 10) != 0;  // the inode
    if (is_file) mappings_.push_back({begin, end, end, 0, nullptr});
  }
}

void FileMappings::add(std::span<const std::byte> bytes, std::vector<std::size_t>& found) {
  if (bytes.empty() || mappings_.empty()) return;
  const auto from = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t to = from + bytes.size();
  if (from < mappings_[last_].begin || from >= mappings_[last_].end) {
    const auto behind = std::ranges::upper_bound(mappings_, from, {}, &Mapping::begin);
    if (behind == mappings_.begin() || from >= std::prev(behind)->end) return;
    last_ = static_cast<std::size_t>(std::prev(behind) - mappings_.begin());
  }
  // The kernel may show one mapping as several, one behind the other.
  for (std::size_t i = last_; i < mappings_.size() && mappings_[i].begin < to; ++i) {
    Mapping& mapping = mappings_[i];
    mapping.from = std::min(mapping.from, std::max(from, mapping.begin));
    mapping.to = std::max(mapping.to, std::min(to, mapping.end));
    if (std::ranges::find(found, i) == found.end()) found.push_back(i);
    if (mapping.early == nullptr) {
      mapping.early = std::make_unique<const GuardedRange>(
          reinterpret_cast<const std::byte*>(mapping.begin), mapping.end - mapping.begin);
    }
  }
}

bool FileMappings::has_lost() const noexcept {
  return std::ranges::any_of(mappings_, [](const Mapping& mapping) {
    return mapping.early != nullptr && mapping.early->is_damaged();
  });
}

std::vector<std::unique_ptr<const GuardedRange>> FileMappings::guard() const {
  std::vector<std::unique_ptr<const GuardedRange>> guards(mappings_.size());
  for (std::size_t i = 0; i < mappings_.size(); ++i) {
    const std::uintptr_t from = mappings_[i].from;
    const std::uintptr_t to = mappings_[i].to;
    if (from >= to) continue;
    const std::uintptr_t page = from / page_size() * page_size();
    guards[i] =
        std::make_unique<const GuardedRange>(reinterpret_cast<const std::byte*>(page), to - page);
  }
  return guards;
}

}  // namespace leat::feeder
