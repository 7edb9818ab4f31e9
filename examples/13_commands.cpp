// A trainer that takes commands on a Unix socket while it trains: status, pause, resume, lr X,
// stop.
//
//   example_13_commands                       both sides in one program
//   example_13_commands SOCKET                trains until it is told to stop
//   example_13_commands SOCKET COMMAND...     sends the commands, and prints the answers

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "examples/written.h"
#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/io.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"

using namespace std::chrono_literals;
using namespace leat::feeder;

namespace {

// ---- sockets

[[noreturn]] void fail(const std::string& what) {
  throw leat::Error(what + ": " + std::generic_category().message(errno));
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

Socket new_socket() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  return Socket(fd);
}

sockaddr_un address(const std::string& path) {
  sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = {}};
  if (path.empty() || path.size() >= sizeof to.sun_path) {
    throw leat::Error(path + ": the path of a socket has 1 to " +
                      std::to_string(sizeof to.sun_path - 1) + " characters");
  }
  path.copy(to.sun_path, path.size());
  return to;
}

bool connects(const Socket& socket, const std::string& path) {
  const sockaddr_un to = address(path);
  return connect(socket.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
}

// The file of a trainer that was killed is replaced, and nobody else's.
Socket listen_at(const std::string& path) {
  const sockaddr_un at = address(path);
  struct stat status = {};
  if (lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) throw leat::Error(path + ": is there, and is no socket");
    if (connects(new_socket(), path) || errno == EAGAIN) {
      throw leat::Error(path + ": another trainer listens there");
    }
    if (errno != ECONNREFUSED) fail(path);
    unlink(path.c_str());
  }
  Socket listener = new_socket();
  const mode_t before = umask(0077);  // its user alone gives commands
  const int bound = bind(listener.fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
  umask(before);
  if (bound != 0 || listen(listener.fd(), 16) != 0) fail(path);
  return listener;
}

// The file of the socket at `path`; 0 if there is none.
std::pair<dev_t, ino_t> file_at(const std::string& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

// False if the other side is gone, or does not read for so long.
bool write_all(int fd, std::string_view text, leat::Duration patience = 10s) {
  while (!text.empty()) {
    const ssize_t size = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (size >= 0) {
      text.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      if (!leat::await_writable_until(fd, leat::from_now(patience))) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

/// What a connection sends, by lines.
class Lines {
 public:
  static constexpr std::size_t kLongest = 200;

  explicit Lines(int fd) : fd_(fd) {}
  /// Waits for the next line. None: the other side is gone, or sends too long a line, or has been
  /// silent for so long.
  std::optional<std::string> next(leat::Duration patience) {
    for (;;) {
      if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
        std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        if (line.size() > kLongest) return std::nullopt;
        if (line.ends_with('\r')) line.pop_back();
        return line;
      }
      if (text_.size() > kLongest) return std::nullopt;
      std::array<char, 512> buffer;
      const ssize_t size = read(fd_, buffer.data(), buffer.size());
      if (size > 0) {
        text_.append(buffer.data(), static_cast<std::size_t>(size));
      } else if (size == 0 || (errno != EAGAIN && errno != EINTR) ||
                 !leat::await_readable_until(fd_, leat::from_now(patience))) {
        return std::nullopt;
      }
    }
  }

 private:
  int fd_;
  std::string text_;
};

// ---- commands

/// One line, and where its answer is awaited.
struct Command {
  std::string line;
  leat::Channel<std::string> answer{1, "answer"};
};

// [serve]
void serve(Socket connection, const leat::Channel<Command>& commands) {
  Lines lines(connection.fd());
  while (std::optional<std::string> line = lines.next(60s)) {
    Command command{.line = std::move(*line)};
    const leat::Channel<std::string> answer = command.answer;
    commands.send(std::move(command));
    const std::string text = answer.recv().value() + "\n";
    const leat::Shield though_the_trainer_ends;  // it may have been told to stop
    if (!write_all(connection.fd(), text, 1s)) return;
  }
}

// Takes connections until its fiber is cancelled.
void accept_all(const Socket& listener, const leat::Channel<Command>& commands) {
  leat::TaskGroup connections;
  connections.set_limit(100);  // beyond that, clients wait
  for (;;) {
    leat::await_readable(listener.fd());
    Socket connection(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.fd() >= 0) {
      connections.go([connection = std::move(connection), &commands]() mutable {
        serve(std::move(connection), commands);
      });
    } else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
      std::perror("accept");  // no descriptors are left, say: later there may be some
      leat::sleep_for(100ms);
    }
  }
}
// [/serve]

// ---- the trainer: a line through points

class Points final : public Dataset {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "points"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return 10'000; }
  void read(std::uint64_t index, Sample& out) const override {
    const std::span<float> point = out.as<float>(0);
    point[0] = static_cast<float>(index) / 10'000;
    point[1] = 3 * point[0] - 1;
  }

 private:
  std::vector<Field> fields_{{"point", DType::kFloat32, {2}}};
};

class Trainer {
 public:
  void train(const leat::Channel<Command>& commands) {
    const Points data;
    const auto device = leat::gpu::open_host({});
    const leat::gpu::Stream stream(device);
    Prefetcher feed(data, device, {.batch_size = 100});
    for (std::uint64_t epoch = 0;; ++epoch) {
      for (Lease& batch : feed.epoch(epoch, stream)) {
        take_commands(commands);
        if (stopped_) return;
        stream.launch_host(
            [this, points = std::span<const float>(batch["point"].data<float>(),
                                                   2 * batch.size())] { step(points); });
        stream.sync();
        ++steps_;
      }
    }
  }

 private:
  // [commands]
  void take_commands(const leat::Channel<Command>& commands) {
    for (bool more = true; more && !stopped_;) {
      const auto answer = [&](std::optional<Command> command) {
        if (command.has_value()) command->answer.send(obey(command->line));
      };
      if (paused_) {
        leat::select(leat::on_recv(commands, answer));
      } else {
        leat::select(leat::on_recv(commands, answer), leat::otherwise([&] { more = false; }));
      }
    }
  }

  std::string obey(std::string_view line) {
    if (line == "status") return status();
    if (line == "pause" || line == "resume") {
      paused_ = line == "pause";
      return "ok: " + status();
    }
    if (line == "stop") {
      stopped_ = true;
      return "ok: " + status();
    }
    if (line.starts_with("lr ")) {
      float rate = 0;
      const char* const end = line.data() + line.size();
      const auto [read_to, error] = std::from_chars(line.data() + 3, end, rate);
      if (error != std::errc{} || read_to != end || !(rate > 0 && rate <= 1)) {
        return "error: lr takes a number above 0 and up to 1, such as lr 0.01";
      }
      rate_ = rate;
      return "ok: " + status();
    }
    return "error: no such command; there are: status, pause, resume, lr X, stop";
  }
  // [/commands]

  [[nodiscard]] std::string status() const {
    std::array<char, 120> text;
    std::snprintf(text.data(), text.size(), "%s, step %llu, loss %.2g, lr %g",
                  stopped_  ? "stopped"
                  : paused_ ? "paused"
                            : "training",
                  static_cast<unsigned long long>(steps_), static_cast<double>(loss_),
                  static_cast<double>(rate_));
    return text.data();
  }

  void step(std::span<const float> points) {
    float slope = 0;
    float offset = 0;
    float loss = 0;
    for (std::size_t i = 0; i < points.size(); i += 2) {
      const float error = slope_ * points[i] + offset_ - points[i + 1];
      slope += error * points[i];
      offset += error;
      loss += error * error;
    }
    const float share = 2 / static_cast<float>(points.size());
    slope_ -= rate_ * slope * share;
    offset_ -= rate_ * offset * share;
    loss_ = loss * share;
  }

  bool paused_ = false;
  bool stopped_ = false;
  std::uint64_t steps_ = 0;
  float rate_ = 0.1F;
  float slope_ = 0;
  float offset_ = 0;
  float loss_ = 0;
};

void train_at(const std::string& path, const std::function<void()>& beside) {
  const Socket listener = listen_at(path);
  const auto ours = file_at(path);
  const leat::Channel<Command> commands(0, "commands");
  leat::TaskGroup client;
  if (beside) client.go(beside);
  {
    leat::TaskGroup control;
    control.go([&] { accept_all(listener, commands); });
    Trainer().train(commands);
  }  // the connections end
  if (file_at(path) == ours) unlink(path.c_str());
  client.wait();
}

// ---- the client

bool send_commands(const std::string& path, std::span<const std::string> commands) {
  const Socket socket = new_socket();
  if (!connects(socket, path)) {
    fail(errno == EAGAIN ? path + ": the trainer is busy" : "no trainer listens at " + path);
  }
  Lines answers(socket.fd());
  for (const std::string& command : commands) {
    if (!write_all(socket.fd(), command + "\n")) return false;
    const std::optional<std::string> answer = answers.next(60s);
    if (!answer) return false;
    std::printf("%s -> %s\n", command.c_str(), answer->c_str());
  }
  return true;
}

constexpr const char* kUsage =
    "example_13_commands                       both sides in one program\n"
    "example_13_commands SOCKET                trains until it is told to stop\n"
    "example_13_commands SOCKET COMMAND...     sends the commands, and prints the answers\n"
    "A trainer that was killed, by Ctrl-C say, leaves the file SOCKET; the next one replaces it.";

int run_program(const std::vector<std::string>& arguments) {
  bool answered = true;
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    std::puts(kUsage);
  } else if (arguments.empty()) {
    const std::string path = "/tmp/leat-" + std::to_string(getpid()) + ".socket";
    const std::vector<std::string> commands = {"status", "pause", "lr fast", "lr 0.5",
                                               "resume", "hello", "stop"};
    train_at(path, [&] { answered = send_commands(path, commands); });
  } else if (arguments.size() == 1) {
    train_at(arguments[0], {});
  } else {
    answered = send_commands(arguments[0], std::span(arguments).subspan(1));
    if (!answered) std::fprintf(stderr, "%s: the trainer is gone\n", arguments[0].c_str());
  }
  return if_written(answered ? 0 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return leat::run([&] { return run_program({argv + 1, argv + argc}); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
