#include "leat/overlap/trace/readers/sqlite.h"

#include <sqlite3.h>

#include <array>
#include <system_error>
#include <utility>

#include "leat/overlap/trace/readers/bytes.h"

namespace overlap::trace {
namespace {

constexpr int kMostText = 16 << 20;  // bytes of a text or a row
constexpr int kMostSql = 1 << 20;    // of a CREATE TABLE in the file
constexpr int kStepsAtOnce = 1000;

// The bytes of the UTF-8 character at the beginning; 0 if there is none, or a control character.
std::size_t character(std::string_view text) {
  const auto at = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = at(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0U) != 0x80) return 0;
  }
  // Too long for what it says, a half of UTF-16's pairs, beyond Unicode.
  const unsigned second = at(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;
  return length;
}

// A path as SQLite's URI, where ?, # and % mean something.
std::string uri(const std::filesystem::path& file) {
  std::string text = "file://";
  for (const char c : std::filesystem::absolute(file).string()) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '/' || c == '.' || c == '-' || c == '_';
    if (is_plain) {
      text += c;
      continue;
    }
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    ((text += '%') += kDigits[byte >> 4U]) += kDigits[byte & 15U];
  }
  return text + "?mode=ro&immutable=1";
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  text = text.substr(0, most);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character(text);
    if (length == 0) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

void Database::Close::operator()(sqlite3* database) const noexcept { sqlite3_close(database); }
void Database::Close::operator()(sqlite3_stmt* statement) const noexcept {
  sqlite3_finalize(statement);
}

Database::Database(const std::filesystem::path& file) : file_(printable(file.string(), 4096)) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error) fail("cannot be read: " + error.message());
  // UTF-16 becomes longer by at most a half. A row has 6 bytes or more, and takes no more steps
  // than it has columns here, and a few.
  left_ = 2 * size;
  steps_ = size / 100 + 1000;
  sqlite3* handle = nullptr;
  const int opened = sqlite3_open_v2(
      uri(file).c_str(), &handle,
      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
      nullptr);
  handle_.reset(handle);
  if (handle == nullptr) fail("no memory for it");
  if (opened != SQLITE_OK) fail();
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, kMostText);
  sqlite3_limit(handle, SQLITE_LIMIT_SQL_LENGTH, kMostSql);
  sqlite3_limit(handle, SQLITE_LIMIT_EXPR_DEPTH, 100);
  sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(handle, SQLITE_LIMIT_WORKER_THREADS, 0);
  sqlite3_progress_handler(handle, kStepsAtOnce, &Database::ask, this);
  constexpr std::array<std::pair<int, int>, 7> kSettings = {
      {{SQLITE_DBCONFIG_DEFENSIVE, 1},
       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
       {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
       {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
       {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
       {SQLITE_DBCONFIG_DQS_DML, 0},
       {SQLITE_DBCONFIG_DQS_DDL, 0}}};
  for (const auto& [setting, value] : kSettings) {
    if (sqlite3_db_config(handle, setting, value, nullptr) != SQLITE_OK) fail();
  }
  // A file that shrinks while it is mapped would end the program.
  if (sqlite3_exec(handle,
                   "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;",
                   nullptr, nullptr, nullptr) != SQLITE_OK) {
    fail();
  }
}

int Database::ask(void* of) noexcept {
  std::uint64_t& steps = static_cast<Database*>(of)->steps_;
  if (steps == 0) return 1;
  --steps;
  return 0;
}

Database::Statement Database::prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) fail();
  return Statement(statement);
}

bool Database::step(const Statement& statement) {
  const int result = sqlite3_step(statement.get());
  if (result != SQLITE_ROW && result != SQLITE_DONE) fail();
  return result == SQLITE_ROW;
}

void Database::fail() {
  const int code = sqlite3_errcode(handle_.get());
  if (code == SQLITE_INTERRUPT) fail_damaged("more is in it than fits");
  const std::string what =
      std::string("SQLite says: ") + printable(sqlite3_errmsg(handle_.get()), 400);
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) fail_damaged(what);
  const int error = sqlite3_system_errno(handle_.get());
  fail(what + (error == 0 ? "" : " (" + std::generic_category().message(error) + ")"));
}

void Database::fail(const std::string& what) const { throw Unreadable(file_ + ": " + what); }

