// Texts between C++ and Python. Needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace leat::python {

/// The text as a str; bytes that are not UTF-8 become \xNN.
[[nodiscard]] nanobind::str to_str(std::string_view text);

/// str(object), as UTF-8; what UTF-8 cannot have becomes \uNNNN. Throws what str() raises.
[[nodiscard]] std::string to_text(nanobind::handle object);

}  // namespace leat::python
