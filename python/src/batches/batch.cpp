#include "leat/python/batches/batch.h"

#include <nanobind/stl/string.h>

#include <stdexcept>

#include "leat/python/calls/text.h"
#include "leat/python/calls/waiting.h"

namespace leat::python {
namespace {

namespace nb = nanobind;

// Of the batch that this thread has walked over last.
thread_local std::weak_ptr<const BatchInfo> walked;

BatchInfo info_of(const feeder::Lease& lease) {
  return {.epoch = lease.epoch(),
          .index = lease.index(),
          .size = lease.size(),
          .rows = lease.rows(),
          .elements = lease.elements(),
          .step_size = lease.step_size(),
          .step_shards = lease.step_shards()};
}

}  // namespace

void Counting::commit() noexcept {
  committed_ = true;
  if (home_.is_here()) receipt_->commit();
}

// In a child, a thread of the parent may have had the lock that a receipt's end takes.
Counting::~Counting() {
  if (!home_.is_here()) static_cast<void>(receipt_.release());
}

Batch::Batch(NewBatch parts)
    : info_(info_of(parts.share->lease())),
      opaque_(parts.share->lease().opaque()),
      share_(std::move(parts.share)),
      counting_(std::move(parts.counting)),
      framework_(std::move(parts.framework)) {
  const feeder::TensorSet layout = share_->lease().layout();
  fields_.reserve(layout.size());
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const feeder::Tensor tensor = layout[i];
    fields_.push_back({.info = {.name = std::string(tensor.name()),
                                .dtype = tensor.dtype(),
                                .shape = {tensor.shape().begin(), tensor.shape().end()}},
                       .data = tensor.raw(),
                       .array = {}});
  }
  share_->set_by_batch(true);
  if (parts.copy) copy_all();
}

Batch::Batch(const nb::dict& tensors) {
  if (const auto info = std::exchange(walked, {}).lock()) info_ = *info;
  for (const auto& [name, value] : tensors) {
    if (!nb::isinstance<nb::str>(name)) {
      throw nb::type_error(
          ("leat.Batch: a tensor's name has to be a str, not " + to_text(nb::repr(name))).c_str());
    }
    fields_.push_back(
        {.info = {.name = to_text(name)}, .data = nullptr, .array = nb::borrow(value)});
  }
}

Batch::~Batch() { drop_share(); }

void Batch::walk() {
  if (walked_ == nullptr && info_.has_value()) walked_ = std::make_shared<const BatchInfo>(*info_);
  walked = walked_;
}

void Batch::commit() {
  if (counting_ == nullptr) {
    throw nb::value_error(
        ("leat: " + title() + " has no lease: commit() the batch that the loop gave").c_str());
  }
  counting_->commit();
}

std::string Batch::title() const {
  if (!info_.has_value()) return "this batch";
  return "batch " + std::to_string(info_->index) + " of epoch " + std::to_string(info_->epoch);
}

std::vector<std::string> Batch::names() const {
  std::vector<std::string> names;
  for (const Field& one : fields_) names.push_back(one.info.name);
  return names;
}

std::string Batch::repr() const {
  std::string out = "<leat.Batch";
  if (info_.has_value()) out += title().substr(std::string_view("batch").size());
  out += ":";
  for (const Field& one : fields_) {
    out += &one == &fields_.front() ? " " : ", ";
    out += one.data == nullptr ? one.info.name : one.info.text();
  }
  if (counting_ == nullptr) out += "; without a lease";
  if (copied_) out += "; copied";
  if (released_) out += "; released";
  return out + ">";
}

std::optional<std::size_t> Batch::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].info.name == name) return i;
  }
  return std::nullopt;
}

void Batch::refuse_released() const {
  if (!released_) return;
  throw nb::value_error(
      ("leat: " + title() + " was released: take its tensors before release()").c_str());
}

