#include "leat/python/batches/share.h"

#include <algorithm>
#include <utility>

namespace leat::python {
namespace {

// In a forked child: what the parent owns must not be ended, nor freed.
template <class T>
void leak(std::unique_ptr<T> owner) noexcept {
  static_cast<void>(owner.release());  // NOLINT(bugprone-unused-return-value): on purpose
}

}  // namespace

std::string HeldBatch::text() const {
  std::string out = "batch " + std::to_string(index) + " of epoch " + std::to_string(epoch);
  if (!asked_at.file.empty()) {
    out += ", asked for at " + asked_at.text();
  }
  if (!tensors.empty()) {
    out += tensors.size() == 1 ? ", whose tensor " : ", whose tensors ";
    for (const std::string& name : tensors) {
      if (&name != &tensors.front()) out += ", ";
      out += name;
    }
    out += tensors.size() == 1 ? " lives" : " live";
  } else if (by_batch) {
    out += ", which lives itself, without a tensor";
  }
  return out;
}

Leases::~Leases() {
  if (!home_.is_here()) leak(std::move(stream_));
}

std::size_t Leases::held() const {
  const std::scoped_lock lock(mutex_);
  return held_.size();
}

std::optional<HeldBatch> Leases::oldest() const {
  const std::scoped_lock lock(mutex_);
  if (held_.empty()) return std::nullopt;
  return held_.front()->held();
}

const gpu::Stream& Leases::stream(const gpu::Device& device) {
  const std::scoped_lock lock(mutex_);
  if (stream_ == nullptr) stream_ = std::make_unique<const gpu::Stream>(device);
  return *stream_;
}

Share::Share(std::shared_ptr<Leases> leases, feeder::Lease lease, Place asked_at)
    : leases_(std::move(leases)),
      lease_(std::make_unique<feeder::Lease>(std::move(lease))),
      epoch_(lease_->epoch()),
      index_(lease_->index()),
      asked_at_(std::move(asked_at)),
      tensors_(lease_->layout().size()) {
  const feeder::TensorSet layout = lease_->layout();
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].name = layout[i].name();
  const std::scoped_lock lock(leases_->mutex_);
  leases_->held_.push_back(this);
}

// Leases loses sight of the batch only after its slot went back: held() is never too low.
Share::~Share() {
  if (!home_.is_here()) {
    leak(std::move(lease_));
    return;
  }
  lease_.reset();
  const std::scoped_lock lock(leases_->mutex_);
  std::erase(leases_->held_, this);
}

HeldBatch Share::held() const {
  HeldBatch held{.epoch = epoch_,
                 .index = index_,
                 .asked_at = asked_at_,
                 .by_batch = by_batch_,
                 .tensors = {}};
  for (const Users& one : tensors_) {
    if (one.count > 0) held.tensors.push_back(one.name);
  }
  return held;
}

TensorShare::TensorShare(std::shared_ptr<Share> share, std::size_t i) noexcept
    : share_(std::move(share)), tensor_(i) {
  ++share_->tensors_[tensor_].count;
}

TensorShare::~TensorShare() { --share_->tensors_[tensor_].count; }

}  // namespace leat::python
