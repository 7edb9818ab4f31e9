// Invariant, once the constructor has returned: Shards::members has an entry for each part of each
// sample, in the order of shards. An entry describes the shard as it was at construction.
#include "leat/feeder/sources/web_dataset.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/images/image_error.h"
#include "leat/feeder/sources/open_files.h"
#include "leat/feeder/sources/read_image.h"
#include "leat/feeder/sources/shard_index.h"
#include "leat/feeder/sources/tar.h"
#include "leat/feeder/sources/web_index.h"

namespace leat::feeder {
namespace {

constexpr const char* kShardChanged = "the shard has changed since it was indexed";
constexpr const char* kWriteDigits = "write labels in decimal digits";
constexpr const char* kMakeAnew = "make a new WebDataset when shards change";

std::vector<WebPart> checked(std::vector<WebPart> parts) {
  if (parts.empty()) throw std::invalid_argument("leat: a WebDataset of no parts");
  for (WebPart& part : parts) {
    if (part.extensions.empty()) {
      throw std::invalid_argument("leat: part " + to_string(part) + " of a WebDataset has none");
    }
    for (std::string& extension : part.extensions) {
      for (char& letter : extension) {
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
      }
    }
  }
  return parts;
}

// Parses an integer with white space around it. Returns false for anything else.
bool parse_label(std::span<const std::byte> bytes, std::int64_t& label) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  return error == std::errc() && end == text.data() + text.size();
}

// The most bytes of a label: a number and white space.
constexpr std::size_t kLongestLabel = 512;

// Returns the first bytes, for a message. Bytes that are not printable ASCII become dots.
std::string excerpt(std::span<const std::byte> bytes) {
  constexpr std::size_t kMost = 20;
  std::string text = "\"";
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kMost))) {
    const char letter = static_cast<char>(byte);
    text += letter >= ' ' && letter <= '~' ? letter : '.';
  }
  return text + (bytes.size() > kMost ? "...\"" : "\"");
}

}  // namespace

struct WebDataset::Shards {
  Shards(std::vector<std::filesystem::path> shards, std::size_t open_files)
      : paths(std::move(shards)), files(paths, open_files) {}

  const std::vector<std::filesystem::path> paths;
  ShardIndex index;
  std::vector<WebMember> members;  // [sample][part]
  std::vector<WebLink> links;      // in the order of `member`
  std::vector<FileStamp> stamps;   // [shard]
  FilesDigest digest;
  OpenFiles files;
};

struct WebDataset::Place {
  std::size_t shard;
  std::size_t number;  // of `member` in Shards::members
  const WebMember& member;
};

WebLeftOut& WebLeftOut::operator+=(const WebLeftOut& other) noexcept {
  symbolic_links += other.symbolic_links;
  devices += other.devices;
  unknown_members += other.unknown_members;
  files_without_key += other.files_without_key;
  return *this;
}

std::string to_string(const WebLeftOut& left_out) {
  std::string text;
  const auto add = [&text](std::uint64_t count, const char* what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(left_out.symbolic_links, "symbolic links");
  add(left_out.devices, "devices or pipes");
  add(left_out.unknown_members, "members of unknown types");
  add(left_out.files_without_key, "files without a key");
  return text;
}

WebDataset::WebDataset(const FilePatterns& shards, const WebDatasetOptions& options)
    : name_(options.name),
      parts_(checked(options.parts)),
      shards_(std::make_unique<Shards>(find_files(shards, ".tar"), options.open_files)) {
  const std::vector<std::filesystem::path>& paths = shards_->paths;
  if (paths.empty()) throw std::invalid_argument("leat: a WebDataset of no shards");
  for (const WebPart& part : parts_) fields_.push_back(part.field);

  WebDatasetOptions how = options;
  how.parts = parts_;
  std::vector<WebShard> found = index_web_shards(paths, how);
  for (std::size_t i = 0; i < found.size(); ++i) {
    shards_->index.add(found[i].samples);
    shards_->digest.add(paths[i], found[i].stamp.bytes);
    shards_->stamps.push_back(found[i].stamp);
    skipped_ += found[i].skipped;
    left_out_ += found[i].left_out;
  }
  if (size() == 0) {
    const std::string left_out = to_string(left_out_);
    throw Error("leat: no samples in " + paths.front().string() +
                (paths.size() > 1 ? " and " + std::to_string(paths.size() - 1) + " more" : "") +
                ": " + std::to_string(skipped_) + " lack a part" +
                (left_out.empty() ? "" : "; left out: " + left_out) +
                "; check that they are the shards of a WebDataset with these parts, and "
                "that each sample lies in one shard");
  }
  std::vector<WebMember>& members = shards_->members;
  members.reserve(size() * parts_.size());
  for (WebShard& shard : found) {
    for (WebLink& link : shard.links) {
      link.member += members.size();
      shards_->links.push_back(link);
    }
    members.insert(members.end(), shard.members.begin(), shard.members.end());
    shard = {};
  }
}

WebDataset::~WebDataset() = default;

std::uint64_t WebDataset::size() const noexcept { return shards_->index.size(); }

std::uint64_t WebDataset::digest() const noexcept { return shards_->digest.value(); }

WebDataset::Place WebDataset::place(std::uint64_t index, std::size_t part) const {
  const std::size_t number = index * parts_.size() + part;
  return {shards_->index.find(index).shard, number, shards_->members[number]};
}

void WebDataset::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const Place where = place(index, part);
    if (parts_[part].kind == WebPart::kLabel && where.member.size > kLongestLabel) {
      fail(where, "it is no integer: it has " + std::to_string(where.member.size) + " bytes",
           kWriteDigits);
    }
    decode(part, where, fetch(where, out), out);
  }
}

