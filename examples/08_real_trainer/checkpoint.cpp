#include "examples/08_real_trainer/checkpoint.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>

#include "leat/csp/error.h"

namespace trainer {
namespace {

// A line of text, the prefetcher's state as a line, Progress and the weights as they are in memory,
// and 8 bytes: a sum of all before.
constexpr std::string_view kTitle = "leat 08_real_trainer checkpoint 1\n";

std::string sum_of(std::string_view bytes) {  // FNV-1a
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (const char byte : bytes) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return {reinterpret_cast<const char*>(&sum), sizeof sum};
}

[[noreturn]] void fail(const std::string& file, const std::string& why) {
  throw leat::Error("checkpoint " + file + ": " + why);
}

}  // namespace

void save(const Checkpoint& checkpoint, const std::string& file) {
  std::string bytes(kTitle);
  bytes += checkpoint.feed + '\n';
  bytes.append(reinterpret_cast<const char*>(&checkpoint.progress), sizeof checkpoint.progress);
  bytes.append(reinterpret_cast<const char*>(checkpoint.weights.data()),
               checkpoint.weights.size() * sizeof(float));
  bytes += sum_of(bytes);

  const std::string draft = file + ".tmp";
  errno = 0;
  std::FILE* const out = std::fopen(draft.c_str(), "wb");
  bool ok = out != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size() &&
            std::fflush(out) == 0 && fsync(fileno(out)) == 0;
  int reason = errno;
  if (out != nullptr && std::fclose(out) != 0 && ok) {
    ok = false;
    reason = errno;
  }
  if (ok && std::rename(draft.c_str(), file.c_str()) != 0) {
    ok = false;
    reason = errno;
  }
  if (!ok) {
    static_cast<void>(std::remove(draft.c_str()));
    fail(file, std::string("cannot be written: ") + std::strerror(reason));
  }
}

Checkpoint load(const std::string& file, std::size_t weights) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string bytes;
  std::array<char, 65536> part;
  while (in.read(part.data(), part.size()) || in.gcount() > 0) {
    bytes.append(part.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (!in.is_open() || in.bad()) {
    fail(file, std::string("cannot be read: ") + std::strerror(errno != 0 ? errno : EIO));
  }
  if (!bytes.starts_with(kTitle)) fail(file, "it is none of this program");

  std::string_view rest = bytes;
  const std::size_t sum_at = bytes.size() - sizeof(std::uint64_t);
  const std::size_t state_end = bytes.find('\n', kTitle.size());
  const std::size_t size = sizeof(Progress) + weights * sizeof(float);
  if (sum_of(rest.substr(0, sum_at)) != rest.substr(sum_at) || state_end > sum_at ||
      sum_at - state_end - 1 != size) {
    fail(file, "it is damaged: its checksum is not that of its bytes; take an older one");
  }
  Checkpoint checkpoint;
  checkpoint.feed = bytes.substr(kTitle.size(), state_end - kTitle.size());
  rest.remove_prefix(state_end + 1);
  std::memcpy(&checkpoint.progress, rest.data(), sizeof(Progress));
  checkpoint.weights.resize(weights);
  std::memcpy(checkpoint.weights.data(), rest.data() + sizeof(Progress), weights * sizeof(float));
  return checkpoint;
}

}  // namespace trainer
