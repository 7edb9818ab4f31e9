#include "leat/comm/transports/mpi/failure_text.h"

#include <array>
#include <string_view>

namespace leat::comm::mpi {
namespace {

constexpr std::size_t kMostText = kInlineBytes / 3 - 1;

}  // namespace

std::string failure_text(const Failure& failure, Header& header) {
  std::string text;
  for (const std::string* const one : {&failure.operation, &failure.tensor, &failure.what}) {
    text += std::string_view(*one).substr(0, kMostText);
    text += '\0';
  }
  header.is_absent = failure.is_mismatch;
  header.tag = failure.peer;
  header.bytes = static_cast<std::uint32_t>(text.size());
  return text;
}

Failure failure_of(const Header& header, const std::byte* data) {
  Failure failure{.is_mismatch = header.is_absent, .peer = header.tag};
  std::string_view rest(reinterpret_cast<const char*>(data), header.bytes);
  for (std::string* const one : {&failure.operation, &failure.tensor, &failure.what}) {
    const std::size_t end = rest.find('\0');
    *one = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return failure;
}

}  // namespace leat::comm::mpi
