// Texts, those of errors above all, read as their user reads them.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace leat::support {

/// Fails the test unless the text has all of `parts`, a list in braces or any container of them.
template <class Parts = std::initializer_list<std::string_view>>
void expect_contains(std::string_view text, const Parts& parts) {
  for (const std::string_view part : parts) {
    EXPECT_NE(text.find(part), std::string_view::npos)
        << '"' << text << "\" lacks \"" << part << '"';
  }
}

/// Fails the test unless the text begins so.
inline void expect_begins(std::string_view text, std::string_view beginning) {
  EXPECT_EQ(text.substr(0, beginning.size()), beginning);
}

/// The text of the E that f() throws. Fails the test if there is none.
template <class E, class F>
std::string text_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// Fails the test unless f() throws an E whose text has all of `parts`.
template <class E, class F, class Parts = std::initializer_list<std::string_view>>
void expect_throws(F&& f, const Parts& parts) {
  expect_contains(text_of<E>(f), parts);
}

}  // namespace leat::support
