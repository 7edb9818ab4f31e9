// What the word MUTANT of a planted fault becomes. Included by planted copies of files alone:
// mutants.py.
#pragma once

#include <cstdlib>

/// Whether the fault of this number is switched on: the environment's LEAT_MUTANT names it. Costs a
/// load and a comparison. Thread-safe; may be called by static constructors.
inline bool leat_mutant(unsigned long number) noexcept {
  static const unsigned long active = [] {
    const char* const text = std::getenv("LEAT_MUTANT");
    return text == nullptr ? 0UL : std::strtoul(text, nullptr, 10);
  }();
  return active == number;
}
