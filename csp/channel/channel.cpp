#include "leat/csp/channel.h"

#include <string>
#include <utility>

namespace leat {
namespace {

std::string message(const std::string& channel, const char* operation, const char* why) {
  return "leat: " + std::string(operation) + " on " + channel + ": " + why;
}

}  // namespace

void throw_channel_closed(const ChannelCore& core, const char* operation) {
  const ChannelClosed closed(message(core.describe(), operation, "it is closed"));
  if (const std::exception_ptr cause = core.cause()) {
    try {
      std::rethrow_exception(cause);
    } catch (...) {
      std::throw_with_nested(closed);
    }
  }
  throw closed;
}

void rethrow_cause(const ChannelCore& core) {
  if (const std::exception_ptr cause = core.cause()) std::rethrow_exception(cause);
}

void close_channel(ChannelCore* core, std::exception_ptr cause) {
  if (core == nullptr)
    throw ChannelClosed(message("the nil channel", "close", "it cannot be closed"));
  if (!core->close(std::move(cause))) {
    throw ChannelClosed(message(core->describe(), "close", "it is closed already"));
  }
}

}  // namespace leat
