#include "bench/data/synthetic.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "leat/csp/base/random.h"
#include "leat/csp/error.h"
#include "leat/feeder/random.h"

namespace leat::feeder {
namespace {

namespace fs = std::filesystem;

// A file that gets its name once it is complete.
class Output {
 public:
  explicit Output(fs::path path) : path_(std::move(path)), partial_(path_) {
    partial_ += ".partial";
    file_.reset(std::fopen(partial_.c_str(), "wb"));
    if (!file_) fail();
  }
  ~Output() {
    if (partial_.empty()) return;
    file_.reset();
    std::error_code ignored;
    fs::remove(partial_, ignored);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;  // data() may then be null
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail();
    written_ += bytes.size();
  }
  void finish() {
    if (std::fclose(file_.release()) != 0) fail();
    if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail();
    partial_.clear();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error("leat: cannot write " + partial_.string() + " (at byte " +
                std::to_string(written_) + "): " + std::strerror(errno) +
                "; check the directory and the space on the disk");
  }
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  fs::path path_;
  fs::path partial_;  // empty once renamed
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t written_ = 0;
};

// Writes `shards` files. Calls `fill` for each one, with the range of its samples.
using Fill =
    std::function<void(Output& out, std::size_t shard, std::uint64_t first, std::uint64_t count)>;
std::vector<fs::path> write_shards(const fs::path& directory, std::uint64_t samples,
                                   std::size_t shards,
                                   const std::function<std::string(std::size_t)>& name,
                                   const Fill& fill) {
  if (shards == 0 || shards > samples) {
    throw std::invalid_argument("leat: " + std::to_string(samples) +
                                " samples cannot be written as " + std::to_string(shards) +
                                " shards; each has at least one");
  }
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    throw Error("leat: cannot make the directory " + directory.string() + ": " + error.message() +
                "; check its path");
  }
  std::vector<fs::path> files;
  std::uint64_t first = 0;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    const std::uint64_t count = samples / shards + (shard < samples % shards ? 1 : 0);
    files.push_back(directory / name(shard));
    Output out(files.back());
    fill(out, shard, first, count);
    out.finish();
    first += count;
  }
  return files;
}

std::string numbered(const char* what, std::size_t shard) {
  const std::string digits = std::to_string(shard);
  return what + std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits + ".bin";
}

template <class Token>
void write_shard_of_tokens(Output& out, const SyntheticTokens& what, std::size_t shard,
                           std::uint64_t count) {
  std::vector<Token> block(1 << 14);
  for (std::uint64_t position = 0; position < count;) {
    const auto length =
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), count - position));
    for (std::size_t i = 0; i < length; ++i) {
      block[i] =
          static_cast<Token>(synthetic_token(what.seed, shard, position + i, what.vocabulary));
    }
    out.write(std::as_bytes(std::span(block).first(length)));
    position += length;
  }
}

}  // namespace

void synthetic_bytes(std::uint64_t seed, std::uint64_t index, std::span<std::byte> out) noexcept {
  Random random(seed, 0, index);
  while (!out.empty()) {
    const std::uint64_t bits = random();
    const std::size_t length = std::min(out.size(), sizeof bits);
    std::memcpy(out.data(), &bits, length);
    out = out.subspan(length);
  }
}

std::uint32_t synthetic_label(std::uint64_t seed, std::uint64_t index,
                              std::uint32_t classes) noexcept {
  return static_cast<std::uint32_t>(Random(seed, 1, index).below(classes));
}

std::uint32_t synthetic_token(std::uint64_t seed, std::uint64_t shard, std::uint64_t position,
                              std::uint32_t vocabulary) noexcept {
  // As Random, but in fewer steps, because there are many tokens.
  const std::uint64_t bits = mix(mix(seed + kRandomStep) + (shard << 40) + position);
  return static_cast<std::uint32_t>(((bits >> 32) * vocabulary) >> 32);
}

std::vector<fs::path> write_records(const fs::path& directory, const SyntheticRecords& what) {
  if (what.record_bytes == 0) throw std::invalid_argument("leat: record_bytes is at least 1");
  return write_shards(
      directory, what.samples, what.shards,
      [](std::size_t shard) { return numbered("records_", shard); },
      [&](Output& out, std::size_t, std::uint64_t first, std::uint64_t count) {
        out.write(std::vector<std::byte>(what.header_bytes));
        std::vector<std::byte> record(what.record_bytes);
        for (std::uint64_t i = first; i < first + count; ++i) {
          synthetic_bytes(what.seed, i, record);
          out.write(record);
        }
      });
}

std::vector<fs::path> write_cifar10(const fs::path& directory, const SyntheticCifar10& what) {
  return write_shards(
      directory, what.samples, what.shards,
      [](std::size_t shard) { return "data_batch_" + std::to_string(shard + 1) + ".bin"; },
      [&](Output& out, std::size_t, std::uint64_t first, std::uint64_t count) {
        std::vector<std::byte> record(std::size_t{1} + std::size_t{3} * 32 * 32);
        for (std::uint64_t i = first; i < first + count; ++i) {
          record[0] = static_cast<std::byte>(synthetic_label(what.seed, i, 10));
          synthetic_bytes(what.seed, i, std::span(record).subspan(1));
          out.write(record);
        }
      });
}

std::vector<fs::path> write_tokens(const fs::path& directory, const SyntheticTokens& what) {
  const bool is_small = what.token == DType::kUint16;
  if (!is_small && what.token != DType::kUint32) {
    throw std::invalid_argument(std::string("leat: tokens are uint16 or uint32, not ") +
                                to_string(what.token));
  }
  if (what.vocabulary == 0 || (is_small && what.vocabulary > 65'536)) {
    throw std::invalid_argument("leat: a vocabulary of " + std::to_string(what.vocabulary) +
                                " does not suit " + to_string(what.token) + " tokens");
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (what.header && what.shards != 0 && (what.tokens + what.shards - 1) / what.shards > kMost) {
    throw std::invalid_argument("leat: llm.c's header has room for " + std::to_string(kMost) +
                                " tokens a shard; take more shards");
  }
  return write_shards(
      directory, what.tokens, what.shards,
      [](std::size_t shard) { return numbered("tokens_", shard); },
      [&](Output& out, std::size_t shard, std::uint64_t, std::uint64_t count) {
        if (what.header) {
          std::array<std::uint32_t, 256> header{};
          header[0] = is_small ? 20240520 : 20240801;
          header[1] = is_small ? 1 : 7;
          header[2] = static_cast<std::uint32_t>(count);
          out.write(std::as_bytes(std::span(header)));
        }
        if (is_small) {
          write_shard_of_tokens<std::uint16_t>(out, what, shard, count);
        } else {
          write_shard_of_tokens<std::uint32_t>(out, what, shard, count);
        }
      });
}

}  // namespace leat::feeder
