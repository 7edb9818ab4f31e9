// What a child process does.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <string>

#include "leat/csp/base/sanitizers.h"

namespace leat::support {

/// Forks. In the child, calls `body`, which returns what is wrong, or an empty text. Returns that,
/// or how else the child has ended: by a signal, or with a status other than 0. A child that hangs
/// ends after 20 s.
template <class F>
std::string in_child(F&& body) {
  int ends[2] = {};
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::string wrong;
    try {
      wrong = body();
    } catch (const std::exception& error) {
      wrong = std::string("threw ") + error.what();
    }
    [[maybe_unused]] const auto written = write(ends[1], wrong.data(), wrong.size());
    _exit(0);
  }
  close(ends[1]);
  std::string wrong;
  char text[256];
  for (ssize_t size = 0; (size = read(ends[0], text, sizeof text)) > 0;) {
    wrong.append(text, static_cast<std::size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  // ThreadSanitizer ends a child that starts a thread where the parent has several, with this
  // status: then nothing is known.
  constexpr int kOfThreadSanitizer = 66;
  const int exited = WEXITSTATUS(status);
  if (exited != 0 && !(kTsan && exited == kOfThreadSanitizer)) {
    return "exited with " + std::to_string(exited);
  }
  return wrong;
}

/// Calls `f`, which has to throw E. Returns the text of the exception.
template <class E, class F>
std::string text_thrown_by(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace leat::support
