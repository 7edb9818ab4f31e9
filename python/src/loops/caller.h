// The line of a program that asks for a batch, for messages.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "leat/python/batches/share.h"

namespace leat::python {

/// Finds the line. One for each loop: it remembers the code that asked last. With the GIL.
class Caller {
 public:
  /// The line of the program's innermost frame: its file is not in an installed package, the
  /// standard library or leat. With `for i, batch in tqdm(enumerate(feed))`, that line. If the
  /// program has no frame, the line of the innermost frame. Empty outside Python code.
  [[nodiscard]] Place place();
  /// For the garbage collector.
  int traverse(visitproc visit, void* arg) const;
  /// For the garbage collector.
  void clear() noexcept { code_.reset(); }

 private:
  nanobind::object code_;      // of the innermost frame, when it asked last
  std::string file_;           // its file
  bool is_installed_ = false;  // of that file
};

}  // namespace leat::python
