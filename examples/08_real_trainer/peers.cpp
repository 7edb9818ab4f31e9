#include "examples/08_real_trainer/peers.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "leat/csp/error.h"

namespace trainer {
namespace {

// Moves all the bytes by `move`, which is send or recv.
template <class Move>
void move_all(std::span<std::byte> bytes, std::size_t peer, Move&& move) {
  while (!bytes.empty()) {
    const ssize_t moved = move(bytes);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) throw leat::Error("the process of rank " + std::to_string(peer) + " has ended");
    bytes = bytes.subspan(static_cast<std::size_t>(moved));
  }
}

void send_all(int socket, std::span<std::byte> bytes, std::size_t peer) {
  move_all(bytes, peer, [socket](std::span<std::byte> rest) {
    return send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);  // an error, not a SIGPIPE
  });
}

void receive_all(int socket, std::span<std::byte> bytes, std::size_t peer) {
  move_all(bytes, peer, [socket](std::span<std::byte> rest) {
    return recv(socket, rest.data(), rest.size(), 0);
  });
}

}  // namespace

Peers::Peers(std::size_t count) : count_(count) {
  const auto check = [this](int result) {
    if (result >= 0) return result;
    const int reason = errno;
    static_cast<void>(leave(1));
    throw std::system_error(reason, std::generic_category(),
                            "cannot start " + std::to_string(count_) + " processes");
  };
  for (std::size_t rank = 1; rank < count; ++rank) {
    std::array<int, 2> ends{};
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()));
    const pid_t child = fork();
    if (child == 0) {
      for (const int other : sockets_)
        close(other);  // so that they end with the process they are of
      close(ends[0]);
      sockets_ = {ends[1]};
      others_.clear();
      rank_ = rank;
      return;
    }
    close(ends[1]);
    sockets_.push_back(ends[0]);
    others_.push_back(check(child));
  }
}

Peers::~Peers() { static_cast<void>(leave(0)); }

template <class Number>
void Peers::sum_all(std::span<Number> values) const {
  const auto bytes = std::as_writable_bytes(values);
  if (rank_ > 0) {
    send_all(sockets_[0], bytes, 0);
    receive_all(sockets_[0], bytes, 0);
    return;
  }
  std::vector<Number> theirs(values.size());
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    receive_all(sockets_[i], std::as_writable_bytes(std::span(theirs)), i + 1);
    for (std::size_t k = 0; k < values.size(); ++k) values[k] += theirs[k];
  }
  for (std::size_t i = 0; i < sockets_.size(); ++i) send_all(sockets_[i], bytes, i + 1);
}

void Peers::sum(std::span<float> values) const { sum_all(values); }
void Peers::sum(std::span<double> values) const { sum_all(values); }

int Peers::leave(int status) noexcept {
  for (const int socket : sockets_) close(socket);
  sockets_.clear();
  for (const pid_t other : others_) {
    int ended = 0;
    while (waitpid(other, &ended, 0) == -1 && errno == EINTR) continue;
    if (status == 0 && ended != 0) status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
  }
  others_.clear();
  return status;
}

}  // namespace trainer
