// The arguments of a call, by name, with errors that name them. It is for constructors with many
// options: they are a table, a line each, instead of a signature.
//
// Example
//   module.def("f", [](const nb::args& args, const nb::kwargs& kwargs) {
//     Arguments given("f", {"files"}, args, kwargs);   // files may be given by position
//     given.require({"files"});
//     const feeder::FilePatterns files = given.files("files");
//     Options options;
//     given.read("stride", options.stride);
//     given.read("fit", options.fit, kFits);
//     given.end();                                     // refuses what is left
//     ...
//
// None stands for an argument that is not given.
//
// Errors: TypeError for a type, an argument too many, or a missing one; ValueError for a value.
// Threads: needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/sources/files.h"

namespace leat::python {

/// A value of an enumeration, and its name in Python.
template <class Enum>
struct Choice {
  const char* name;
  Enum value;
};

/// The names of `choices`, for messages: "drop", "pad".
template <class Choices>
[[nodiscard]] std::string names_of(const Choices& choices) {
  std::string names;
  for (const auto& one : choices) {
    names.append(names.empty() ? "\"" : ", \"").append(one.name).append("\"");
  }
  return names;
}

/// The name of `value` in a table of choices.
template <class Choices, class Enum>
[[nodiscard]] const char* name_in(const Choices& choices, Enum value) {
  for (const auto& one : choices) {
    if (one.value == value) return one.name;
  }
  return "?";
}

/// The element types.
[[nodiscard]] const std::vector<Choice<feeder::DType>>& dtypes();

/// The arguments of one call.
class Arguments {
 public:
  /// `function` is for messages. `positional` names the arguments that may be given by position.
  /// Throws TypeError for too many, and for one that is given twice.
  Arguments(const char* function, std::initializer_list<const char*> positional,
            const nanobind::args& args, const nanobind::kwargs& kwargs);

  /// Throws TypeError if one of the arguments is not given.
  void require(std::initializer_list<const char*> names) const;
  /// Whether the argument is given. Does not take it.
  [[nodiscard]] bool has(const char* name) const;
  /// The argument; invalid if it is not given.
  [[nodiscard]] nanobind::object take(const char* name);
  /// Throws TypeError for the first argument that nobody has taken; it lists those that exist.
  void end() const;

  /// Each of these sets `value` if the argument is given. bool is no int.
  template <class Int>
    requires std::is_integral_v<Int>
  void read(const char* name, Int& value) {
    using Limits = std::numeric_limits<Int>;
    if (const nanobind::object given = take(name))
      value = static_cast<Int>(integer(given, name, static_cast<std::int64_t>(Limits::min()),
                                       static_cast<std::uint64_t>(Limits::max())));
  }
  void read(const char* name, bool& value);
  void read(const char* name, double& value);
  void read(const char* name, std::array<double, 2>& value);
  void read(const char* name, std::string& value);
  void read(const char* name, std::vector<std::string>& value);  // or one str
  void read(const char* name, std::vector<std::int64_t>& value, std::int64_t least = 0);
  /// By "uint8" and so on, or by what has such a name: numpy.uint8, numpy.dtype("uint8").
  void read(const char* name, feeder::DType& value);
  /// By its name in a table of choices.
  template <class Enum, class Choices>
  void read(const char* name, Enum& value, const Choices& choices) {
    const nanobind::object given = take(name);
    if (!given) return;
    const std::string text = string(given, name);
    for (const auto& one : choices) {
      if (text == one.name) {
        value = one.value;
        return;
      }
    }
    bad_value(name, "one of " + names_of(choices), given);
  }

  /// A sequence of objects of a bound type. `wanted` names them.
  template <class T>
  void read(const char* name, std::vector<T>& values, const char* wanted) {
    const nanobind::object given = take(name);
    if (!given) return;
    if (!is_sequence(given)) bad_type(name, wanted, given);
    values.clear();
    for (const nanobind::handle one : given) {
      if (!nanobind::isinstance<T>(one)) bad_type(name, wanted, one);
      values.push_back(nanobind::cast<const T&>(one));
    }
  }

  /// An object of a bound type, which lives as long as the call. Required.
  template <class T>
  [[nodiscard]] const T& object(const char* name, const char* wanted) {
    const nanobind::object given = take(name);
    if (!nanobind::isinstance<T>(given)) bad_type(name, wanted, given);
    return nanobind::cast<const T&>(given);
  }

  /// The path of a file or a folder. Required.
  [[nodiscard]] std::filesystem::path path(const char* name);
  /// A pattern, or a sequence of patterns: each a str, bytes or a path. Required.
  [[nodiscard]] feeder::FilePatterns files(const char* name);

  /// Throws TypeError: "leat.f: NAME has to be WANTED, not GIVEN".
  [[noreturn]] void bad_type(const char* name, std::string_view wanted,
                             nanobind::handle given) const;
  /// Throws ValueError, with the same text.
  [[noreturn]] void bad_value(const char* name, std::string_view wanted,
                              nanobind::handle given) const;

 private:
  [[nodiscard]] std::string refusal(const char* name, std::string_view wanted,
                                    nanobind::handle given) const;
  [[nodiscard]] static bool is_sequence(nanobind::handle given);  // of other things than letters
  [[nodiscard]] std::uint64_t integer(nanobind::handle given, const char* name, std::int64_t least,
                                      std::uint64_t most) const;
  [[nodiscard]] double number(nanobind::handle given, const char* name) const;
  [[nodiscard]] std::string string(nanobind::handle given, const char* name) const;
  [[nodiscard]] std::string encoded(nanobind::handle given, const char* name) const;

  const char* function_;
  nanobind::dict given_;
  std::vector<const char*> asked_;
};

}  // namespace leat::python
