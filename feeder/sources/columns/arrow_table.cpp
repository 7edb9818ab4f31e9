#include "leat/feeder/sources/columns/arrow_table.h"

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"

namespace leat::feeder {
namespace {

constexpr std::int64_t kMostChildren = 1'000'000;
constexpr int kMostLevels = 100;

// Returns what of a schema, or of one below it, cannot be; null if nothing.
const char* damage_of(const ArrowSchema& schema, int levels = 0) {
  if (levels > kMostLevels) return "too many types within types";
  if (schema.format == nullptr) return "a type without a format";
  if (schema.n_children < 0 || schema.n_children > kMostChildren)
    return "an impossible number of children";
  if (schema.n_children > 0 && schema.children == nullptr) return "a type without its children";
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    if (schema.children[i] == nullptr) return "a child that is null";
    if (const char* const damage = damage_of(*schema.children[i], levels + 1)) return damage;
  }
  return schema.dictionary == nullptr ? nullptr : damage_of(*schema.dictionary, levels + 1);
}

}  // namespace

ArrowTable::ArrowTable(ArrowArrayStream& stream) {
  if (stream.release == nullptr) {
    throw std::invalid_argument(
        "leat: the Arrow stream was used before: a stream can be read once; make a new one");
  }
  *stream_.get() = stream;
  stream.release = nullptr;
}

void ArrowTable::fetch(const std::string& name) {
  ArrowArrayStream* const stream = stream_.get();
  std::uint64_t rows = 0;
  const auto check = [&](int error, const std::string& what) {
    if (error == 0) return;
    const char* const text =
        stream->get_last_error == nullptr ? nullptr : stream->get_last_error(stream);
    throw Error(
        "leat: cannot read " + name + ": the Arrow stream failed at its " + what + ": " +
        (text == nullptr || *text == '\0' ? std::string(std::strerror(error)) : start_of(text)) +
        "; look into the program that makes it");
  };
  const auto refuse = [&](const std::string& damage) {
    throw Error("leat: cannot read " + name + ": its Arrow stream is damaged: " + damage +
                "; look into the program that makes it");
  };
  if (stream->get_schema == nullptr || stream->get_next == nullptr) refuse("a function is null");
  check(stream->get_schema(stream, schema_.get()), "schema");
  if (schema_.get()->release == nullptr) refuse("its schema was released");
  if (const char* const damage = damage_of(schema())) {
    refuse("its schema has " + std::string(damage));
  }
  for (;;) {
    ArrowOwner<ArrowArray> next;
    check(stream->get_next(stream, next.get()),
          "chunk " + std::to_string(arrays_.size()) + ", behind " + std::to_string(rows) + " rows");
    if (next.get()->release == nullptr) return;
    if (next.get()->length < 0 || next.get()->offset < 0) {
      refuse("chunk " + std::to_string(arrays_.size()) + " has a negative length or offset");
    }
    rows += static_cast<std::uint64_t>(next.get()->length);
    arrays_.push_back(std::move(next));
  }
}

}  // namespace leat::feeder
