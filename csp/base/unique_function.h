// A callable that is moved, never copied: the closure of a fiber, or of a stream's operation.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace leat {

template <class Signature>
class UniqueFunction;

/// Owns one callable of signature R(Args...). Unlike std::function it accepts move-only callables.
/// Allocates only for a callable of more than kInline bytes, or whose move may throw. Empty when
/// default-constructed or moved from; calling an empty one is undefined. Not thread-safe.
template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  /// Bytes of a callable that are kept in place: a lambda that captures four references.
  static constexpr std::size_t kInline = 4 * sizeof(void*);

  UniqueFunction() noexcept = default;

  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, UniqueFunction> &&
             std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
  UniqueFunction(F&& f) {  // NOLINT(google-explicit-constructor): as std::function
    using Callable = std::decay_t<F>;
    if constexpr (kFits<Callable>) {
      ::new (static_cast<void*>(storage_)) Callable(std::forward<F>(f));
      call_ = [](void* storage, Args&&... args) -> R {
        return invoke(*std::launder(static_cast<Callable*>(storage)), std::forward<Args>(args)...);
      };
      if constexpr (!std::is_trivially_copyable_v<Callable>) {
        relocate_ = [](void* from, void* to) noexcept {
          auto* const callable = std::launder(static_cast<Callable*>(from));
          if (to != nullptr) ::new (to) Callable(std::move(*callable));
          callable->~Callable();
        };
      }
    } else {
      ::new (static_cast<void*>(storage_)) Callable*(new Callable(std::forward<F>(f)));
      call_ = [](void* storage, Args&&... args) -> R {
        return invoke(**std::launder(static_cast<Callable**>(storage)),
                      std::forward<Args>(args)...);
      };
      relocate_ = [](void* from, void* to) noexcept {
        Callable* const callable = *std::launder(static_cast<Callable**>(from));
        if (to != nullptr) {
          ::new (to) Callable*(callable);
        } else {
          delete callable;
        }
      };
    }
  }
  UniqueFunction(UniqueFunction&& other) noexcept { take(other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this == &other) return *this;
    destroy();
    take(other);
    return *this;
  }
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): it does not see relocate_ delete
  ~UniqueFunction() { destroy(); }

  R operator()(Args... args) { return call_(storage_, std::forward<Args>(args)...); }
  explicit operator bool() const noexcept { return call_ != nullptr; }

 private:
  // NOLINTBEGIN(misc-redundant-expression): of one F; another one has other numbers
  template <class F>
  static constexpr bool kFits =
      sizeof(F) <= kInline &&
      alignof(F) <= alignof(void*) && std::is_nothrow_move_constructible_v<F>;
  // NOLINTEND(misc-redundant-expression)

  template <class F>
  static R invoke(F& f, Args&&... args) {
    return static_cast<R>(f(std::forward<Args>(args)...));
  }
  // *this is empty.
  void take(UniqueFunction& other) noexcept {
    call_ = std::exchange(other.call_, nullptr);
    relocate_ = std::exchange(other.relocate_, nullptr);
    if (relocate_ != nullptr) {
      relocate_(other.storage_, storage_);
    } else {
      std::memcpy(storage_, other.storage_, kInline);
    }
  }
  void destroy() noexcept {
    if (relocate_ != nullptr) relocate_(storage_, nullptr);
    call_ = nullptr;
    relocate_ = nullptr;
  }

  alignas(void*) std::byte storage_[kInline] = {};
  R (*call_)(void* storage, Args&&... args) = nullptr;
  // Moves the callable from `from` to `to` and destroys the old one; if `to` is null, only destroys
  // it. Null if the callable can be moved as bytes.
  void (*relocate_)(void* from, void* to) noexcept = nullptr;
};

}  // namespace leat
