// Standard output that is not lost in silence: on a full disk, or where nobody opened it.
#pragma once

namespace mnist {

/// Throws std::system_error if stdout is closed. To be called before anything is opened: that would
/// get stdout's number, and then what is printed.
void require_output();

/// Writes out what was printed to stdout. Throws std::system_error, saying why, if that or an
/// earlier write failed. To be called wherever the reader should see what there is, and at the end:
/// what is left to exit() is written without a look at the result.
void flush_output();

}  // namespace mnist
