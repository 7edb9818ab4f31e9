// Makes handles that outlive main, with work queued, and lets the process end: they go in the order
// that is asked for, after main has returned. Ends with 0 if that is all, with 77 if there is no
// such device.
//
//   gpu_at_exit host|cuda <order: 0 to 5>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/selector.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"

namespace {

using namespace leat::gpu;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kBytes = std::size_t{8} << 20;

struct Handles {
  std::optional<Device> device;
  std::optional<Stream> stream;
  std::optional<Stream> other;
  std::optional<Event> event;
  std::optional<DeviceBuffer> there;
  std::optional<PinnedArena> arena;
  std::optional<PinnedBuffer> pinned;
  leat::Selector pending;

  explicit Handles(const char* name) : device(open(name)) {
    stream.emplace(*device);
    other.emplace(*device);
    event.emplace(*device);
    there.emplace(*device, kBytes);
    arena.emplace(*device, kBytes);
    pinned.emplace(*device, kBytes);
    const PinnedSpan slot = arena->take(kBytes);
    for (int i = 0; i < 4; ++i) {
      copy_async(*stream, there->span(), slot);
      event->record(*stream);
      other->wait(*event);
      copy_async(*other, pinned->span(), there->span());
      event->record(*other);
      stream->wait(*event);
    }
    pending.add(on_done(*event));
    static_cast<void>(pending.try_select());
  }

  void drop(int what) {
    switch (what) {
      case 0: device.reset(); break;
      case 1: stream.reset(); break;
      case 2: event.reset(); break;
      case 3: there.reset(); break;
      case 4: arena.reset(); break;
      case 5: pinned.reset(); break;
      case 6: other.reset(); break;
      default: pending.clear(); break;
    }
  }
};

// Six of the orders, in which each handle is once early and once late.
constexpr std::array<std::array<int, 8>, 6> kOrders{{{0, 1, 2, 3, 4, 5, 6, 7},
                                                     {7, 6, 5, 4, 3, 2, 1, 0},
                                                     {3, 4, 5, 0, 7, 1, 6, 2},
                                                     {1, 6, 2, 7, 0, 3, 4, 5},
                                                     {4, 3, 5, 7, 2, 6, 1, 0},
                                                     {2, 7, 4, 1, 5, 0, 3, 6}}};

/// A static, whose destructor runs when main has returned.
struct AtExit {
  std::optional<Handles> handles;
  int order = 0;
  ~AtExit() {
    if (!handles) return;
    for (const int what : kOrders.at(static_cast<std::size_t>(order))) handles->drop(what);
  }
};
AtExit g_at_exit;  // NOLINT(bugprone-throwing-static-initialization): it is what is tested

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  g_at_exit.order = std::atoi(argv[2]);
  try {
    g_at_exit.handles.emplace(argv[1]);
  } catch (const GpuError& error) {
    std::puts(error.what());
    return 1;
  } catch (const leat::Error& none) {
    std::puts(none.what());
    return 77;
  }
  return 0;
}
