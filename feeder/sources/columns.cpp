// Members are destroyed in reverse order: guards, which look at memory, before the tables, which
// own it.
#include "leat/feeder/sources/columns.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/announce.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/columns/arrow_table.h"
#include "leat/feeder/sources/columns/column.h"
#include "leat/feeder/sources/shard_index.h"

namespace leat::feeder {

// The columns of all chunks of a table.
struct ColumnChunks {
  std::vector<Column> columns;
  ShardIndex index;
  std::vector<std::vector<std::size_t>> files;  // by chunk: numbers of mappings
};

namespace {

constexpr std::uint64_t kMostRows = std::uint64_t{1} << 48;  // of a chunk; no memory has more

// The columns' schemas: a stream of anything but structs has one.
std::span<ArrowSchema* const> columns_of_schema(const ArrowTable& table, ArrowSchema* const& only) {
  if (std::string_view(table.schema().format) != "+s") return {&only, 1};
  return {table.schema().children, static_cast<std::size_t>(table.schema().n_children)};
}

ColumnChunks column_chunks_of(const ArrowTable& table, const ColumnsOptions& options,
                              FileMappings& mappings) {
  ColumnChunks all;
  ArrowSchema only = table.schema();  // a view
  ArrowSchema* const whole = &only;
  const std::span<ArrowSchema* const> schemas = columns_of_schema(table, whole);
  const bool is_struct = schemas.data() != &whole;
  std::set<std::string> names;
  for (const ArrowSchema* const schema : schemas) {
    std::string name = schema->name == nullptr ? "" : schema->name;
    if (name.empty() && !is_struct) name = "values";
    if (!names.insert(name).second) {
      throw std::invalid_argument("leat: " + options.name + " has two columns of the name \"" +
                                  start_of(name) + "\"; rename one");
    }
    all.columns.emplace_back(ColumnType(*schema, std::move(name), options.name, options));
  }
  const auto check_names = [&](const auto& by_name, const char* option) {
    for (const auto& [name, value] : by_name) {
      if (names.contains(name)) continue;
      throw std::invalid_argument("leat: " + options.name + " has no column \"" + start_of(name) +
                                  "\", which the option " + option + " names");
    }
  };
  check_names(options.shapes, "shapes");
  check_names(options.fill, "fill");
  check_names(options.images, "images");
  for (const ArrowOwner<ArrowArray>& owner : table.arrays()) {
    const ArrowArray& array = *owner.get();
    const auto rows = static_cast<std::uint64_t>(array.length);
    const auto base = static_cast<std::uint64_t>(is_struct ? array.offset : 0);
    std::vector<std::size_t>& files = all.files.emplace_back();
    const std::string chunk = "leat: cannot read chunk " + std::to_string(all.files.size() - 1) +
                              " of " + options.name + ": ";
    if (is_struct && array.n_children != static_cast<std::int64_t>(schemas.size())) {
      throw Error(chunk + "it has " + std::to_string(array.n_children) +
                  " columns, and the schema " + std::to_string(schemas.size()) +
                  "; give chunks of one schema");
    }
    const bool has_children =
        !is_struct || schemas.empty() ||
        (array.children != nullptr &&
         std::ranges::none_of(std::span(array.children, schemas.size()),
                              [](const ArrowArray* child) { return child == nullptr; }));
    if (!has_children || array.n_buffers < 0 || (array.n_buffers > 0 && array.buffers == nullptr) ||
        static_cast<std::uint64_t>(array.offset) > kMostRows || rows > kMostRows) {
      throw Error(chunk +
                  "it does not fit the stream's schema; look into the program that makes the "
                  "stream");
    }
    if (is_struct && array.null_count != 0 && array.n_buffers > 0 && array.buffers[0] != nullptr) {
      throw Error(chunk + "it is made of structs that may be null; give a table's columns");
    }
    for (std::size_t c = 0; c < all.columns.size(); ++c) {
      all.columns[c].add(is_struct ? *array.children[c] : array, base, rows, all.index.size(),
                         mappings, files);
    }
    all.index.add(rows);
  }
  return all;
}

std::shared_ptr<ArrowTable> fetched_table(ArrowArrayStream& stream, const std::string& name) {
  auto table = std::make_shared<ArrowTable>(stream);
  table->fetch(name);
  return table;
}

}  // namespace

struct Columns::State {
  std::shared_ptr<const ArrowTable> table;
  std::shared_ptr<const ArrowTable> rows;  // null: all, in their order
  ColumnChunks chunks;
  ColumnChunks row_chunks;
  std::vector<std::unique_ptr<const GuardedRange>> guards;  // by the number of a mapping
  Blocking blocking = Blocking::kNever;

