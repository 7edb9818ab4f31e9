// A callable that is moved, never copied: what a fiber runs, what a stream executes.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace leat {

template <class Signature>
class UniqueFunction;

/// Owns one callable of signature R(Args...). Unlike std::function it accepts move-only callables.
/// Allocates once, on construction. Empty when default-constructed or moved from; calling an empty
/// one is undefined. Not thread-safe.
template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() noexcept = default;

  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, UniqueFunction> &&
             std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
  UniqueFunction(F&& f)  // NOLINT(google-explicit-constructor): as std::function
      : callable_(std::make_unique<Holder<std::decay_t<F>>>(std::forward<F>(f))) {}

  R operator()(Args... args) { return callable_->call(std::forward<Args>(args)...); }
  explicit operator bool() const noexcept { return callable_ != nullptr; }

 private:
  struct Callable {
    Callable() = default;
    Callable(const Callable&) = delete;
    Callable& operator=(const Callable&) = delete;
    virtual ~Callable() = default;
    virtual R call(Args... args) = 0;
  };

  template <class F>
  struct Holder final : Callable {
    template <class G>
    explicit Holder(G&& g) : f(std::forward<G>(g)) {}
    R call(Args... args) override { return static_cast<R>(f(std::forward<Args>(args)...)); }
    F f;
  };

  std::unique_ptr<Callable> callable_;
};

}  // namespace leat
