#include "leat/comm/transports/mpi/message.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace leat::comm::mpi {
namespace {

// Of each of a failure's texts, as another rank hears it.
constexpr std::size_t kMostText = kInlineBytes / 3 - 1;

KeptMessage kept(Header header, const void* data, std::size_t bytes) {
  header.bytes = static_cast<std::uint32_t>(bytes);
  const auto* const begin = static_cast<const std::byte*>(data);
  return {.header = header, .data = {begin, begin + bytes}};
}

}  // namespace

KeptMessage message_of(const Failure& failure, bool fail_others) {
  std::string texts;
  if (fail_others) {
    for (const std::string* const one : {&failure.operation, &failure.tensor, &failure.what}) {
      texts += std::string_view(*one).substr(0, kMostText);
      texts += '\0';
    }
  }
  return kept({.kind = fail_others ? MessageKind::kFail : MessageKind::kFailed,
               .is_absent = failure.is_mismatch,
               .tag = failure.peer},
              texts.data(), texts.size());
}

Failure failure_in(const Header& header, const std::byte* data) {
  Failure failure{.is_mismatch = header.is_absent, .peer = header.tag};
  std::string_view rest(reinterpret_cast<const char*>(data), header.bytes);
  for (std::string* const one : {&failure.operation, &failure.tensor, &failure.what}) {
    const std::size_t end = rest.find('\0');
    *one = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return failure;
}

KeptMessage message_of(const Answer& answer, std::uint64_t question) {
  const std::size_t count = std::min(answer.whom.size(), kInlineBytes / sizeof(Wait));
  return kept({.kind = MessageKind::kAnswer, .is_absent = answer.waits, .value = question},
              answer.whom.data(), count * sizeof(Wait));
}

Answer answer_in(const Header& header, const std::byte* data) {
  Answer answer{.waits = header.is_absent, .whom = std::vector<Wait>(header.bytes / sizeof(Wait))};
  if (!answer.whom.empty()) std::memcpy(answer.whom.data(), data, header.bytes);
  return answer;
}

}  // namespace leat::comm::mpi
