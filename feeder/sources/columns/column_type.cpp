#include "leat/feeder/sources/columns/column_type.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/columns/fill.h"

namespace leat::feeder {
namespace {

constexpr const char* kCastColumn = "cast it to another type, or leave it out";
constexpr std::uint64_t kMostRowValues = std::uint64_t{1} << 40;  // of a row; no memory has more

std::uint64_t product_of(std::span<const std::int64_t> extents) {
  std::uint64_t all = 1;
  for (const std::int64_t one : extents) all *= static_cast<std::uint64_t>(one);
  return all;
}

}  // namespace

void ColumnType::refuse(const std::string& problem, const std::string& advice) const {
  throw Error("leat: cannot read column \"" + start_of(name) + "\" of " + table + ": " + problem +
              "; " + advice);
}

ColumnType::ColumnType(const ArrowSchema& schema, std::string name_of, std::string table_of,
                       const ColumnsOptions& options)
    : name(std::move(name_of)), table(std::move(table_of)) {
  const ArrowSchema* bytes = &schema;
  if (arrow_type(schema.format).kind == ArrowType::kStruct) {
    const std::span children(schema.children, static_cast<std::size_t>(schema.n_children));
    const auto found = std::ranges::find_if(children, [](const ArrowSchema* one) {
      return one->name != nullptr && std::string_view(one->name) == "bytes" &&
             is_bytes(arrow_type(one->format));
    });
    if (found == children.end()) {
      refuse("its type, " + arrow_type_name(schema.format) +
                 ", is no field; of structs, {bytes, path} is one, as an image",
             "make columns of its members, or leave it out");
    }
    child = static_cast<std::size_t>(found - children.begin());
    bytes = *found;
  }
  const auto decoded = options.images.find(name);
  if (child || decoded != options.images.end()) {
    if (decoded != options.images.end()) image = decoded->second;
    how = kImage;
    leaf = arrow_type(bytes->format);
    is_wide = leaf.is_wide;
    if (!is_bytes(leaf) || bytes->dictionary != nullptr) {
      refuse("images are binary, and its type is " + arrow_type_name(bytes->format),
             "leave it out of the images");
    }
    shape = image_field(name, image).shape;
  } else {
    const auto wanted = options.shapes.find(name);
    plan(schema, wanted == options.shapes.end() ? std::vector<std::int64_t>() : wanted->second);
  }
  const auto filled = options.fill.find(name);
  if (filled == options.fill.end()) return;
  if (how == kImage) refuse("there is no fill for an image", "leave out the rows that are null");
  fill = encode_fill(filled->second, leaf.dtype, name);
}

void ColumnType::plan(const ArrowSchema& schema, std::span<const std::int64_t> wanted) {
  leaf = arrow_type(schema.format);
  std::uint64_t values = 1;
  for (const std::int64_t extent : wanted) {
    if (extent < 1 || values > kMostRowValues / static_cast<std::uint64_t>(extent)) {
      throw std::invalid_argument("leat: the shape of column \"" + name +
                                  "\" has an extent below 1, or too many values");
    }
    values *= static_cast<std::uint64_t>(extent);
  }
  if (schema.dictionary != nullptr) {
    how = kCodes;
    dictionary.emplace_back(*schema.dictionary, name, "the dictionaries of " + table,
                            ColumnsOptions{});
    const ColumnType& of = dictionary.front();
    if (leaf.kind != ArrowType::kNumbers || leaf.dtype > DType::kUint64) {
      refuse("the codes of its dictionary have the type " + arrow_type_name(schema.format) +
                 ", which is no integer",
             "look into the program that makes the stream");
    }
    if (of.leaf.kind == ArrowType::kBits) refuse("its dictionary has bools", "cast it to bool");
    if (of.how != kBytes && (of.how != kFixed || !of.shape.empty())) {
      refuse("its dictionary has values of the type " + arrow_type_name(schema.dictionary->format),
             "decode the dictionary, or leave the column out");
    }
  } else if (is_bytes(leaf)) {
    how = kBytes;
    is_wide = leaf.is_wide;
  } else {
    plan_levels(schema, wanted);
  }
  if (leaf.kind == ArrowType::kNumbers) width = size_of(leaf.dtype);
  if (wanted.empty()) return;
  if (how != kFixed || shape.empty() || product_of(shape) != values) {
    throw std::invalid_argument("leat: the shape of column \"" + name + "\" has " +
                                std::to_string(values) + " values, but a row of its type, " +
                                arrow_type_name(schema.format) + ", has " +
                                (how == kFixed ? std::to_string(product_of(shape)) : "no lists"));
  }
  shape.assign(wanted.begin(), wanted.end());
}

// Adds the levels of lists, and finds the values' type.
void ColumnType::plan_levels(const ArrowSchema& schema, std::span<const std::int64_t> wanted) {
  const bool is_shaped = !wanted.empty();
  for (const ArrowSchema* at = &schema;; at = at->children[0]) {
    leaf = arrow_type(at->format);
    if (at != &schema && at->dictionary != nullptr) refuse("it has lists of codes", kCastColumn);
    if (leaf.kind == ArrowType::kNumbers || leaf.kind == ArrowType::kBits) return;
    if (leaf.kind == ArrowType::kList && wanted.empty()) {
      if (is_shaped || at != &schema) {
        refuse("its type has lists of variable length, " + arrow_type_name(at->format) +
                   ", within lists",
               "if all rows have one shape, say which by the option shapes; else leave it out");
      }
      how = kList;
      is_wide = leaf.is_wide;
    } else if (leaf.kind == ArrowType::kList || leaf.kind == ArrowType::kFixedList ||
               leaf.kind == ArrowType::kFixedBytes) {
      if (leaf.kind == ArrowType::kList) leaf.extent = wanted[0];
      if (leaf.extent < 1 ||
          product_of(shape) > kMostRowValues / static_cast<std::uint64_t>(leaf.extent)) {
        refuse("its type, " + arrow_type_name(at->format) + ", has no values, or too many",
               kCastColumn);
      }
      if (!wanted.empty() && wanted[0] == leaf.extent) wanted = wanted.subspan(1);
      shape.push_back(leaf.extent);
      if (leaf.kind == ArrowType::kFixedBytes) return;
      levels.push_back({leaf, static_cast<std::uint64_t>(leaf.extent)});
    } else {
      refuse((at == &schema ? "its type, " : "it has lists of the type ") +
                 arrow_type_name(at->format) + (at == &schema ? "," : ", which") + " is no field",
             kCastColumn);
    }
    if (at->n_children != 1) refuse("its schema is damaged: a list without a type", kCastColumn);
  }
}

}  // namespace leat::feeder
