#include "leat/feeder/receipt.h"

#include <stdexcept>
#include <utility>

#include "leat/feeder/plan/batch_id.h"
#include "leat/feeder/state/release_log.h"

namespace leat::feeder {

Receipt::Receipt(Receipt&& other) noexcept
    : log_(std::move(other.log_)),
      rank_(other.rank_),
      pass_(other.pass_),
      epoch_(other.epoch_),
      index_(other.index_),
      elements_(other.elements_),
      carry_(other.carry_) {}

Receipt& Receipt::operator=(Receipt&& other) noexcept {
  if (this == &other) return *this;
  end(false);
  log_ = std::move(other.log_);
  rank_ = other.rank_;
  pass_ = other.pass_;
  epoch_ = other.epoch_;
  index_ = other.index_;
  elements_ = other.elements_;
  carry_ = other.carry_;
  return *this;
}

Receipt::~Receipt() { end(false); }

void Receipt::check_not_empty() const {
  if (log_ != nullptr) return;
  throw std::logic_error("leat: this receipt is empty: it was committed or moved from");
}

std::uint64_t Receipt::epoch() const {
  check_not_empty();
  return epoch_;
}

std::uint64_t Receipt::index() const {
  check_not_empty();
  return index_;
}

BatchId Receipt::batch() const noexcept {
  return {.epoch = epoch_, .index = index_, .elements = elements_, .carry = carry_};
}

void Receipt::end(bool done) noexcept {
  const std::shared_ptr<ReleaseLog> log = std::move(log_);
  if (log == nullptr) return;
  log->ended(rank_, pass_, batch(), done);
}

}  // namespace leat::feeder
