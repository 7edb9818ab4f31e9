// Shares of a batch's lease.
//
// A batch, its tensors, and whatever a framework makes of them (views, the graph of a loss) hold
// shares of one lease. The lease ends with the last share: the slot goes back by an event on each
// stream that is bound to the lease.
//
// Nothing here is a Python object, and nothing needs the GIL. The last share may be dropped on any
// thread, also while the interpreter ends. In a forked child, a lease is never ended: its slots,
// streams and threads belong to the parent.
//
// Lock: Leases::mutex_ guards the list of what is held, and the stream. The device's own locks may
// be taken with it held.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/base/home_process.h"
#include "leat/feeder/lease.h"
#include "leat/gpu/stream.h"

namespace leat::python {

class Share;

/// A line of Python.
struct Place {
  std::string file;  ///< Empty: not known.
  int line = 0;

  /// As "train.py:12".
  [[nodiscard]] std::string text() const { return file + ":" + std::to_string(line); }
};

/// What holds a batch.
struct HeldBatch {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;
  Place asked_at;                    ///< The line that asked for the batch.
  bool by_batch = false;             ///< Its leat.Batch lives and was not released.
  std::vector<std::string> tensors;  ///< Tensors of it that live, views included.

  /// As "batch 3 of epoch 0, asked for at train.py:12, of which tensors x, y live".
  [[nodiscard]] std::string text() const;
};

/// All leases of one feed that are held. Thread-safe.
class Leases {
 public:
  Leases() = default;
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;
  ~Leases();

  /// How many leases are held.
  [[nodiscard]] std::size_t held() const;
  /// Of the batches that are held, the one that was asked for first; nothing if none is held.
  [[nodiscard]] std::optional<HeldBatch> oldest() const;
  /// The stream that copies out of batches, which are all on `device`. Made at the first call;
  /// lives as long as this object. Throws GpuError.
  [[nodiscard]] const gpu::Stream& stream(const gpu::Device& device);

 private:
  friend class Share;
  const HomeProcess home_;
  mutable std::mutex mutex_;
  std::vector<const Share*> held_;  // in the order in which they were asked for
  std::unique_ptr<const gpu::Stream> stream_;
};

/// A lease that several own. Always in a std::shared_ptr, whose last owner ends the lease, on any
/// thread. All other use is by one thread at a time: the one that holds the GIL.
class Share {
 public:
  /// Enters `lease` into `leases`. `lease` is not empty.
  Share(std::shared_ptr<Leases> leases, feeder::Lease lease, Place asked_at);
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share();

  /// The lease. Do not release it: drop the share.
  [[nodiscard]] feeder::Lease& lease() const noexcept { return *lease_; }
  /// All leases of the feed.
  [[nodiscard]] const std::shared_ptr<Leases>& leases() const noexcept { return leases_; }
  /// Notes that the leat.Batch has its share, or has dropped it. For HeldBatch::by_batch.
  void set_by_batch(bool holds) noexcept { by_batch_ = holds; }
  /// Another line asks for the batch than before: it was peeked at.
  void set_asked_at(Place place) noexcept { asked_at_ = std::move(place); }

 private:
  friend class Leases;
  friend class TensorShare;
  [[nodiscard]] HeldBatch held() const;

  /// A tensor's name, and how many shares it has.
  struct Users {
    std::string name;
    std::atomic<std::uint32_t> count = 0;
  };

  const HomeProcess home_;
  const std::shared_ptr<Leases> leases_;
  std::unique_ptr<feeder::Lease> lease_;
  const std::uint64_t epoch_;
  const std::uint64_t index_;
  Place asked_at_;
  std::atomic<bool> by_batch_ = false;
  std::vector<Users> tensors_;  // as many as the lease has; fixed after the constructor
};

/// One tensor's share of a lease, by which Leases knows that the tensor lives. May be destroyed on
/// any thread.
class TensorShare {
 public:
  /// Of the i-th tensor of the lease.
  TensorShare(std::shared_ptr<Share> share, std::size_t i) noexcept;
  TensorShare(const TensorShare&) = delete;
  TensorShare& operator=(const TensorShare&) = delete;
  ~TensorShare();

  /// The share of the whole batch.
  [[nodiscard]] const std::shared_ptr<Share>& share() const noexcept { return share_; }

 private:
  std::shared_ptr<Share> share_;
  std::size_t tensor_;
};

}  // namespace leat::python
