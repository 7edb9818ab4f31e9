// The operations that a handle does not offer are refused by the compiler: this file compiles, or
// the build fails. It has no test to run. Each requirement is also asked of a handle that meets it,
// so that none is refused for another reason. refused/ has the cases that no requirement can
// express.
#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "tests/support/values.h"

namespace leat {
namespace channel_direction_test {

using support::Counted;
using support::OnlyMoveConstructible;

template <class H>
using Value = typename H::value_type;

template <class H>
concept Sends = requires(const H handle, Value<H> value) {
  handle.send(std::move(value));
};
template <class H>
concept SendsCopies = requires(const H handle, const Value<H> value) {
  handle.send(value);
};
template <class H>
concept SendsLvalues = requires(const H handle, Value<H> value) {
  handle.send(value);
};
template <class H>
concept TriesToSend = requires(const H handle, Value<H> value) {
  handle.try_send(std::move(value));
};
template <class H>
concept SendsUntil = requires(const H handle, Value<H> value) {
  handle.send_until(std::move(value), TimePoint());
};
template <class H>
concept Closes = requires(const H handle) {
  handle.close();
};
template <class H>
concept TriesToClose = requires(const H handle) {
  handle.try_close();
};
template <class H>
concept StandsInOnSend = requires(const H handle, Value<H> value) {
  on_send(handle, std::move(value));
};
template <class H>
concept StandsInOnSendWithAnLvalue = requires(const H handle, Value<H> value) {
  on_send(handle, value);
};
template <class H>
concept StandsInOnSendWithACopy = requires(const H handle, const Value<H> value) {
  on_send(handle, value);
};

template <class H>
concept Receives = requires(const H handle) {
  handle.recv();
};
template <class H>
concept TriesToReceive = requires(const H handle, std::optional<Value<H>> value) {
  handle.try_recv(value);
};
template <class H>
concept ReceivesUntil = requires(const H handle, std::optional<Value<H>> value) {
  handle.recv_until(value, TimePoint());
};
template <class H>
concept IsARange = requires(const H handle) {
  handle.begin() != handle.end();
};
template <class H>
concept StandsInOnRecv = requires(const H handle) {
  on_recv(handle);
};

template <class T>
concept HasChannel = requires {
  typename Channel<T>;
};
template <class T>
concept HasSender = requires {
  typename Sender<T>;
};
template <class T>
concept HasReceiver = requires {
  typename Receiver<T>;
};

using Both = Channel<int>;
using Out = Sender<int>;
using In = Receiver<int>;

// A receiver neither sends nor closes.
static_assert(Sends<Both> && Sends<Out> && !Sends<In>);
static_assert(SendsCopies<Both> && SendsCopies<Out> && !SendsCopies<In>);
static_assert(TriesToSend<Both> && TriesToSend<Out> && !TriesToSend<In>);
static_assert(SendsUntil<Both> && SendsUntil<Out> && !SendsUntil<In>);
static_assert(Closes<Both> && Closes<Out> && !Closes<In>);
static_assert(TriesToClose<Both> && TriesToClose<Out> && !TriesToClose<In>);

// A sender does not receive.
static_assert(Receives<Both> && Receives<In> && !Receives<Out>);
static_assert(TriesToReceive<Both> && TriesToReceive<In> && !TriesToReceive<Out>);
static_assert(ReceivesUntil<Both> && ReceivesUntil<In> && !ReceivesUntil<Out>);
static_assert(IsARange<Both> && IsARange<In> && !IsARange<Out>);

// A case of a select takes no handle of the other direction.
static_assert(StandsInOnSend<Both> && StandsInOnSend<Out> && !StandsInOnSend<In>);
static_assert(StandsInOnSendWithAnLvalue<Both> && StandsInOnSendWithAnLvalue<Out> &&
              !StandsInOnSendWithAnLvalue<In>);
static_assert(StandsInOnSendWithACopy<Both> && StandsInOnSendWithACopy<Out> &&
              !StandsInOnSendWithACopy<In>);
static_assert(StandsInOnRecv<Both> && StandsInOnRecv<In> && !StandsInOnRecv<Out>);
static_assert(SendingHandle<Both> && SendingHandle<Out> && !SendingHandle<In>);
static_assert(ReceivingHandle<Both> && ReceivingHandle<In> && !ReceivingHandle<Out>);

// A channel converts to its views. No view converts back to a channel or to the other view.
static_assert(std::convertible_to<Both, Out> && std::convertible_to<Both, In>);
static_assert(!std::constructible_from<Both, Out> && !std::constructible_from<Both, In>);
static_assert(!std::constructible_from<Out, In> && !std::constructible_from<In, Out>);
static_assert(std::is_assignable_v<Out&, Both> && std::is_assignable_v<In&, Both>);
static_assert(!std::is_assignable_v<Both&, Out> && !std::is_assignable_v<Both&, In>);
static_assert(!std::is_assignable_v<Out&, In> && !std::is_assignable_v<In&, Out>);
static_assert(std::copyable<Both> && std::copyable<Out> && std::copyable<In>);

// A channel of one type does not convert to a channel, or to a view, of another type.
static_assert(!std::constructible_from<Channel<long>, Both>);
static_assert(!std::constructible_from<Sender<long>, Both>);
static_assert(!std::constructible_from<Receiver<long>, Both>);

// A number does not convert to a channel by itself.
static_assert(std::constructible_from<Both, int> && !std::convertible_to<int, Both>);
static_assert(!std::constructible_from<Out, int> && !std::constructible_from<In, int>);

// A value that cannot be copied is sent by a move only.
using Only = Channel<Counted>;
static_assert(Sends<Only> && TriesToSend<Only> && SendsUntil<Only> && StandsInOnSend<Only>);
static_assert(SendsLvalues<Both> && !SendsLvalues<Only> && !SendsLvalues<Sender<Counted>>);
static_assert(SendsCopies<Both> && !SendsCopies<Only> && !SendsCopies<Sender<Counted>>);
static_assert(StandsInOnSendWithACopy<Both> && !StandsInOnSendWithACopy<Only>);
static_assert(!StandsInOnSendWithAnLvalue<Only> && StandsInOnSend<Channel<OnlyMoveConstructible>>);
static_assert(Sends<Channel<OnlyMoveConstructible>> &&
              !SendsCopies<Channel<OnlyMoveConstructible>>);

struct ThrowsWhenMoved {
  ThrowsWhenMoved() = default;
  ThrowsWhenMoved(ThrowsWhenMoved&& /*other*/) noexcept(false) {}
};
struct ThrowsWhenDestroyed {
  ThrowsWhenDestroyed() = default;
  ThrowsWhenDestroyed(ThrowsWhenDestroyed&&) noexcept = default;
  ~ThrowsWhenDestroyed() noexcept(false) {}  // NOLINT(modernize-use-equals-default)
};
struct Immovable {
  Immovable() = default;
  Immovable(const Immovable&) = delete;
};

template <class T>
constexpr bool kHasAll = HasChannel<T>&& HasSender<T>&& HasReceiver<T>;
template <class T>
constexpr bool kHasNone = !HasChannel<T> && !HasSender<T> && !HasReceiver<T>;

// A type whose move or destructor may throw has no channel.
static_assert(kHasAll<int> && kHasAll<const int*> && kHasAll<Counted>);
static_assert(kHasAll<OnlyMoveConstructible> && kHasAll<Both>);
static_assert(kHasNone<ThrowsWhenMoved> && kHasNone<ThrowsWhenDestroyed> && kHasNone<Immovable>);
static_assert(kHasNone<int&> && kHasNone<void> && kHasNone<int()>);
static_assert(Sendable<int> && Sendable<Counted> && Sendable<OnlyMoveConstructible>);
static_assert(!Sendable<ThrowsWhenMoved> && !Sendable<int&> && !Sendable<void>);

}  // namespace channel_direction_test
}  // namespace leat
