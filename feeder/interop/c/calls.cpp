#include "leat/feeder/interop/c/calls.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/base/kept_exception.h"
#include "leat/csp/base/sanitizers.h"
#include "leat/csp/error.h"
#include "leat/gpu/error.h"

namespace leat::feeder::c {
namespace {

// The error text of the read function that the thread is in, or null. It is on the stack of the
// fiber or thread that called the function.
thread_local constinit char* t_text_of_read = nullptr;
thread_local constinit bool t_without_text = false;  // the text of an error could not be kept

// Not checked by ThreadSanitizer, which treats fibers as threads: it would report a race between
// two fibers that use the memory of one thread in turn. No call parks, so none changes threads
// meanwhile.
//
// Not inlined: a fiber may have changed threads since its function began, and inlined code could
// use the address of the first thread's variable.
__attribute__((noinline, no_sanitize("thread"))) char* text_of_read() noexcept {
  return t_text_of_read;
}
__attribute__((noinline, no_sanitize("thread"))) void set_text_of_read(char* text) noexcept {
  t_text_of_read = text;
}

// The thread's error text, of kErrorBytes; null before its first error. Allocated, because a
// thread_local array would be more than the loader has room for where several plug-ins contain this
// library.
__attribute__((noinline, no_sanitize("thread"))) char*& error_text() noexcept {
  struct Text {
    char* allocated = nullptr;
    ~Text() { delete[] std::exchange(allocated, nullptr); }
  };
  thread_local constinit Text text;
  return text.allocated;
}

// Copies byte by byte, because ThreadSanitizer checks memcpy() even here.
__attribute__((noinline, no_sanitize("thread"))) void keep_text(const char* text) noexcept {
  char* text_of_thread = t_text_of_read;
  if (text_of_thread == nullptr) {
    char*& allocated = error_text();
    if (allocated == nullptr) {
      allocated = new (std::nothrow) char[kErrorBytes];
      tsan_release(allocated);
    }
    t_without_text = allocated == nullptr;
    if (t_without_text) return;
    text_of_thread = allocated;
  }
  volatile char* const kept = text_of_thread;
  const std::size_t length = std::min(std::strlen(text), kErrorBytes - 1);
  for (std::size_t i = 0; i < length; ++i) kept[i] = text[i] == '\n' ? ' ' : text[i];
  kept[length] = '\0';
}

leat_status keep(leat_status status, const char* text) noexcept {
  keep_text(text);
  return status;
}

}  // namespace

// Leaked on purpose, so that the end of the process closes nothing.
HandleTable<OpenDataset>& datasets() {
  static auto* const table = new HandleTable<OpenDataset>(1, "leat_dataset");
  return *table;
}
HandleTable<OpenPrefetcher>& prefetchers() {
  static auto* const table = new HandleTable<OpenPrefetcher>(2, "leat_prefetcher");
  return *table;
}
HandleTable<OpenBatch>& batches() {
  static auto* const table = new HandleTable<OpenBatch>(3, "leat_batch");
  return *table;
}

leat_status keep_error() {
  try {
    throw;
  } catch (const gpu::GpuError& e) {
    return keep(LEAT_ERROR_DEVICE, e.what());
  } catch (const OutOfMemory& e) {
    return keep(LEAT_ERROR_MEMORY, e.what());
  } catch (const Error& e) {
    return keep(LEAT_ERROR_ENVIRONMENT, e.what());
  } catch (const std::logic_error& e) {
    return keep(LEAT_ERROR_ARGUMENT, e.what());
  } catch (const std::bad_alloc&) {
    return keep(LEAT_ERROR_MEMORY, "leat: the host's memory is exhausted");
  } catch (const Cancelled&) {
    return keep(LEAT_ERROR_CANCELLED, "leat: the fiber that called was asked to stop");
  } catch (const std::exception& e) {
    return keep(LEAT_ERROR_INTERNAL, e.what());
  } catch (...) {
    static_cast<void>(kept_exception());
    return keep(LEAT_ERROR_INTERNAL, "leat: something was thrown that is no std::exception");
  }
}

__attribute__((noinline, no_sanitize("thread"))) const char* kept_error() noexcept {
  if (t_text_of_read != nullptr) return t_text_of_read;
  if (char* const text = error_text()) {
    tsan_acquire(text);
    return text;
  }
  return t_without_text ? "leat: the host's memory is exhausted: no room for the error's text" : "";
}

InRead::InRead() noexcept : outer_(text_of_read()) { set_text_of_read(text_.data()); }
InRead::~InRead() { set_text_of_read(outer_); }

void refuse_in_read(const char* function) {
  if (text_of_read() == nullptr) return;
  throw std::invalid_argument(std::string("leat: ") + function +
                              " was called by a dataset's read function, which may call "
                              "leat_sample_* alone");
}

OnlyUser::OnlyUser(std::atomic<bool>& in_use, const char* function) : in_use_(in_use) {
  if (!in_use.exchange(true, std::memory_order_acquire)) return;
  throw std::invalid_argument(std::string("leat: ") + function +
                              ": another thread is using it at this moment; one at a time may");
}

void require(const void* pointer, const char* function, const char* parameter) {
  if (pointer != nullptr) return;
  throw std::invalid_argument(std::string("leat: ") + function + ": " + parameter + " is null");
}

leat_status give_text(std::string_view text, char* buffer, std::size_t size, std::size_t* needed,
                      const char* function) {
  if (needed != nullptr) *needed = text.size() + 1;
  if (size == 0) return LEAT_OK;
  require(buffer, function, "buffer");
  buffer[0] = '\0';
  if (text.size() >= size) {
    return keep(LEAT_ERROR_BUFFER,
                (std::string("leat: ") + function + " needs a buffer of " +
                 std::to_string(text.size() + 1) + " bytes, not " + std::to_string(size))
                    .c_str());
  }
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  return LEAT_OK;
}

void check_size(std::size_t size, std::size_t least, std::size_t most, const char* function,
                const char* type) {
  if (size >= least && size <= most) return;
  throw std::invalid_argument(
      std::string("leat: ") + function + ": a " + type + " of " + std::to_string(size) +
      " bytes; this version of Leat, " LEAT_VERSION ", knows " + std::to_string(least) + " to " +
      std::to_string(most) + ": set its size to sizeof(" + type +
      "), and run with a library as new as the header");
}

}  // namespace leat::feeder::c

extern "C" {

#if defined(LEAT_SANITIZED)
const char LEAT_SANITIZED = 1;
#endif
const char* leat_version(void) { return LEAT_VERSION; }

const char* leat_error_text(void) { return leat::feeder::c::kept_error(); }

const char* leat_status_name(int32_t status) {
  switch (status) {
    case LEAT_OK: return "LEAT_OK";
    case LEAT_END_OF_EPOCH: return "LEAT_END_OF_EPOCH";
    case LEAT_ERROR_ARGUMENT: return "LEAT_ERROR_ARGUMENT";
    case LEAT_ERROR_ENVIRONMENT: return "LEAT_ERROR_ENVIRONMENT";
    case LEAT_ERROR_DEVICE: return "LEAT_ERROR_DEVICE";
    case LEAT_ERROR_MEMORY: return "LEAT_ERROR_MEMORY";
    case LEAT_ERROR_BUFFER: return "LEAT_ERROR_BUFFER";
    case LEAT_ERROR_CANCELLED: return "LEAT_ERROR_CANCELLED";
    case LEAT_ERROR_INTERNAL: return "LEAT_ERROR_INTERNAL";
    default: return "?";
  }
}

}  // extern "C"
