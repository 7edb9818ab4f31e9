#include "leat/feeder/sources/web_index.h"

#include <algorithm>
#include <atomic>
#include <compare>
#include <exception>
#include <functional>
#include <limits>
#include <thread>
#include <unordered_map>
#include <utility>

#include "leat/csp/base/start_thread.h"
#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/tar.h"

namespace leat::feeder {
namespace {

// Finds the files that hard links lead to. Reads the headers up to each link once more, so that
// archives without links cost nothing, and the names before a link are known when it is looked up.
class LinkTargets {
 public:
  LinkTargets(const std::filesystem::path& shard, bool accept_zeros) : tar_(shard, accept_zeros) {}

  // Returns the last member before `link` that has the name that it leads to; nothing: none has. Of
  // two calls, the second is for the later link.
  std::optional<TarMember> find(const TarMember& link) {
    tar_.seek(next_);
    TarMember member;
    while (tar_.next(member) && member.begin < link.begin) {
      places_[hash(member.name)] = member.begin;
    }
    next_ = link.begin;
    const auto place = places_.find(hash(link.link));
    if (place == places_.end()) return std::nullopt;
    tar_.seek(place->second);
    if (!tar_.next(member) || member.name != link.link) return std::nullopt;
    return member;
  }

 private:
  static std::size_t hash(const std::string& name) { return std::hash<std::string>{}(name); }

  TarReader tar_;
  std::uint64_t next_ = 0;  // byte of the first member whose name is not yet known
  std::unordered_map<std::size_t, std::uint64_t> places_;  // of members, by the hash of the name
};

// Groups a shard's files into samples.
class Indexer {
 public:
  Indexer(const std::filesystem::path& shard, const WebDatasetOptions& options)
      : shard_(shard),
        parts_(options.parts),
        skip_incomplete_(options.skip_incomplete),
        accept_zeros_(options.accept_short_shards),
        found_(parts_.size()) {}

  void add(const TarMember& member) {
    const std::optional<WebName> name = split_web_name(member.name);
    if (!is_of_a_sample(member, name.has_value())) return;
    if (!is_open_ || name->key != key_) {
      end_sample();
      key_ = name->key;
      begin_ = member.begin;
      is_open_ = true;
    }
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::vector<std::string>& extensions = parts_[p].extensions;
      if (std::find(extensions.begin(), extensions.end(), name->extension) == extensions.end()) {
        continue;
      }
      if (found_[p]) {
        fail("has a second file for part " + to_string(parts_[p]) + ", " + printable(member.name),
             member.begin, "leave one of them out, or declare one extension only");
      }
      found_[p] = member.kind == TarKind::kHardLink ? followed(member) : Found{member, {}};
    }
  }

  void end_sample() {
    if (!is_open_) return;
    is_open_ = false;
    const auto missing = std::find(found_.begin(), found_.end(), std::nullopt);
    const bool is_whole = missing == found_.end();
    groups_.push_back({std::hash<std::string_view>{}(key_), begin_ | (is_whole ? 1U : 0U)});
    has_incomplete_ = has_incomplete_ || !is_whole;
    if (is_whole) {
      for (std::size_t p = 0; p < parts_.size(); ++p) keep(*found_[p], parts_[p]);
      ++result_.samples;
    } else if (skip_incomplete_) {
      ++result_.skipped;
    } else if (!incomplete_) {
      incomplete_ = {key_, begin_, static_cast<std::size_t>(missing - found_.begin())};
    }
    found_.assign(parts_.size(), std::nullopt);
  }

  // Once all files are added. `tar` reads the shard.
  WebShard result(TarReader& tar) {
    end_sample();
    check_neighbours(tar);
    if (incomplete_) {
      key_ = incomplete_->key;
      const std::string left_out = to_string(result_.left_out);
      fail("lacks part " + to_string(parts_[incomplete_->missing]) + ": it has " +
               names_at(incomplete_->begin, tar) +
               (left_out.empty() ? "" : "; the shard also has " + left_out),
           incomplete_->begin, "declare what its samples have, or set skip_incomplete");
    }
    return std::move(result_);
  }

 private:
  // Neighbouring files with the same key: 16 bytes, kept for each sample until the shard is read.
  struct Group {
    std::uint64_t hash;   // of the key
    std::uint64_t place;  // byte of the first header, which is even; plus 1 if no part is lacking

