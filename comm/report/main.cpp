// leat-comm-report: joins the flight recorders of several ranks, and says who had not arrived
// where.
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "leat/comm/report/join.h"
#include "leat/comm/report/record.h"

namespace {

constexpr const char* kHelp =
    R"(Joins the flight recorders of several ranks, and says who had not arrived where.

Usage: leat-comm-report FILE...      what the ranks wrote, each rank's file once
       leat-comm-report --version | --help

The files: each rank writes DIR/rank-N.leat-comm on a CommError and on SIGQUIT (kill -QUIT PID), if
it was opened with OpenOptions::recorder_directory = DIR. So a job that hangs is asked with
  kill -QUIT to every rank, then   leat-comm-report DIR/*.leat-comm

How to read the report: collectives are numbered in each communicator, the same on all ranks, and
are joined by number; clocks are never compared. Below "all ended up to number N" come those that
have not ended on all ranks, the first of them first:
  not called    this rank has not arrived: look there
  waiting       it has called, and waits for the others
  no file       it was killed, is stopped, or its file is elsewhere: most often the one to look at
"The ranks called different things" is a mistake in the program: ranks call the same collectives in
the same order. Messages are joined by peer and key.
A recorder has the last 1,024 operations of its rank.

Exit status: 0 if each rank's file was read as a whole and nothing is open, 1 if a file is missing
or damaged or something is open or has failed, 2 for wrong arguments or if nothing can be read.
)";

// None, with errno set, if the file cannot be read.
std::optional<std::string> content_of(const std::string& file) {
  std::FILE* const in = std::fopen(file.c_str(), "rb");
  if (in == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 65536> part;
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), in)) {
    text.append(part.data(), size);
  }
  const int error = std::ferror(in) != 0 ? errno : 0;
  std::fclose(in);
  errno = error;
  return error == 0 ? std::optional(std::move(text)) : std::nullopt;
}

// Prints all of it, and returns `status`; 2 if it could not.
int print(const std::string& text, int status) {
  if (std::fputs(text.c_str(), stdout) != EOF && std::fflush(stdout) == 0) return status;
  std::fprintf(stderr, "leat-comm-report: cannot write to the standard output: %s\n",
               std::generic_category().message(errno).c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files;
  bool has_options = true;  // until "--"
  for (int i = 1; i < argc; ++i) {
    const std::string one = argv[i];
    if (!has_options || one == "-" || !one.starts_with('-')) {
      files.push_back(one);
    } else if (one == "--") {
      has_options = false;
    } else if (one == "--help" || one == "-h") {
      return print(kHelp, 0);
    } else if (one == "--version") {
      return print("leat-comm-report " LEAT_VERSION "\n", 0);
    } else {
      std::fprintf(stderr, "leat-comm-report: there is no option %s; --help lists them\n",
                   one.c_str());
      return 2;
    }
  }
  if (files.empty()) {
    std::fputs("leat-comm-report: a FILE is required; --help tells more\n", stderr);
    return 2;
  }

  std::vector<std::string> warnings;
  std::vector<comm_report::Record> records;
  for (const std::string& file : files) {
    if (const std::optional<std::string> text = content_of(file); !text.has_value()) {
      warnings.push_back(file + ": cannot be read: " + std::generic_category().message(errno));
    } else if (std::optional one = comm_report::read_record(file, *text, warnings)) {
      records.push_back(*std::move(one));
    }
  }
  const bool has_none = records.empty();
  const comm_report::Report report = comm_report::join(std::move(records));
  std::string text;
  for (const std::string& one : warnings) text += "warning: " + one + '\n';
  text += report.text;
  const bool all_well = report.is_complete && !report.is_open && warnings.empty();
  return print(text, has_none ? 2 : all_well ? 0 : 1);
}
