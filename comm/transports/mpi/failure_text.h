// A failure as a message to other ranks.
#pragma once

#include <string>

#include "leat/comm/error.h"
#include "leat/comm/transports/mpi/message.h"

namespace leat::comm::mpi {

/// What follows the header, in which the failure's other fields are set. At most kInlineBytes.
[[nodiscard]] std::string failure_text(const Failure& failure, Header& header);
/// The failure of a message.
[[nodiscard]] Failure failure_of(const Header& header, const std::byte* data);

}  // namespace leat::comm::mpi
