// One rank's end of one communicator whose data may be in device memory.
//
//   begin() ──► the same operation, on the transport beside ──► all ranks agree ──► lane ──► end
//
// Always true:
//  - Collectives are launched in the order of their numbers, on one lane.
//  - Messages from one rank to another have a lane of their own. The sender launches them in the
//    order in which they are agreed on, and tells the receiver that order: the k-th message is of
//    that key.
//  - Operations on host memory use the transport beside alone.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "leat/comm/transports/nccl/hub.h"
#include "leat/comm/transports/nccl/work.h"
#include "leat/comm/transports/transport.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/gpu/device.h"

namespace leat::comm::nccl {

class NcclTransport final : public comm::Transport {
 public:
  NcclTransport(std::shared_ptr<comm::Transport> beside, std::shared_ptr<Hub> hub,
                gpu::Device device);
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;
  ~NcclTransport() override;

  [[nodiscard]] int rank() const noexcept override { return beside_->rank(); }
  [[nodiscard]] int size() const noexcept override { return beside_->size(); }
  [[nodiscard]] int world_rank() const noexcept override { return beside_->world_rank(); }
  [[nodiscard]] World& world() const noexcept override { return beside_->world(); }
  [[nodiscard]] std::uint64_t context() const noexcept override { return beside_->context(); }
  [[nodiscard]] const gpu::Device* device() const noexcept override { return &device_; }

  void begin(Operation& operation) noexcept override;
  void help(Operation& operation) noexcept override { beside_->help(operation); }
  [[nodiscard]] std::shared_ptr<comm::Transport> subset(std::uint64_t context,
                                                        std::span<const int> members) override;
  void post(int to, std::span<const Notice> notices) override { beside_->post(to, notices); }
  void reserve(std::size_t operations) override { beside_->reserve(operations); }
  void listen(Channel<Notice> notices) override { beside_->listen(std::move(notices)); }
  void leave() noexcept override { beside_->leave(); }

 private:
  /// A collective of the ring: nothing, in the host's memory, or (work) agreed on.
  struct Turn {
    bool has_come = false;
    Work* work = nullptr;
  };
  /// Messages to or from one rank.
  struct Messages {
    NcclTransport* owner = nullptr;
    std::shared_ptr<comm::Transport> beside;  // of the two ranks: the sender is rank 0
    std::shared_ptr<Lane> lane;               // for messages to oneself: the received ones'
    std::list<Work*> begun;                   // in the order of begin()
    std::uint64_t agreed = 0;                 // received ones
    std::uint64_t ordered = 0;                // whose key was sent, or asked for
    bool is_asking = false;                   // for the next key
    bool is_in_loop = false;
    Operation next;
    std::int64_t key = 0;  // that came
  };
  /// Tells the receiver which message is next, by its key. Under way.
  struct KeyNotice {
    NcclTransport* owner = nullptr;
    Operation operation;
    std::int64_t key = 0;
    std::list<KeyNotice>::iterator self;
  };

  [[nodiscard]] Work& prepare(Operation& operation);
  static void agreed(Operation& agreement, const Failure* failure) noexcept;
  void collective_came(std::uint64_t number, Work* work) noexcept;
  void message_came(Work& work);
  void send_key(Messages& messages, std::int64_t key) noexcept;
  void ask_for_keys(Messages& messages) noexcept;
  static void key_came(Operation& next, const Failure* failure) noexcept;
  void open_lanes(const Operation& operation);
  [[nodiscard]] Messages& messages_of(int peer, bool received);
  [[nodiscard]] std::shared_ptr<comm::Transport> beside_of(std::uint64_t salt,
                                                           std::span<const int> members);
  [[nodiscard]] static Work* take_first(Messages& messages, std::uint64_t key) noexcept;

  const std::shared_ptr<comm::Transport> beside_;  // destroyed last, with the world
  const std::shared_ptr<Hub> hub_;
  const gpu::Device device_;
  Works works_;

  std::mutex opening_;  // while a lane is made
  SpinLock lock_;
  std::shared_ptr<Lane> lane_ LEAT_GUARDED_BY(lock_);  // of collectives
  std::uint64_t next_ LEAT_GUARDED_BY(lock_) = 0;      // collective
  std::vector<Turn> turns_ LEAT_GUARDED_BY(lock_);     // a ring, by number
  std::map<std::pair<int, bool>, Messages> messages_ LEAT_GUARDED_BY(lock_);
  std::list<KeyNotice> keys_ LEAT_GUARDED_BY(lock_);
  std::list<KeyNotice> unused_keys_ LEAT_GUARDED_BY(lock_);
};

}  // namespace leat::comm::nccl