void Database::fail_damaged(const std::string& what) const {
  fail("is damaged: " + what + "; export it again: nsys export --type sqlite");
}

void Database::spend(std::size_t bytes) {
  if (bytes > left_) fail_damaged("more is in it than fits");
  left_ -= bytes;
}

Rows::Rows(Database& of, const char* table, std::vector<Column> columns)
    : of_(of), table_(table), columns_(std::move(columns)), has_(columns_.size()) {
  if (!find()) return;
  const auto described = of_.prepare(std::string("PRAGMA table_xinfo(\"") + table_ + "\")");
  while (of_.step(described)) {
    if (sqlite3_column_int(described.get(), 6) != 0) {
      of_.fail(std::string("table ") + table_ +
               " has computed columns; Nsight Systems writes none, and they are not read");
    }
    const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(described.get(), 1));
    for (std::size_t i = 0; name != nullptr && i < columns_.size(); ++i) {
      if (sqlite3_stricmp(name, columns_[i].name) == 0) has_[i] = true;
    }
  }
  std::string sql = "SELECT ";
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].is_needed) need(i);
    sql += has_[i] ? std::string("\"") + columns_[i].name + "\", " : "NULL, ";
  }
  statement_ = of_.prepare(sql + "_rowid_ FROM \"" + table_ + "\" NOT INDEXED");
}

void Rows::need(std::size_t column) const {
  if (has_[column]) return;
  of_.fail(std::string("table ") + table_ + " has no column " + columns_[column].name +
           "; is it an export of Nsight Systems?");
}

bool Rows::find() {
  const auto found = of_.prepare(
      "SELECT type, rootpage FROM sqlite_master "
      "WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')");
  if (sqlite3_bind_text(found.get(), 1, table_, -1, SQLITE_STATIC) != SQLITE_OK) of_.fail();
  if (!of_.step(found)) return false;
  const auto* type = reinterpret_cast<const char*>(sqlite3_column_text(found.get(), 0));
  const bool is_view = type == nullptr || std::string_view(type) != "table";
  if (is_view || sqlite3_column_int64(found.get(), 1) <= 0) {
    of_.fail(std::string(table_) + " is a " + (is_view ? "view" : "virtual table") +
             "; Nsight Systems writes tables, and nothing else is read");
  }
  return true;
}

bool Rows::next() {
  if (!is_there() || !of_.step(statement_)) return false;
  const auto id = sqlite3_column_int64(statement_.get(), static_cast<int>(columns_.size()));
  // A page that several pages lead to would be read as often.
  if (row_ > 0 && id <= id_) of_.fail_damaged(std::string("table ") + table_ + " repeats rows");
  id_ = id;
  ++row_;
  return true;
}

std::optional<std::int64_t> Rows::integer(std::size_t column) {
  const int type = sqlite3_column_type(statement_.get(), static_cast<int>(column));
  if (type == SQLITE_NULL) return std::nullopt;
  if (type != SQLITE_INTEGER) wrong(column, "an integer");
  return sqlite3_column_int64(statement_.get(), static_cast<int>(column));
}

std::int64_t Rows::number(std::size_t column) {
  const std::optional<std::int64_t> value = integer(column);
  if (!value) wrong(column, "an integer");
  return *value;
}

std::optional<std::string_view> Rows::text(std::size_t column) {
  const int type = sqlite3_column_type(statement_.get(), static_cast<int>(column));
  if (type == SQLITE_NULL) return std::nullopt;
  if (type != SQLITE_TEXT) wrong(column, "text");
  const auto* text = reinterpret_cast<const char*>(
      sqlite3_column_text(statement_.get(), static_cast<int>(column)));
  if (text == nullptr) of_.fail();  // no memory
  const auto bytes =
      static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), static_cast<int>(column)));
  of_.spend(bytes);
  return std::string_view(text, bytes);
}

void Rows::wrong(std::size_t column, const char* expected) const {
  constexpr std::array<const char*, 6> kTypes = {"?",    "an integer", "a number with a fraction",
                                                 "text", "bytes",      "NULL"};
  const int type = sqlite3_column_type(statement_.get(), static_cast<int>(column));
  of_.fail(std::string("table ") + table_ + ", column " + columns_[column].name + ", row " +
           std::to_string(row_) + ": " + kTypes[static_cast<std::size_t>(type)] + " in place of " +
           expected);
}

}  // namespace overlap::trace