std::uint64_t WebDataset::announce(std::uint64_t index, std::uint64_t /*seed*/,
                                   std::uint64_t /*epoch*/) const noexcept {
  std::uint64_t announced = 0;
  try {
    const std::shared_ptr<const OpenFile> file = shards_->files.get(place(index, 0).shard);
    // Parts are mostly neighbours: one call for all of these.
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const WebMember& member = place(index, part).member;
      const std::uint64_t from = member.begin * kTarBlock;
      const std::uint64_t to = from + member.headers * kTarBlock + member.size;
      if (from <= end + kTarBlock && begin <= to + kTarBlock && part > 0) {
        begin = std::min(begin, from);
        end = std::max(end, to);
        continue;
      }
      if (part > 0) announced += file->announce(begin, end - begin);
      begin = from;
      end = to;
    }
    announced += file->announce(begin, end - begin);
  } catch (...) {  // the read that follows reports it
  }
  return announced;
}

// Reads the data of a member into scratch memory.
std::span<const std::byte> WebDataset::fetch(const Place& place, Sample& out) const {
  const std::size_t headers = place.member.headers * kTarBlock;
  const std::span<std::byte> bytes = out.scratch(headers + place.member.size);
  const std::shared_ptr<const OpenFile> file = shards_->files.get(place.shard);
  const OpenFile::Read read = file->read(place.member.begin * kTarBlock, bytes);
  if (read.error != 0) fail(place, std::strerror(read.error), advice_for_unreadable("the shard"));
  if (read.bytes < bytes.size()) {
    fail(place, "the shard has become shorter since it was indexed", kMakeAnew);
  }
  if (tar_digest(bytes.first(headers)) != place.member.digest ||
      file->is_rewritten(shards_->stamps[place.shard])) {
    fail(place, kShardChanged, kMakeAnew);
  }
  return bytes.subspan(headers);
}

void WebDataset::decode(std::size_t part, const Place& place, std::span<const std::byte> data,
                        Sample& out) const {
  const WebPart& how = parts_[part];
  switch (how.kind) {
    case WebPart::kImage: try { read_image(data, how.image, out, part);
      } catch (const ImageError& error) {
        fail(place, error.problem(), error.advice());
      }
      return;
    case WebPart::kLabel:
      if (!parse_label(data, out.as<std::int64_t>(part)[0])) {
        fail(place, "it is no integer: " + excerpt(data), kWriteDigits);
      }
      return;
    case WebPart::kBytes:
      if (how.field.variable_length) {
        out.set_length(part, data.size() / how.field.row_bytes());
      }
      out.copy(part, data);
      if (how.field.dtype != DType::kBool) return;
      if (const std::size_t at = first_no_bool(data); at < data.size()) {
        fail(place,
             "its byte " + std::to_string(at) + " is " +
                 std::to_string(std::to_integer<int>(data[at])) + ", for field \"" +
                 how.field.name + "\"; a bool is 0 or 1",
             "declare uint8");
      }
      return;
  }
}

// Returns the header that has the name of a part: a hard link's own.
WebLink WebDataset::named(const Place& place) const {
  const std::vector<WebLink>& links = shards_->links;
  const auto link = std::ranges::lower_bound(links, place.number, {}, &WebLink::member);
  if (link != links.end() && link->member == place.number) return *link;
  return {place.number, place.member.begin, place.member.digest};
}

void WebDataset::fail(const Place& place, const std::string& problem,
                      const std::string& advice) const {
  const std::filesystem::path& shard = shards_->paths[place.shard];
  const std::uint64_t begin = named(place).begin * kTarBlock;
  std::string file = "a file";
  try {
    TarReader tar(shard);
    tar.seek(begin);
    TarMember found;
    if (tar.next(found)) file = printable(found.name);
  } catch (const Error&) {  // ignored: the first problem is reported
  }
  throw Error("leat: cannot read " + file + " of " + shard.string() + " (byte " +
              std::to_string(begin) + "): " + problem + "; " + advice);
}

std::optional<std::size_t> WebDataset::length(std::uint64_t index, std::size_t field) const {
  if (field >= fields_.size() || !fields_[field].variable_length) return std::nullopt;
  check_index(*this, index);
  return place(index, field).member.size / fields_[field].row_bytes();
}

std::string WebDataset::key(std::uint64_t index) const {
  check_index(*this, index);
  const Place first = place(index, 0);
  const WebLink header = named(first);
  TarReader tar(shards_->paths[first.shard]);
  tar.seek(header.begin * kTarBlock);
  TarMember found;
  const std::optional<WebName> name = tar.next(found) ? split_web_name(found.name) : std::nullopt;
  if (!name || found.digest != header.digest) {
    fail(first, kShardChanged, kMakeAnew);
  }
  return std::string(name->key);
}

}  // namespace leat::feeder
