// The line of a program that asks for a batch, for messages.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "leat/python/batches/share.h"

namespace leat::python {

/// Finds the line. One for each loop: it remembers the code that asked last. With the GIL.
class Caller {
 public:
  /// The line of the innermost frame whose file is neither in an installed package nor in the
  /// standard library nor leat's: with `for i, batch in tqdm(enumerate(feed))`, that line. Of the
  /// innermost frame at all if there is no other. Empty outside Python code.
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
