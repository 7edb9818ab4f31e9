// OS threads as tasks, for the peers that are queues.
#pragma once

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace peer {

struct Threads {
  class Tasks {
   public:
    template <class F>
    void go(F body) {
      threads_.emplace_back(std::move(body));
    }
    void wait() {
      for (std::thread& thread : threads_) thread.join();
      threads_.clear();
    }

   private:
    std::vector<std::thread> threads_;
  };

  static void sleep_for(std::chrono::nanoseconds length) { std::this_thread::sleep_for(length); }
};

}  // namespace peer
