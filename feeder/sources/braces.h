// Braces in patterns of files, as bash expands them (files.h says which).
#pragma once

#include <string>
#include <vector>

namespace leat::feeder {

/// Returns the names that a pattern stands for, as bash 5.2 expands the braces of a word that has
/// no quotes, no blanks and no $: a range of numbers or letters {1..9..2}, alternatives {a,b};
/// other braces stay as they are. A backslash makes the next character ordinary, and stays.
///
/// Throws leat::Error, with the pattern, for more than 1,000,000 names or 2^28 bytes of names, and
/// if the braces nest more than 64 deep or thousands of them have no comma and no range.
[[nodiscard]] std::vector<std::string> expand_braces(const std::string& pattern);

}  // namespace leat::feeder