    [[nodiscard]] std::uint64_t begin() const noexcept { return place & ~std::uint64_t{1}; }
    [[nodiscard]] bool is_whole() const noexcept { return (place & 1) != 0; }
    // NOLINTNEXTLINE(modernize-use-nullptr): it sees the 0 that a comparison is compared with
    auto operator<=>(const Group&) const = default;
  };

  struct Found {
    TarMember file;  // of a hard link: the place of the file that it leads to
    std::optional<WebLink> link;
  };

  struct Incomplete {
    std::string key;
    std::uint64_t begin = 0;
    std::size_t missing = 0;  // part
  };

  // Fails if a key has several groups of which one lacks a part: which sample that is makes no
  // difference. Costs a sort, in shards that have such a group. Equal hashes are no proof: the keys
  // are read once more.
  void check_neighbours(TarReader& tar) {
    if (!has_incomplete_) return;
    std::ranges::sort(groups_);
    const Group* later = nullptr;  // the first in the shard that is not where it belongs
    for (std::size_t i = 1; i < groups_.size(); ++i) {
      const Group& before = groups_[i - 1];
      const Group& one = groups_[i];
      if (before.hash != one.hash || (before.is_whole() && one.is_whole())) continue;
      if (later != nullptr && later->begin() < one.begin()) continue;
      if (key_at(before.begin(), tar) == key_at(one.begin(), tar)) later = &one;
    }
    if (later == nullptr) return;
    key_ = key_at(later->begin(), tar);
    fail("has files that are not neighbours: others begin at byte " +
             std::to_string((later - 1)->begin()),
         later->begin(), "pack the files of a sample one behind the other: tar --sort=name");
  }

  // Whether the member is a file of a sample. Counts what else might be data.
  bool is_of_a_sample(const TarMember& member, bool has_key) {
    WebLeftOut& left_out = result_.left_out;
    switch (member.kind) {
      case TarKind::kFile:
      case TarKind::kHardLink: left_out.files_without_key += has_key ? 0 : 1; return has_key;
      case TarKind::kSymbolicLink: ++left_out.symbolic_links; return false;
      case TarKind::kDevice: ++left_out.devices; return false;
      case TarKind::kUnknown: ++left_out.unknown_members; return false;
      case TarKind::kFolder: return false;
    }
    return false;
  }

  Found followed(const TarMember& link) {
    if (!targets_) targets_.emplace(shard_, accept_zeros_);
    std::optional<TarMember> file = targets_->find(link);
    if (!file || file->kind != TarKind::kFile) {
      fail("has a hard link, " + printable(link.name) + ", to " + printable(link.link) +
               ", which is " +
               (file ? "no file but another link or a folder" : "not before it in the shard"),
           link.begin,
           "put the file there, before its links, or pack with tar's --hard-dereference");
    }
    file->name = link.name;
    return {*file, WebLink{0, blocks(link), link.digest}};
  }

  // The names of the files of the sample key_ at `begin`, for a message.
  std::string names_at(std::uint64_t begin, TarReader& tar) const {
    constexpr std::size_t kMost = 200;
    std::string names;
    tar.seek(begin);
    for (TarMember member; tar.next(member);) {
      const std::optional<WebName> name = split_web_name(member.name);
      if (!name || name->key != key_) break;
      names += (names.empty() ? "" : ", ") + printable(member.name);
      if (member.kind == TarKind::kSymbolicLink) names += " (a symbolic link)";
      if (names.size() > kMost) return names + ", ...";
    }
    return names;
  }

  static std::string key_at(std::uint64_t begin, TarReader& tar) {
    tar.seek(begin);
    TarMember member;
    const std::optional<WebName> name =
        tar.next(member) ? split_web_name(member.name) : std::nullopt;
    return name ? std::string(name->key) : std::string();
  }

  void keep(const Found& found, const WebPart& part) {
    const TarMember& file = found.file;
    const std::uint32_t begin = blocks(file);
    if (part.kind == WebPart::kBytes) check_size(file, part.field);
    if (found.link) {
      result_.links.push_back(*found.link);
      result_.links.back().member = result_.members.size();
    }
    result_.members.push_back({begin,
                               static_cast<std::uint32_t>((file.data - file.begin) / kTarBlock),
                               static_cast<std::uint32_t>(file.size), file.digest});
  }

