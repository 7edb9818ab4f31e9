// What the benchmarks of feeding read: files whose contents follow from kSeed, as make_data writes
// them, so that what arrives can be checked against the generator.
//
// LEAT_FEED_DATA names the folder that has them (bench/suites/feed.py makes it, so that all
// programs read the same bytes); without it each program makes its own in memory, in /dev/shm or
// else the folder for temporary files, and removes it.
//
//   tokens/tokens_00000.bin     uint16, no header: nanoGPT's format
//   tokens_mix_16/0.bin ..      the same, cut by cut_tokens()
//   cifar10/data_batch_1.bin .. data_batch_5.bin
//   jpeg/*.tar                  images of 500 x 375; a sample's label is its number
//   jpeg_large/*.tar            of 1024 x 768
//   jpeg_folder/, png/, webp/   in a folder of LEAT_FEED_DATA alone
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "bench/data/synthetic.h"
#include "bench/data/synthetic_web.h"

namespace bench {

constexpr std::uint64_t kSeed = 1;
constexpr std::uint32_t kVocabulary = 50'257;

/// Writes one file of so many tokens.
inline void write_tokens(const std::filesystem::path& folder, std::uint64_t tokens) {
  leat::feeder::write_tokens(
      folder, {.tokens = tokens, .seed = kSeed, .header = false, .vocabulary = kVocabulary});
}
/// Writes five files of CIFAR-10's binary version.
inline void write_cifar10(const std::filesystem::path& folder, std::uint64_t samples) {
  leat::feeder::write_cifar10(folder, {.samples = samples, .seed = kSeed});
}
/// Writes four shards of JPEG images of one size.
inline void write_images(const std::filesystem::path& folder, std::uint64_t samples,
                         std::uint32_t width, std::uint32_t height) {
  std::filesystem::create_directories(folder);
  leat::feeder::write_synthetic_web(folder, {.samples = samples,
                                             .samples_per_shard = (samples + 3) / 4,
                                             .min_width = width,
                                             .max_width = width,
                                             .min_height = height,
                                             .max_height = height,
                                             .classes = 0,
                                             .seed = kSeed});
}

/// Whether it only has to be seen that the benchmarks work: little data, few repetitions.
inline bool is_quick() { return std::getenv("LEAT_FEED_QUICK") != nullptr; }

/// The folder; made on first use, by one thread.
class FeedData {
 public:
  /// One for the process.
  [[nodiscard]] static const FeedData& instance() {
    static const FeedData data;
    return data;
  }
  FeedData(const FeedData&) = delete;
  FeedData& operator=(const FeedData&) = delete;
  ~FeedData() {
    std::error_code ignored;
    if (is_own_) std::filesystem::remove_all(folder_, ignored);
  }

  [[nodiscard]] std::filesystem::path tokens() const { return folder_ / "tokens"; }
  [[nodiscard]] std::filesystem::path cifar10() const { return folder_ / "cifar10"; }
  /// `name`: jpeg, jpeg_large, ...
  [[nodiscard]] std::filesystem::path images(const char* name) const { return folder_ / name; }

 private:
  FeedData() {
    if (const char* const given = std::getenv("LEAT_FEED_DATA")) {
      folder_ = given;
      return;
    }
    const std::filesystem::path memory = "/dev/shm";
    const bool has_memory = access(memory.c_str(), W_OK) == 0;
    std::string name =
        ((has_memory ? memory : std::filesystem::temp_directory_path()) / "leat_feed_XXXXXX")
            .string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot make the folder " + name);
    }
    folder_ = name;
    is_own_ = true;
    write_tokens(tokens(), std::uint64_t{is_quick() ? 4U : 64U} << 20);
    write_cifar10(cifar10(), is_quick() ? 5'000 : 50'000);
    write_images(images("jpeg"), is_quick() ? 64 : 1024, 500, 375);
    write_images(images("jpeg_large"), is_quick() ? 32 : 256, 1024, 768);
  }

  std::filesystem::path folder_;
  bool is_own_ = false;
};

/// Cuts the file of tokens into `parts` that have, together, its windows of `length` tokens and one
/// for the last target. Returns their files, in the folder; those that are there already stay.
inline std::vector<std::filesystem::path> cut_tokens(std::size_t parts, std::size_t length) {
  const std::filesystem::path folder = FeedData::instance().tokens();
  const std::filesystem::path whole = folder / "tokens_00000.bin";
  const std::filesystem::path cut = folder.parent_path() / ("tokens_mix_" + std::to_string(parts));
  std::filesystem::create_directories(cut);
  std::ifstream in(whole, std::ios::binary);
  const std::size_t windows = (std::filesystem::file_size(whole) / 2 - 1) / length;
  std::vector<std::filesystem::path> files;
  for (std::size_t k = 0; k < parts; ++k) {
    const std::size_t first = windows * k / parts;
    std::string tokens(((windows * (k + 1) / parts - first) * length + 1) * 2, '\0');
    files.push_back(cut / (std::to_string(k) + ".bin"));
    if (std::filesystem::exists(files.back())) continue;
    in.seekg(static_cast<std::streamoff>(first * length * 2));
    in.read(tokens.data(), static_cast<std::streamsize>(tokens.size()));
    std::ofstream out(files.back(), std::ios::binary);
    out << tokens << std::flush;
    if (!in || !out) throw std::runtime_error("cannot cut " + files.back().string());
  }
  return files;
}

}  // namespace bench
