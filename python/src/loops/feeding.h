// A prefetcher as Python uses it: calls of several threads, close(), the interpreter's exit,
// fork().
//
// Always true:
//  - No Python object is in it. It may outlive all of them except the dataset.
//  - Every function is called with the GIL, which guards the members. Functions that may wait
//    release it meanwhile.
//  - The prefetcher lives as long as a Call exists. The last to end, close() or the last Call,
//    destroys it, without the GIL.
//  - In a child of its process, calls throw and destructors do nothing: its threads are not there,
//    and its locks may be locked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/gpu/device.h"
#include "leat/python/batches/share.h"
#include "leat/python/calls/waiting.h"

namespace leat::python {

/// As gpu::open(), without the GIL. A feed on the CPU has a device of its own: feeds that shared
/// one would share its scheduler, and a slow read of one would delay the other.
[[nodiscard]] gpu::Device open_device(const std::string& name);

/// Moves `value` to where nothing destroys it: for the parent's objects in a child.
template <class T>
void leak(T&& value) noexcept {
  alignas(T) std::array<std::byte, sizeof(T)> room;
  static_cast<void>(new (room.data()) T(std::forward<T>(value)));
}

/// Ends all feeds, for the interpreter's exit: stops them, waits until no thread is in a call, and
/// destroys their prefetchers. Calls throw from then on.
void stop_all();

/// One feeder::Prefetcher.
class Feeding : public std::enable_shared_from_this<Feeding> {
 public:
  /// Makes the prefetcher, without the GIL. `data` outlives the feeding. Throws as
  /// feeder::Prefetcher's constructor.
  [[nodiscard]] static std::shared_ptr<Feeding> make(const feeder::Dataset& data,
                                                     const gpu::Device& device,
                                                     const feeder::PrefetcherOptions& options);
  /// As close(). No Call exists.
  ~Feeding();
  Feeding(const Feeding&) = delete;
  Feeding& operator=(const Feeding&) = delete;

  /// A call in the prefetcher.
  class Call {
   public:
    /// Throws leat::Error in a child of the process, after close(), and while the interpreter
    /// exits.
    explicit Call(Feeding& feeding);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    /// The prefetcher.
    [[nodiscard]] feeder::Prefetcher* operator->() const noexcept;

   private:
    // A signal handler may end the feeding below a call, and its owner may drop it.
    const std::shared_ptr<Feeding> feeding_;
    const InCall inside_;
  };

  /// A call of a consumer. There is one at a time.
  class Turn {
   public:
    /// Throws as Call, and leat::Error while another Turn exists.
    explicit Turn(Feeding& feeding);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// The prefetcher.
    [[nodiscard]] feeder::Prefetcher* operator->() const noexcept { return call_.operator->(); }

   private:
    Feeding& feeding_;
    const Call call_;
  };

  /// Stops the prefetcher, waits until no other thread is in a call, and destroys it: waits for the
  /// reads that are under way. Further calls throw leat::Error with the text `why`. Called inside a
  /// Call of this thread, by a signal handler, it does not wait, and that call's end destroys the
  /// prefetcher. The second time, changes `why` and waits again. Throws what a signal handler
  /// raises meanwhile; the prefetcher then ends by itself.
  void close(std::string_view why);
  /// As close(), for destructors: handles no signals. Returns whether the prefetcher is destroyed,
  /// and nothing reads the dataset any more. False only while the interpreter exits, if a close()
  /// was interrupted, and inside a Call.
  [[nodiscard]] bool finish(std::string_view why) noexcept;
  /// Stops the prefetcher: a call that waits ends with an error. Does not wait.
  void stop() noexcept;
  /// Throws leat::Error if the prefetcher was closed, with the reason, and in a child.
  void check_open() const;
  /// Whether close() was called.
  [[nodiscard]] bool is_closed() const noexcept { return !closed_why_.empty(); }
  /// Whether this is the process in which it was made.
  [[nodiscard]] bool is_here() const noexcept { return home_.is_here(); }

  /// The device of the batches: gpu::Device::for_memory().
  [[nodiscard]] const gpu::Device& device() const noexcept;
  /// What batches hold.
  [[nodiscard]] const std::shared_ptr<Leases>& leases() const noexcept { return leases_; }
  /// The options, as given.
  [[nodiscard]] const feeder::PrefetcherOptions& options() const noexcept;

 private:
  struct Parts;
  Feeding(const feeder::Dataset& data, const gpu::Device& device,
          const feeder::PrefetcherOptions& options);
  void end() noexcept;
  void begin_end() noexcept;

  const HomeProcess home_;
  std::shared_ptr<Parts> parts_;  // what is not destroyed in a child
  std::shared_ptr<Leases> leases_;
  std::string closed_why_;  // empty: open
  std::size_t calls_ = 0;
  bool is_taken_ = false;  // a Turn exists
};

}  // namespace leat::python
