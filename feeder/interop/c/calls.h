// Shared by the functions of the C API: the objects behind handles, and the conversion of
// exceptions to a status and a text.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/notification.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/interop/c/handles.h"
#include "leat/feeder/interop/c/leat.h"
#include "leat/feeder/lease.h"
#include "leat/feeder/prefetcher.h"

namespace leat::feeder::c {

/// The object behind a leat_dataset.
struct OpenDataset {
  std::shared_ptr<const Dataset> dataset;
  std::vector<leat_field> fields;  // point into the dataset's fields
};

/// The object behind a leat_prefetcher. Only leat_prefetcher_close deletes it. Calls that use it
/// hold a shared pointer; the last of these notifies `unused`.
struct OpenPrefetcher {
  OpenPrefetcher(std::shared_ptr<const Dataset> data, const gpu::Device& to,
                 const PrefetcherOptions& options)
      : dataset(std::move(data)), device(to), prefetcher(*dataset, to, options) {
    for (const Field& field : dataset->fields()) {
      const bool has_lengths = field.variable_length && !options.packing.has_value();
      tensors += has_lengths ? std::size_t{2} : std::size_t{1};
    }
    if (options.packing.has_value()) ++tensors;
  }

  const std::shared_ptr<const Dataset> dataset;  // outlives the prefetcher
  const gpu::Device device;
  Prefetcher prefetcher;
  // Of a batch: the fields, and the lengths of fields of variable length (packed: the offsets).
  std::size_t tensors = 0;
  std::uint64_t first_epoch = 0;
  std::atomic<bool> in_use = false;    // by leat_prefetcher_next or _start_epoch
  std::optional<std::uint64_t> start;  // the epoch that the next call begins with
  const std::shared_ptr<Notification> unused = std::make_shared<Notification>();
};

/// The object behind a leat_batch.
struct OpenBatch {
  OpenBatch(Lease&& given, std::size_t count) noexcept : lease(std::move(given)), tensors(count) {}
  Lease lease;
  const std::size_t tensors;  // the number of tensors
  std::atomic<bool> in_use = false;
};

[[nodiscard]] HandleTable<OpenDataset>& datasets();
[[nodiscard]] HandleTable<OpenPrefetcher>& prefetchers();
[[nodiscard]] HandleTable<OpenBatch>& batches();

/// Stores the text of the exception as the calling thread's error text, and returns its status.
/// Call it in a catch block. Rethrows the unwinding of pthread_cancel().
[[nodiscard]] leat_status keep_error();
/// Returns the calling thread's error text; empty if there is none.
[[nodiscard]] const char* kept_error() noexcept;

/// Throws std::invalid_argument if the calling thread is in a leat_read_function: a prefetcher
/// whose own reads use it would wait for itself.
void refuse_in_read(const char* function);
/// The size of an error text, with its null byte.
constexpr std::size_t kErrorBytes = 1024;
/// While it lives, the calling thread is in a read function. It holds that function's error text.
class InRead {
 public:
  [[nodiscard]] InRead() noexcept;
  ~InRead();
  InRead(const InRead&) = delete;
  InRead& operator=(const InRead&) = delete;

 private:
  std::array<char, kErrorBytes> text_{};
  char* const outer_;  // the text of the read function that calls this one
};

/// Marks an object as in use while it lives. The constructor throws std::invalid_argument if the
/// object is in use already.
class OnlyUser {
 public:
  [[nodiscard]] OnlyUser(std::atomic<bool>& in_use, const char* function);
  ~OnlyUser() { in_use_.store(false, std::memory_order_release); }
  OnlyUser(const OnlyUser&) = delete;
  OnlyUser& operator=(const OnlyUser&) = delete;

 private:
  std::atomic<bool>& in_use_;
};

/// Throws std::invalid_argument, which names the parameter, for null.
void require(const void* pointer, const char* function, const char* parameter);

/// Calls `body` with `function`, and returns its status; an exception becomes a status.
template <class Body>
[[nodiscard]] leat_status call(const char* function, Body&& body) {
  try {
    refuse_in_read(function);
    return body(function);
  } catch (...) {
    return keep_error();
  }
}

/// Copies `text` to the caller's buffer if it fits, and sets `needed`: the rules of leat.h.
[[nodiscard]] leat_status give_text(std::string_view text, char* buffer, std::size_t size,
                                    std::size_t* needed, const char* function);

/// Copies the first `size` bytes of `from`, as the caller's header declares them. Throws
/// std::invalid_argument for more than sizeof(T), and for less than `least`.
void check_size(std::size_t size, std::size_t least, std::size_t most, const char* function,
                const char* type);
template <class T>
void give_struct(const T& from, T* to, std::size_t size, std::size_t least, const char* function,
                 const char* type) {
  check_size(size, least, sizeof(T), function, type);
  std::memcpy(to, &from, size);
}

}  // namespace leat::feeder::c
