// Where leat-overlap has no `trace` (LEAT_OVERLAP_TRACE=OFF).
#include "leat/overlap/trace/command.h"

namespace overlap::trace {

struct Command::Arguments {};

Command::Command() = default;
Command::~Command() = default;

void Command::declare(CLI::App& /*app*/) {}
bool Command::is_asked() const { return false; }
int Command::run(int /*argc*/, const char* const* /*argv*/) noexcept { return 2; }

}  // namespace overlap::trace
