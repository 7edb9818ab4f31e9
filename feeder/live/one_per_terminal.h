// Whose a terminal is, of all that draw on terminals in this process.
#pragma once

namespace leat::feeder {

/// The right to draw on the terminal that `fd` is: that of the first to have asked for it, until it
/// is destroyed. Not thread-safe, but any number of them on any threads are.
class OnePerTerminal {
 public:
  explicit OnePerTerminal(int fd) noexcept : fd_(fd) {}
  ~OnePerTerminal();
  OnePerTerminal(const OnePerTerminal&) = delete;
  OnePerTerminal& operator=(const OnePerTerminal&) = delete;

  /// Asks for it; false while another one has it. On what fstat(2) knows nothing of, true.
  [[nodiscard]] bool take();

 private:
  const int fd_;
  bool has_it_ = false;
};

}  // namespace leat::feeder
