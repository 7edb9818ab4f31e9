#include "leat/feeder/sources/columns/arrow_table.h"

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"

namespace leat::feeder {

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
    const char* const text = stream->get_last_error(stream);
    throw Error(
        "leat: cannot read " + name + ": the Arrow stream failed at its " + what + ": " +
        (text == nullptr || *text == '\0' ? std::string(std::strerror(error)) : start_of(text)) +
        "; look into the program that makes it");
  };
  check(stream->get_schema(stream, schema_.get()), "schema");
  for (;;) {
    ArrowOwner<ArrowArray> next;
    check(stream->get_next(stream, next.get()),
          "chunk " + std::to_string(arrays_.size()) + ", behind " + std::to_string(rows) + " rows");
    if (next.get()->release == nullptr) return;
    rows += static_cast<std::uint64_t>(next.get()->length);
    arrays_.push_back(std::move(next));
  }
}

}  // namespace leat::feeder