  void add_chunks(const ColumnsOptions& options, FileMappings& mappings);
  [[nodiscard]] bool has_lost(const std::vector<std::size_t>& files) const noexcept {
    return std::ranges::any_of(files, [&](std::size_t i) { return guards[i]->is_damaged(); });
  }
};

// Fetches nothing: looks at what `table` and `rows` have.
void Columns::State::add_chunks(const ColumnsOptions& options, FileMappings& mappings) {
  chunks = column_chunks_of(*table, options, mappings);
  if (chunks.columns.empty()) {
    throw std::invalid_argument("leat: " + options.name + " is a table without columns");
  }
  if (rows != nullptr) {
    row_chunks = column_chunks_of(*rows, {.name = "the rows of " + options.name}, mappings);
    const std::vector<Column>& columns = row_chunks.columns;
    if (columns.size() != 1 ||
        columns[0].field() != Field{columns[0].type().name, DType::kUint64, {}}) {
      throw std::invalid_argument("leat: the rows of " + options.name + " are no column of uint64");
    }
  }
  guards = mappings.guard();
}

struct Columns::Place {
  std::size_t chunk;
  std::uint64_t row;     // in the chunk
  std::uint64_t number;  // in the table
};

Columns::Columns(ArrowArrayStream& table, const ColumnsOptions& options)
    : Columns(fetched_table(table, options.name), nullptr, options) {}

Columns::Columns(std::shared_ptr<const ArrowTable> table, std::shared_ptr<const ArrowTable> rows,
                 const ColumnsOptions& options)
    : name_(options.name), state_(std::make_unique<State>()) {
  FileMappings mappings;
  state_->table = std::move(table);
  state_->rows = std::move(rows);
  const auto check = [&] {
    if (!mappings.has_lost()) return;
    throw Error("leat: cannot read " + name_ +
                ": a file that it is mapped from has lost bytes, because it was cut off or because "
                "of an I/O error; make the file again");
  };
  try {
    state_->add_chunks(options, mappings);
  } catch (const Error&) {
    check();  // the cause, if so
    throw;
  }
  check();
  for (const Column& column : state_->chunks.columns) {
    fields_.push_back(column.field());
    if (column.type().how == ColumnType::kImage) state_->blocking = Blocking::kSeldom;
  }
  if (std::ranges::any_of(state_->guards, [](const auto& guard) { return guard != nullptr; })) {
    state_->blocking = Blocking::kSeldom;
  }
}

Columns::~Columns() = default;

std::uint64_t Columns::size() const noexcept {
  return (state_->rows == nullptr ? state_->chunks : state_->row_chunks).index.size();
}

Blocking Columns::blocking() const noexcept { return state_->blocking; }

// The row of a sample. A file that has lost rows may say any number: one beyond the table.
Columns::Place Columns::place(std::uint64_t index) const {
  std::uint64_t number = index;
  if (state_->rows != nullptr) {
    const auto [chunk, row] = state_->row_chunks.index.find(index);
    std::memcpy(&number, state_->row_chunks.columns[0].values(chunk, row).data(), sizeof number);
    if (state_->has_lost(state_->row_chunks.files[chunk])) number = state_->chunks.index.size();
  }
  const auto [chunk, row] = state_->chunks.index.find(number);
  return {chunk, row, number};
}

void Columns::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  const auto [chunk, row, number] = place(index);
  if (number >= state_->chunks.index.size()) {
    throw Error("leat: sample " + std::to_string(index) + " of " + name_ + " is row " +
                std::to_string(number) + " of a table that has " +
                std::to_string(state_->chunks.index.size()) +
                "; make the rows again, and do not change files that are in use");
  }
  const std::vector<std::size_t>& files = state_->chunks.files[chunk];
  const auto check = [&, chunk = chunk, number = number] {
    if (!state_->has_lost(files)) return;
    throw Error(
        "leat: cannot read row " + std::to_string(number) + " of " + name_ +
        ": the file that chunk " + std::to_string(chunk) +
        " is mapped from has lost bytes, because it was cut off or because of an I/O error; "
        "do not change files that are in use");
  };
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    try {
      state_->chunks.columns[f].read(chunk, row, out, f);
    } catch (const Error&) {
      check();  // the cause, if so
      throw;
    }
  }
  check();
}

void Columns::will_read(std::uint64_t index, std::uint64_t /*seed*/,
                        std::uint64_t /*epoch*/) const noexcept {
  const auto [chunk, row, number] = place(index);
  if (number >= state_->chunks.index.size()) return;
  for (const Column& column : state_->chunks.columns) {
    __builtin_prefetch(column.first_touched(chunk, row));
  }
}

std::uint64_t Columns::announce(std::uint64_t index, std::uint64_t /*seed*/,
                                std::uint64_t /*epoch*/) const noexcept {
  const auto [chunk, row, number] = place(index);
  if (number >= state_->chunks.index.size() || state_->chunks.files[chunk].empty()) return 0;
  std::uint64_t sum = 0;
  for (const Column& column : state_->chunks.columns) {
    try {
      const std::span<const std::byte> bytes = column.values(chunk, row);
      if (!bytes.empty() && announce_mapped(bytes)) sum += bytes.size();
    } catch (const Error&) {  // the read that follows reports it
    }
  }
  return sum;
}

std::optional<std::size_t> Columns::length(std::uint64_t index, std::size_t field) const {
  if (field >= fields_.size() || !fields_[field].variable_length) return std::nullopt;
  check_index(*this, index);
  const auto [chunk, row, number] = place(index);
  if (number >= state_->chunks.index.size()) return std::nullopt;
  return state_->chunks.columns[field].length(chunk, row);
}

std::span<const std::string> Columns::categories(std::size_t field) const {
  return state_->chunks.columns.at(field).categories();
}

}  // namespace leat::feeder
