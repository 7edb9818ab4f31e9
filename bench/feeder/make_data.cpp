// Writes files that benchmarks read, as bench/feeder/feed_data.h describes them:
//
//   make_data tokens FOLDER TOKENS
//   make_data cifar10 FOLDER SAMPLES
//   make_data webdataset FOLDER SAMPLES WIDTH HEIGHT

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/feeder/feed_data.h"

int main(int argc, char** argv) {
  try {
    std::vector<std::uint64_t> numbers;
    for (int i = 3; i < argc; ++i) numbers.push_back(std::stoull(argv[i]));
    const std::string_view format = argc > 2 ? argv[1] : "";
    if (format == "tokens" && numbers.size() == 1) {
      bench::write_tokens(argv[2], numbers[0]);
    } else if (format == "cifar10" && numbers.size() == 1) {
      bench::write_cifar10(argv[2], numbers[0]);
    } else if (format == "webdataset" && numbers.size() == 3) {
      bench::write_images(argv[2], numbers[0], static_cast<std::uint32_t>(numbers[1]),
                          static_cast<std::uint32_t>(numbers[2]));
    } else {
      throw std::invalid_argument("see the head of bench/feeder/make_data.cpp for the arguments");
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_data: %s\n", error.what());
    return 2;
  }
}
