#include "leat/python/calls/arguments.h"

#include "leat/python/calls/text.h"

namespace leat::python {
namespace nb = nanobind;

using feeder::DType;

namespace {

// repr(), or the type of an object whose repr() is long: an array is no part of a message.
std::string shown(nb::handle given) {
  std::string text = to_text(nb::repr(given));
  return text.size() <= 60 ? text : "a " + to_text(nb::repr(given.type()));
}

}  // namespace

const std::vector<Choice<DType>>& dtypes() {
  static const std::vector<Choice<DType>> all = [] {
    std::vector<Choice<DType>> choices;
    for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
      choices.push_back({feeder::to_string(static_cast<DType>(i)), static_cast<DType>(i)});
    }
    return choices;
  }();
  return all;
}

Arguments::Arguments(const char* function, std::initializer_list<const char*> positional,
                     const nb::args& args, const nb::kwargs& kwargs)
    : function_(function) {
  given_.update(kwargs);
  if (args.size() > positional.size()) {
    throw nb::type_error((std::string("leat.") + function + " takes " +
                          std::to_string(positional.size()) + " arguments by position, not " +
                          std::to_string(args.size()) + ": give the others by name")
                             .c_str());
  }
  const auto* name = positional.begin();
  for (const nb::handle given : args) {
    if (given_.contains(*name)) {
      throw nb::type_error(
          (std::string("leat.") + function + ": " + *name + " is given twice").c_str());
    }
    given_[*name++] = given;
  }
}

nb::object Arguments::take(const char* name) {
  asked_.push_back(name);
  if (!given_.contains(name)) return {};
  nb::object given = given_[name];
  nb::del(given_[name]);
  if (given.is_none()) return {};
  return given;
}

bool Arguments::has(const char* name) const {
  return given_.contains(name) && !given_[name].is_none();
}

void Arguments::require(std::initializer_list<const char*> names) const {
  for (const char* const name : names) {
    if (!has(name))
      throw nb::type_error((std::string("leat.") + function_ + " needs " + name).c_str());
  }
}

void Arguments::end() const {
  for (const auto& [name, given] : given_) {
    std::string known;
    for (const char* const one : asked_) known.append(known.empty() ? "" : ", ").append(one);
    throw nb::type_error((std::string("leat.") + function_ + " has no argument " + to_text(name) +
                          "; it has " + known)
                             .c_str());
  }
}

void Arguments::bad_type(const char* name, std::string_view wanted, nb::handle given) const {
  throw nb::type_error(refusal(name, wanted, given).c_str());
}

void Arguments::bad_value(const char* name, std::string_view wanted, nb::handle given) const {
  throw nb::value_error(refusal(name, wanted, given).c_str());
}

std::string Arguments::refusal(const char* name, std::string_view wanted, nb::handle given) const {
  return std::string("leat.")
      .append(function_)
      .append(": ")
      .append(name)
      .append(" has to be ")
      .append(wanted)
      .append(", not ")
      .append(shown(given));
}

bool Arguments::is_sequence(nb::handle given) {
  return PySequence_Check(given.ptr()) != 0 && !nb::isinstance<nb::str>(given) &&
         !nb::isinstance<nb::bytes>(given);
}

std::uint64_t Arguments::integer(nb::handle given, const char* name, std::int64_t least,
                                 std::uint64_t most) const {
  if (PyBool_Check(given.ptr()) || !PyIndex_Check(given.ptr())) bad_type(name, "an int", given);
  const nb::object value = nb::steal(PyNumber_Index(given.ptr()));
  if (!value) {  // an array has __index__, and raises if it has not one element
    PyErr_Clear();
    bad_type(name, "an int", given);
  }
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  const bool is_negative = overflow < 0 || (overflow == 0 && small < 0);
  const std::string range = "an int from " + std::to_string(least) + " to " + std::to_string(most);
  if (is_negative) {
    if (overflow < 0 || small < least) bad_value(name, range, given);
    return static_cast<std::uint64_t>(small);
  }
  const unsigned long long large = PyLong_AsUnsignedLongLong(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    bad_value(name, range, given);
  }
  if (large > most) bad_value(name, range, given);
  return large;
}

double Arguments::number(nb::handle given, const char* name) const {
  const double value = PyBool_Check(given.ptr()) ? -1 : PyFloat_AsDouble(given.ptr());
  if (PyBool_Check(given.ptr()) || PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    bad_type(name, "a float", given);
  }
  return value;
}

std::string Arguments::string(nb::handle given, const char* name) const {
  if (!nb::isinstance<nb::str>(given)) bad_type(name, "a str", given);
  return to_text(given);
}

// A path as the system has it.
std::string Arguments::encoded(nb::handle given, const char* name) const {
  PyObject* converted = nullptr;
  if (PyUnicode_FSConverter(given.ptr(), &converted) == 0) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    bad_type(name, "a str or a path", given);
  }
  const nb::bytes bytes = nb::steal<nb::bytes>(converted);
  return {bytes.c_str(), bytes.size()};
}

void Arguments::read(const char* name, bool& value) {
  const nb::object given = take(name);
  if (!given) return;
  if (!PyBool_Check(given.ptr())) bad_type(name, "a bool", given);
  value = given.is(nb::handle(Py_True));
}

void Arguments::read(const char* name, double& value) {
  if (const nb::object given = take(name)) value = number(given, name);
}

void Arguments::read(const char* name, std::array<double, 2>& value) {
  const nb::object given = take(name);
  if (!given) return;
  if (!is_sequence(given) || nb::len(given) != 2) {
    bad_type(name, "two floats", given);
  }
  value = {number(given[0], name), number(given[1], name)};
}

void Arguments::read(const char* name, std::string& value) {
  if (const nb::object given = take(name)) value = string(given, name);
}

void Arguments::read(const char* name, std::vector<std::string>& value) {
  const nb::object given = take(name);
  if (!given) return;
  value.clear();
  if (nb::isinstance<nb::str>(given)) {
    value.push_back(string(given, name));
    return;
  }
  if (!is_sequence(given)) bad_type(name, "a str or a sequence of them", given);
  for (const nb::handle one : given) value.push_back(string(one, name));
}

void Arguments::read(const char* name, std::vector<std::int64_t>& value, std::int64_t least) {
  const nb::object given = take(name);
  if (!given) return;
  if (!is_sequence(given)) bad_type(name, "a sequence of ints", given);
  value.clear();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const nb::handle one : given) {
    value.push_back(static_cast<std::int64_t>(integer(one, name, least, kMost)));
  }
}

void Arguments::read(const char* name, DType& value) {
  const nb::object given = take(name);
  if (!given) return;
  nb::object text = given;
  for (const char* const attribute : {"name", "__name__"}) {
    if (nb::hasattr(given, attribute) && !nb::isinstance<nb::str>(text))
      text = given.attr(attribute);
  }
  if (!nb::isinstance<nb::str>(text)) bad_type(name, "the name of a type of elements", given);
  const std::string wanted = to_text(text);
  for (const Choice<DType>& one : dtypes()) {
    if (wanted == one.name) {
      value = one.value;
      return;
    }
  }
  bad_value(name, "one of " + names_of(dtypes()), given);
}

std::filesystem::path Arguments::path(const char* name) { return encoded(take(name), name); }

feeder::FilePatterns Arguments::files(const char* name) {
  const nb::object given = take(name);
  if (!is_sequence(given)) return encoded(given, name);
  std::vector<std::string> patterns;
  for (const nb::handle one : given) patterns.push_back(encoded(one, name));
  return patterns;
}

}  // namespace leat::python
