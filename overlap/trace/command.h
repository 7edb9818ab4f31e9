// leat-overlap trace: the subcommand.
#pragma once

#include <memory>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 names it
class App;
}  // namespace CLI

namespace overlap::trace {

/// The subcommand's arguments, and what it does.
class Command {
 public:
  Command();
  ~Command();

  /// Declares the subcommand, whose arguments are put here.
  void declare(CLI::App& app);
  /// Returns whether the arguments asked for it.
  [[nodiscard]] bool is_asked() const;
  /// Reads the traces and writes the reports. Returns the exit status: 0; 1: a --fail-if holds; 2:
  /// the arguments are wrong; 3: a file cannot be read or written. Throws nothing.
  [[nodiscard]] int run(int argc, const char* const* argv) noexcept;

 private:
  struct Arguments;
  std::unique_ptr<Arguments> given_;
};

}  // namespace overlap::trace