  // Returns where a member begins, in blocks.
  std::uint32_t blocks(const TarMember& member) const {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
    if (member.size > kMost || member.begin / kTarBlock > kMost) {
      fail("has a part beyond 4 GB or, in its shard, beyond 2 TB: " + printable(member.name),
           member.begin, "divide it");
    }
    return static_cast<std::uint32_t>(member.begin / kTarBlock);
  }

  void check_size(const TarMember& member, const Field& field) const {
    const std::size_t most = field.bytes();
    if (member.size == most) return;
    if (field.variable_length && member.size < most && member.size % field.row_bytes() == 0) return;
    fail("has " + std::to_string(member.size) + " bytes for field \"" + field.name + "\", in " +
             printable(member.name) + "; declared are " +
             (field.variable_length ? "up to " + std::to_string(most) + ", in rows of " +
                                          std::to_string(field.row_bytes())
                                    : std::to_string(most)),
         member.begin, "declare another shape");
  }

  [[noreturn]] void fail(const std::string& problem, std::uint64_t offset,
                         const char* advice) const {
    throw Error("leat: cannot read " + printable(shard_.string()) + ": sample " + printable(key_) +
                " (byte " + std::to_string(offset) + ") " + problem + "; " + advice);
  }

  const std::filesystem::path& shard_;
  std::span<const WebPart> parts_;
  bool skip_incomplete_;
  bool accept_zeros_;
  std::optional<LinkTargets> targets_;  // once there is a link
  bool is_open_ = false;
  std::string key_;
  std::uint64_t begin_ = 0;  // byte of the sample's first header
  std::vector<std::optional<Found>> found_;
  // The first sample that lacks a part, an error. It waits for the end of the shard, because the
  // part may be among files that follow later.
  std::optional<Incomplete> incomplete_;
  std::vector<Group> groups_;
  bool has_incomplete_ = false;  // a group lacks a part
  WebShard result_;
};

}  // namespace

std::optional<WebName> split_web_name(std::string_view path) {
  const std::string_view top = path.substr(0, path.find('/'));
  if (top.size() > 3 && top.starts_with("__") && top.ends_with("__")) return std::nullopt;
  const std::size_t slash = path.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = path.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  WebName name{path.substr(0, dot), std::string(path.substr(dot + 1))};
  for (char& letter : name.extension) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return name;
}

WebShard index_web_shard(const std::filesystem::path& shard, const WebDatasetOptions& options) {
  TarReader tar(shard, options.accept_short_shards);
  Indexer indexer(shard, options);
  std::uint64_t files = 0;
  for (TarMember member; tar.next(member);) {
    files += member.kind == TarKind::kFile || member.kind == TarKind::kHardLink ? 1 : 0;
    indexer.add(member);
  }
  WebShard found = indexer.result(tar);
  found.stamp = tar.stamp();
  if (found.samples + found.skipped == 0 && !options.accept_short_shards) {
    const std::string left_out = to_string(found.left_out);
    cannot_read(shard,
                "none of its " + std::to_string(files) + " files is of a sample" +
                    (left_out.empty() ? "" : "; left out: " + left_out),
                std::string(found.left_out.symbolic_links > 0
                                ? "pack the files themselves: tar --dereference"
                                : kFetchAgain) +
                    "; if shards may be empty, " + kAcceptShort);
  }
  return found;
}

std::vector<WebShard> index_web_shards(std::span<const std::filesystem::path> shards,
                                       const WebDatasetOptions& options) {
  std::vector<WebShard> found(shards.size());
  std::vector<std::exception_ptr> failures(shards.size());
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> has_failed = false;
  const auto work = [&] {
    // A thread that takes a shard finishes it. So all shards before a bad one are read.
    for (std::size_t i = 0; !has_failed && (i = next++) < shards.size();) {
      try {
        found[i] = index_web_shard(shards[i], options);
      } catch (...) {
        failures[i] = std::current_exception();
        has_failed = true;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < std::min(options.index_threads, shards.size())) {
        others.push_back(start_thread<std::jthread>("a thread that reads shards", work));
      }
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no more threads, or memory
    }
    work();  // with however many there are
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return found;
}

}  // namespace leat::feeder
