#include "bench/data/synthetic_web.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "leat/csp/error.h"
#include "leat/feeder/random.h"
#include "leat/feeder/sources/checks.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kLongestName = 100;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A pax record starts with its own length, which depends on the number of digits of that length.
std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size();
  while (std::to_string(length).size() + rest.size() != length) {
    length = std::to_string(length).size() + rest.size();
  }
  return std::to_string(length) + rest;
}

std::string digits(std::uint64_t number, int count) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%0*llu", count, static_cast<unsigned long long>(number));
  return text.data();
}

}  // namespace

TarWriter::TarWriter(const std::filesystem::path& file, LongNames long_names)
    : file_(file), long_names_(long_names), out_(file, std::ios::binary) {
  if (!out_) {
    throw Error("leat: cannot write " + file.string() + ": " + std::strerror(errno) +
                "; check that its directory is there and may be written to");
  }
}

void TarWriter::write_member(const std::string& name, char type, std::span<const std::byte> data) {
  std::array<char, kTarBlock> header{};
  const auto put = [&header](std::size_t at, const std::string& text) {
    std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  std::array<char, 13> octal{};
  std::snprintf(octal.data(), octal.size(), "%011llo",
                static_cast<unsigned long long>(data.size()));
  put(0, name.substr(0, kLongestName));
  put(100, "0000644");  // mode; owner and group: nobody's
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal.data());
  put(136, "00000000000");  // time
  put(148, "        ");
  header[156] = type;
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  std::snprintf(octal.data(), octal.size(), "%06o", sum);
  std::copy_n(octal.begin(), 7, header.begin() + 148);  // with the 0 byte, before the last space
  out_.write(header.data(), static_cast<std::streamsize>(kTarBlock));
  out_.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  constexpr std::array<char, kTarBlock> kZeros{};
  out_.write(kZeros.data(),
             static_cast<std::streamsize>((kTarBlock - data.size() % kTarBlock) % kTarBlock));
}

void TarWriter::add(const std::string& name, std::span<const std::byte> data) {
  if (name.size() > kLongestName) {
    if (long_names_ == kPax) {
      write_member("PaxHeaders/long", 'x', bytes_of(pax_record("path", name)));
    } else {
      write_member("././@LongLink", 'L', bytes_of(name + '\0'));
    }
  }
  write_member(name, '0', data);
}

void TarWriter::add(const std::string& name, const std::string& data) { add(name, bytes_of(data)); }

void TarWriter::finish() {
  constexpr std::array<char, 2 * kTarBlock> kEnd{};
  out_.write(kEnd.data(), static_cast<std::streamsize>(kEnd.size()));
  out_.close();
  if (!out_) {
    throw Error("leat: cannot write " + file_.string() + ": " + std::strerror(errno) +
                "; check that there is room for it");
  }
}

SyntheticSample synthetic_sample(const SyntheticWebOptions& options, std::uint64_t index) {
  Random random(options.seed, 1, index);
  const auto between = [&random](std::uint32_t least, std::uint32_t most) {
    return least + static_cast<std::uint32_t>(random.below(std::uint64_t{most} - least + 1));
  };
  SyntheticSample sample;
  sample.key = digits(index, 10);
  sample.width = between(options.min_width, options.max_width);
  sample.height = between(options.min_height, options.max_height);
  sample.label =
      static_cast<std::int64_t>(options.classes == 0 ? index : random.below(options.classes));
  sample.jpeg = encode_jpeg(synthetic_image(options.seed, index, sample.width, sample.height),
                            sample.width, sample.height, options.encoding);
  sample.json = R"({"index": )" + std::to_string(index) + R"(, "width": )" +
                std::to_string(sample.width) + R"(, "height": )" + std::to_string(sample.height) +
                "}";
  return sample;
}

std::vector<std::filesystem::path> write_synthetic_web(const std::filesystem::path& directory,
                                                       const SyntheticWebOptions& options) {
  std::vector<std::filesystem::path> shards;
  const std::uint64_t step = std::max<std::uint64_t>(options.samples_per_shard, 1);
  for (std::uint64_t first = 0; first < options.samples; first += step) {
    shards.push_back(directory / ("synthetic-" + digits(shards.size(), 6) + ".tar"));
    TarWriter tar(shards.back());
    for (std::uint64_t i = first; i < std::min(first + step, options.samples); ++i) {
      const SyntheticSample sample = synthetic_sample(options, i);
      tar.add(sample.key + ".jpg", sample.jpeg);
      tar.add(sample.key + ".cls", std::to_string(sample.label));
      tar.add(sample.key + ".json", sample.json);
    }
    tar.finish();
  }
  return shards;
}

}  // namespace leat::feeder
