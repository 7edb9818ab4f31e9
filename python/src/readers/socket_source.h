// A batch source whose readers run Python code: worker processes, threads, or the caller of next().
//
// A reader is at the other end of a SOCK_SEQPACKET socket, and maps the slots, which are memfds.
// leat/readers/worker.py is what a reader does; the two files agree on these messages, which are
// little-endian:
//
//   main                                reader
//   kFill, keys in the slot, a memfd ──►
//                                    ◄── kGrow: the batch needs a larger slot
//   kGrown, a memfd                  ──►
//                                    ◄── kFilled, kFailed, kEnd
//
// A reader has up to requests() kFill, and answers them in their order. kDropped says that one is
// not wanted any more: it has no answer, or one that nobody hears.
//
// All else lies in the slot: the keys at its beginning; then the tensors, each at a multiple of 256
// bytes, and behind them the layout, the opaque bytes and the failures.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/batch_source.h"

namespace leat::python {

/// Asks readers by sockets. Thread-safe.
class SocketSource final : public feeder::BatchSource {
 public:
  /// `sockets`, one for each reader, are non-blocking; the source has copies of them. `bound`: each
  /// reader has batches of its own. `ordered`: is_ordered(). Throws std::system_error.
  SocketSource(std::string name, std::uint64_t size, std::uint64_t digest, bool bound,
               std::size_t requests, const std::vector<int>& sockets, bool ordered);
  ~SocketSource() override;

  void fill(feeder::BatchFill& batch) const override;
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  [[nodiscard]] std::uint64_t digest() const noexcept override { return digest_; }
  [[nodiscard]] bool is_ordered() const noexcept override { return ordered_; }
  [[nodiscard]] std::size_t requests() const noexcept override { return requests_; }
  [[nodiscard]] bool is_bound() const noexcept override { return bound_; }
  [[nodiscard]] bool has_ended(std::size_t reader, std::uint64_t pass) const noexcept override;
  [[nodiscard]] std::size_t readers() const noexcept { return readers_.size(); }

 private:
  struct Message;
  struct Answer;
  struct Reader;
  static void send(Reader& reader, const Message& message, int descriptor);
  static void ask(Reader& reader, Message& message, const feeder::BatchFill& batch);
  [[nodiscard]] static Answer receive(Reader& reader);
  [[nodiscard]] bool take(feeder::BatchFill& batch, Reader& reader, const Answer& answer,
                          Message& message) const;
  [[nodiscard]] static feeder::FilledBatch filled(Reader& reader, const Answer& answer,
                                                  std::span<const std::byte> slot);
  [[noreturn]] void fail_died(const Reader& reader, const feeder::BatchFill& batch,
                              const Answer& answer) const;

  const std::string name_;
  const std::uint64_t size_;
  const std::uint64_t digest_;
  const bool bound_;
  const bool ordered_;
  const std::size_t requests_;
  std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace leat::python