std::string Batch::listed_names() const {
  std::string text;
  for (const Field& one : fields_) text.append(text.empty() ? "" : ", ").append(one.info.name);
  return text;
}

void Batch::refuse_key(nb::handle key) const {
  throw nb::type_error(("leat: the keys of " + title() + " are the names of its tensors (" +
                        listed_names() + "), not " + to_text(nb::repr(key)))
                           .c_str());
}

nb::object Batch::at(std::string_view name) {
  const std::optional<std::size_t> i = find(name);
  if (!i.has_value()) {
    throw nb::key_error(
        ("leat: " + title() + " has no tensor " + std::string(name) + "; it has " + listed_names())
            .c_str());
  }
  refuse_released();
  const InCall inside;  // the framework has Python code
  if (share_ != nullptr) bind_current();
  refuse_released();  // again: Python code ran
  nb::object& array = fields_[*i].array;
  if (array.is_valid()) return array;
  nb::object made = framework_.attr("take")(tensor(*i));
  refuse_released();
  if (!array.is_valid()) array = std::move(made);
  return array;
}

nb::list Batch::arrays() {
  nb::list all;
  for (const std::string& name : names()) all.append(at(name));
  return all;
}

nb::object Batch::tensor(std::size_t i) const {
  if (share_ == nullptr) throw std::logic_error("leat: " + title() + " is being deleted");
  return nb::cast(Tensor(fields_[i].info, slot_memory(share_, i), fields_[i].data));
}

void Batch::bind_current() const {
  const std::shared_ptr<Share> share = share_;  // Python code may release the batch
  feeder::Lease& lease = share->lease();
  if (const auto stream = current_stream(framework_, lease.device())) lease.on(*stream);
}

// The frames of an exception's traceback, which a program may keep, have the tensor that was
// copied: it does not keep the slot.
void Batch::copy_all() {
  bind_current();
  const nb::object copy = framework_.attr("copy");
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const nb::object lent = tensor(i);
    try {
      fields_[i].array = copy(lent);
    } catch (...) {
      nb::inst_ptr<Tensor>(lent)->end();
      throw;
    }
  }
  copied_ = true;
  drop_share();
}

void Batch::on(nb::handle stream) {
  refuse_released();
  if (share_ == nullptr) return;
  const std::shared_ptr<Share> share = share_;  // as above
  feeder::Lease& lease = share->lease();
  const gpu::Device& device = lease.device();
  if (device.capabilities().device_memory_is_host_memory) {
    throw nb::value_error(
        ("leat: " + title() + " is on " + device.name() + ": a CPU has no streams").c_str());
  }
  const auto bound = stream_of(device, stream);
  if (!bound.has_value()) throw nb::value_error("leat: on(-1): -1 is no stream");
  lease.on(*bound);
}

void Batch::release() {
  released_ = true;
  drop_share();
  const std::vector<nb::object> dropped = take_arrays();
}

void Batch::drop_share() noexcept {
  if (share_ == nullptr) return;
  share_->set_by_batch(false);
  share_.reset();
}

int Batch::traverse(visitproc visit, void* arg) const {
  for (const Field& one : fields_) Py_VISIT(one.array.ptr());
  Py_VISIT(framework_.ptr());
  return 0;
}

std::vector<nb::object> Batch::take_arrays() noexcept {
  std::vector<nb::object> taken;
  for (Field& one : fields_) {
    if (one.array.is_valid()) taken.push_back(std::move(one.array));
  }
  return taken;
}

nb::object make_batch(NewBatch parts) { return nb::cast(Batch(std::move(parts))); }

std::optional<gpu::StreamRef> current_stream(nb::handle framework, const gpu::Device& device) {
  if (device.capabilities().device_memory_is_host_memory) return std::nullopt;
  const nb::object handle = framework.attr("stream")(device.name());
  if (handle.is_none()) return std::nullopt;
  return stream_of_handle(device, nb::cast<std::int64_t>(handle));
}

}  // namespace leat::python
