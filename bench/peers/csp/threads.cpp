// The problems of bench/csp on OS threads with a bounded queue of a mutex and condition variables.

#include "threads.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "problems.h"

namespace {

struct Peer : peer::Threads {
  static constexpr bool kFifo = true;

  template <class T>
  class Channel {
   public:
    explicit Channel(std::int64_t capacity)
        : rendezvous_(capacity == 0), capacity_(rendezvous_ ? 1 : capacity) {
      values_.resize(static_cast<std::size_t>(capacity_));
    }

    template <class V>
    void send(V&& value) {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [&] { return sent_ - received_ < capacity_; });
      values_[static_cast<std::size_t>(sent_ % capacity_)] = std::forward<V>(value);
      const std::int64_t mine = ++sent_;
      if (!rendezvous_) lock.unlock();
      not_empty_.notify_one();
      if (rendezvous_) taken_.wait(lock, [&] { return received_ >= mine; });
    }
    T recv() {
      std::unique_lock lock(mutex_);
      not_empty_.wait(lock, [&] { return sent_ > received_; });
      return take(lock);
    }
    bool try_recv(T& value) {
      std::unique_lock lock(mutex_);
      if (sent_ == received_) return false;
      value = take(lock);
      return true;
    }

   private:
    T take(std::unique_lock<std::mutex>& lock) {
      T value = std::move(values_[static_cast<std::size_t>(received_++ % capacity_)]);
      lock.unlock();
      not_full_.notify_one();
      if (rendezvous_) taken_.notify_all();
      return value;
    }

    std::mutex mutex_;
    std::condition_variable not_full_;
    std::condition_variable not_empty_;
    std::condition_variable taken_;  // only a rendezvous waits for it
    const bool rendezvous_;
    const std::int64_t capacity_;
    std::vector<T> values_;
    std::int64_t sent_ = 0;
    std::int64_t received_ = 0;
  };
  template <class T>
  using Stream = Channel<T>;
};

peer::Problems problems(int /*workers*/) {
  peer::Problems all = peer::bounded_channel_problems<Peer>();
  all.timed["ChanSync"] = peer::chan_sync<Peer>;
  peer::add_spawn<Peer>(all, {256, 1'000});
  return all;
}

}  // namespace

int main(int argc, char** argv) { return peer::main(argc, argv, problems); }
