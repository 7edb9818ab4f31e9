// The problems of bench/csp on OS threads with moodycamel's queues:
// BlockingReaderWriterCircularBuffer for one sender and one receiver, and BlockingConcurrentQueue,
// which is unbounded, with the library's own semaphore to bound it.

#include <concurrentqueue/blockingconcurrentqueue.h>
#include <concurrentqueue/lightweightsemaphore.h>
#include <readerwriterqueue/readerwritercircularbuffer.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "problems.h"
#include "threads.h"

namespace {

struct Peer : peer::Threads {
  static constexpr bool kFifo = false;

  template <class T>
  class Channel {
   public:
    explicit Channel(std::int64_t capacity)
        : room_(capacity), values_(static_cast<std::size_t>(capacity)) {}

    template <class V>
    void send(V&& value) {
      while (!room_.wait()) {
      }
      peer::check(values_.enqueue(std::forward<V>(value)));
    }
    T recv() {
      T value;
      values_.wait_dequeue(value);
      room_.signal();
      return value;
    }
    bool try_recv(T& value) {
      if (!values_.try_dequeue(value)) return false;
      room_.signal();
      return true;
    }

   private:
    moodycamel::LightweightSemaphore room_;
    moodycamel::BlockingConcurrentQueue<T> values_;
  };

  template <class T>
  class Stream {
   public:
    explicit Stream(std::int64_t capacity) : values_(static_cast<std::size_t>(capacity)) {}
    template <class V>
    void send(V&& value) {
      values_.wait_enqueue(std::forward<V>(value));
    }
    T recv() {
      T value;
      values_.wait_dequeue(value);
      return value;
    }
    bool try_recv(T& value) { return values_.try_dequeue(value); }

   private:
    moodycamel::BlockingReaderWriterCircularBuffer<T> values_;
  };
};

}  // namespace

int main(int argc, char** argv) {
  return peer::main(argc, argv, [](int) { return peer::bounded_channel_problems<Peer>(); });
}
