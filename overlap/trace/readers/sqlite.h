// Tables of a SQLite database that somebody else wrote, row by row.
//
// Nothing in the file is run, and no text of it becomes SQL: names of tables and columns are the
// reader's own. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace overlap::trace {

/// Returns the first `most` bytes of a text as UTF-8 without control characters: "?" for each byte
/// that is neither.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most);

/// An open database.
class Database {
 public:
  /// Opens a file for reading alone; nobody may write it meanwhile. Throws Unreadable.
  explicit Database(const std::filesystem::path& file);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

 private:
  friend class Rows;
  struct Close {
    void operator()(sqlite3* database) const noexcept;
    void operator()(sqlite3_stmt* statement) const noexcept;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Close>;

  static int ask(void* of) noexcept;
  [[nodiscard]] Statement prepare(const std::string& sql);
  /// Returns whether there is another row.
  [[nodiscard]] bool step(const Statement& statement);
  /// Throws Unreadable for what SQLite reported last.
  [[noreturn]] void fail();
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_damaged(const std::string& what) const;
  /// Throws Unreadable when more was read than the file has: its pages lead in circles.
  void spend(std::size_t bytes);

  std::string file_;
  std::uint64_t left_ = 0;   // bytes of texts
  std::uint64_t steps_ = 0;  // of SQLite's machine, in thousands
  std::unique_ptr<sqlite3, Close> handle_;
};

/// A column of a table.
struct Column {
  const char* name = nullptr;
  bool is_needed = true;  ///< else it has no values where it is missing
};

/// The rows of a table. One that is not there has none.
class Rows {
 public:
  /// `of` and the names must outlive it. Throws Unreadable: see Database; and for what is no plain
  /// table, or lacks a column that is needed.
  Rows(Database& of, const char* table, std::vector<Column> columns);

  [[nodiscard]] bool is_there() const noexcept { return statement_ != nullptr; }
  [[nodiscard]] bool has(std::size_t column) const { return has_[column]; }
  /// Throws Unreadable, which names the column, unless the table has it.
  void need(std::size_t column) const;
  /// Goes to the next row, at first to the first one. False: there is none. Throws Unreadable.
  [[nodiscard]] bool next();
  /// Returns a value of the row; std::nullopt for NULL. Throws Unreadable if it has another type.
  [[nodiscard]] std::optional<std::int64_t> integer(std::size_t column);
  /// The same, but NULL is an error, too.
  [[nodiscard]] std::int64_t number(std::size_t column);
  /// Valid until next().
  [[nodiscard]] std::optional<std::string_view> text(std::size_t column);

 private:
  [[nodiscard]] bool find();
  [[noreturn]] void wrong(std::size_t column, const char* expected) const;

  Database& of_;
  const char* table_;
  std::vector<Column> columns_;
  std::vector<bool> has_;
  Database::Statement statement_;
  std::uint64_t row_ = 0;  // from 1
  std::int64_t id_ = 0;    // SQLite's own number of it: they ascend
};

}  // namespace overlap::trace
