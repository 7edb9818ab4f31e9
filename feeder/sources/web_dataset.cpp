// What is always true here, once the constructor has returned: members_ has an entry for each part
// of each sample, in the order of shards; what they say was true of the shard then.
#include "leat/feeder/sources/web_dataset.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/jpeg.h"
#include "leat/feeder/sources/tar.h"

namespace leat::feeder {
namespace {

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

// An integer, perhaps among white space. False for anything else.
bool parse_label(std::span<const std::byte> bytes, std::int64_t& label) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  return error == std::errc() && end == text.data() + text.size();
}

// The first bytes, for a message: what is not printable ASCII as a dot.
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

WebDataset::WebDataset(const FilePatterns& shards, const WebDatasetOptions& options)
    : name_(options.name),
      shards_(find_files(shards, ".tar")),
      parts_(checked(options.parts)),
      files_(shards_, options.open_files) {
  if (shards_.empty()) throw std::invalid_argument("leat: a WebDataset of no shards");
  for (const WebPart& part : parts_) fields_.push_back(part.field);

  std::vector<WebShard> found =
      index_web_shards(shards_, parts_, options.skip_incomplete, options.index_threads);
  std::uint64_t samples = 0;
  for (const WebShard& shard : found) {
    first_samples_.push_back(samples);
    samples += shard.samples;
    skipped_ += shard.skipped;
  }
  first_samples_.push_back(samples);
  if (samples == 0) {
    throw Error("leat: no samples in " + shards_.front().string() +
                (shards_.size() > 1 ? " and " + std::to_string(shards_.size() - 1) + " more" : "") +
                ": " + std::to_string(skipped_) +
                " lack a part; check that they are the shards of a WebDataset with these parts");
  }
  members_.reserve(samples * parts_.size());
  for (WebShard& shard : found) {
    members_.insert(members_.end(), shard.members.begin(), shard.members.end());
    shard = {};
  }
}

std::size_t WebDataset::shard_of(std::uint64_t index) const {
  const auto after = std::upper_bound(first_samples_.begin(), first_samples_.end(), index);
  return static_cast<std::size_t>(after - first_samples_.begin()) - 1;
}

const WebMember& WebDataset::member(std::uint64_t index, std::size_t part) const {
  if (index < size()) return members_[index * parts_.size() + part];
  throw Error("leat: " + name_ + " has no sample " + std::to_string(index) + "; it has " +
              std::to_string(size()));
}

void WebDataset::read(std::uint64_t index, Sample& out) const {
  static_cast<void>(member(index, 0));
  bool fits = out.fields().size() == fields_.size();
  for (std::size_t f = 0; fits && f < fields_.size(); ++f) {
    const Field& field = out.fields()[f];
    fits = field.dtype == fields_[f].dtype && field.row_bytes() == fields_[f].row_bytes() &&
           field.variable_length == fields_[f].variable_length &&
           (field.variable_length || field.bytes() == fields_[f].bytes());
  }
  if (!fits) {
    throw std::invalid_argument("leat: a sample of " + name_ +
                                " is read into fields of the same types and shapes");
  }
  const std::size_t shard = shard_of(index);
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const WebMember& where = member(index, part);
    decode(part, shard, where, fetch(shard, where, out), out);
  }
}

// The data of a member, in scratch memory.
std::span<const std::byte> WebDataset::fetch(std::size_t shard, const WebMember& member,
                                             Sample& out) const {
  const std::size_t headers = member.headers * kTarBlock;
  const std::span<std::byte> bytes = out.scratch(headers + member.size);
  const std::shared_ptr<const OpenFile> file = files_.get(shard);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(file->descriptor(), bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(member.begin * kTarBlock + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail(shard, member, std::strerror(errno), "check that the shard may be read");
    }
    if (got == 0) {
      fail(shard, member, "the shard has become shorter since it was indexed",
           "make a new WebDataset when shards change");
    }
    done += static_cast<std::size_t>(got);
  }
  if (tar_digest(bytes.first(headers)) != member.digest) {
    fail(shard, member, "the shard has changed since it was indexed",
         "make a new WebDataset when shards change");
  }
  return bytes.subspan(headers);
}

void WebDataset::decode(std::size_t part, std::size_t shard, const WebMember& member,
                        std::span<const std::byte> data, Sample& out) const {
  const WebPart& how = parts_[part];
  switch (how.kind) {
    case WebPart::kImage:
      try {
        JpegDecoder decoder(how.image.jpeg);
        read_image(data, how.image, decoder, out, part);
      } catch (const JpegError& error) {
        fail(shard, member, error.problem(), error.advice());
      }
      return;
    case WebPart::kLabel:
      if (!parse_label(data, out.as<std::int64_t>(part)[0])) {
        fail(shard, member, "it is no integer: " + excerpt(data), "write labels in decimal digits");
      }
      return;
    case WebPart::kBytes:
      if (how.field.variable_length) {
        out.set_length(part, data.size() / how.field.row_bytes());
      }
      std::memcpy(out.bytes(part).data(), data.data(), data.size());
      return;
  }
}

void WebDataset::fail(std::size_t shard, const WebMember& member, const std::string& problem,
                      const std::string& advice) const {
  std::string file = "a file";
  try {
    TarReader tar(shards_[shard]);
    tar.seek(member.begin * kTarBlock);
    TarMember found;
    if (tar.next(found)) file = printable(found.name);
  } catch (const Error&) {  // what is told is the first problem
  }
  throw Error("leat: cannot read " + file + " of " + shards_[shard].string() + " (byte " +
              std::to_string(member.begin * kTarBlock) + "): " + problem + "; " + advice);
}

std::optional<std::size_t> WebDataset::length(std::uint64_t index, std::size_t field) const {
  if (field >= fields_.size() || !fields_[field].variable_length) return std::nullopt;
  return member(index, field).size / fields_[field].row_bytes();
}

std::string WebDataset::key(std::uint64_t index) const {
  const WebMember& first = member(index, 0);
  const std::size_t shard = shard_of(index);
  TarReader tar(shards_[shard]);
  tar.seek(first.begin * kTarBlock);
  TarMember found;
  const std::optional<WebName> name = tar.next(found) ? split_web_name(found.name) : std::nullopt;
  if (!name || found.digest != first.digest) {
    fail(shard, first, "the shard has changed since it was indexed",
         "make a new WebDataset when shards change");
  }
  return std::string(name->key);
}

}  // namespace leat::feeder
