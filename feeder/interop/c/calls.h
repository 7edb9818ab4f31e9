// What the functions of the C API have in common: the handles behind which their objects are, and
// how an exception becomes a status and a text.
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

/// Behind a leat_dataset.
struct OpenDataset {
  std::shared_ptr<const Dataset> dataset;
  std::vector<leat_field> fields;  // views of the dataset's own
};

/// Behind a leat_prefetcher, for which leat_prefetcher_close alone deletes it: the shared pointers
/// to it say who uses it, the last of them notifies `unused`.
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
  std::size_t tensors = 0;  // of a batch: each field, and the lengths of those that have them or,
                            // packed, where samples begin
  std::uint64_t first_epoch = 0;
  std::atomic<bool> in_use = false;    // by leat_prefetcher_next or _start_epoch
  std::optional<std::uint64_t> start;  // the epoch that the next call begins with
  const std::shared_ptr<Notification> unused = std::make_shared<Notification>();
};

/// Behind a leat_batch.
struct OpenBatch {
  OpenBatch(Lease&& given, std::size_t count) noexcept : lease(std::move(given)), tensors(count) {}
  Lease lease;
  const std::size_t tensors;  // how many it has
  std::atomic<bool> in_use = false;
};

[[nodiscard]] HandleTable<OpenDataset>& datasets();
[[nodiscard]] HandleTable<OpenPrefetcher>& prefetchers();
[[nodiscard]] HandleTable<OpenBatch>& batches();

/// Within a catch block: keeps what is being handled as the calling thread's error text, and says
/// which status it is.
[[nodiscard]] leat_status keep_error() noexcept;
/// That text; empty if there is none.
[[nodiscard]] const char* kept_error() noexcept;

/// Throws std::invalid_argument where the calling thread is in a leat_read_function: a prefetcher
/// that is used by its own reads would wait for itself.
void refuse_in_read(const char* function);
/// Of the text of an error, with its end.
constexpr std::size_t kErrorBytes = 1024;
/// While one lives, the calling thread is in one, whose errors' text it has.
class InRead {
 public:
  InRead() noexcept;
  ~InRead();
  InRead(const InRead&) = delete;
  InRead& operator=(const InRead&) = delete;

 private:
  std::array<char, kErrorBytes> text_{};
  char* const outer_;  // of the read function that this one is called in
};

/// The only user of an object, among those who ask. Throws std::invalid_argument where there is
/// one already.
class OnlyUser {
 public:
  OnlyUser(std::atomic<bool>& in_use, const char* function);
  ~OnlyUser() { in_use_.store(false, std::memory_order_release); }
  OnlyUser(const OnlyUser&) = delete;
  OnlyUser& operator=(const OnlyUser&) = delete;

 private:
  std::atomic<bool>& in_use_;
};

/// Throws std::invalid_argument, naming the parameter, for null.
void require(const void* pointer, const char* function, const char* parameter);

/// Runs `body`, which is given `function` and returns a status; what it throws becomes one.
template <class Body>
[[nodiscard]] leat_status call(const char* function, Body&& body) noexcept {
  try {
    refuse_in_read(function);
    return body(function);
  } catch (...) {
    return keep_error();
  }
}

/// As snprintf: copies `text` to the caller's buffer if it has room for all of it.
[[nodiscard]] leat_status give_text(std::string_view text, char* buffer, std::size_t size,
                                    std::size_t* needed, const char* function);

/// Copies as much of `from` as the caller's header knows of it: `size` bytes. Throws
/// std::invalid_argument for more than there is, and for less than `least`.
void check_size(std::size_t size, std::size_t least, std::size_t most, const char* function,
                const char* type);
template <class T>
void give_struct(const T& from, T* to, std::size_t size, std::size_t least, const char* function,
                 const char* type) {
  check_size(size, least, sizeof(T), function, type);
  std::memcpy(to, &from, size);
}

}  // namespace leat::feeder::c
