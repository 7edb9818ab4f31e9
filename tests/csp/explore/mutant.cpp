// Usage: mutant <name of a mutation>
//
// Linked with a copy of the algorithm into which that bug was planted: shows that explore() finds
// it, by sampling and by enumerating, and that the schedule it tells makes it happen again. Fails
// where it does not.
#include <cstdio>
#include <string_view>

#include "leat/csp/explore.h"
#include "tests/csp/explore/mutations.h"

namespace {

using leat::ExploreOptions;
using leat::ExploreResult;
using leat::scenarios::Mutation;

bool finds(void (*program)(), const char* how, const ExploreOptions& options) {
  const ExploreResult found = leat::explore(program, options);
  if (found) {
    std::printf("  %s: not found in %llu schedules\n", how,
                static_cast<unsigned long long>(found.schedules));
    return false;
  }
  const ExploreResult again = leat::replay(program, found.schedule, options);
  const bool same = again.failure == found.failure;
  std::printf("  %s: found in schedule %llu: %s\n    replayed \"%s\": %s\n", how,
              static_cast<unsigned long long>(found.schedules), found.failure.c_str(),
              found.schedule.c_str(), same ? "the same" : again.failure.c_str());
  return same;
}

bool finds(const Mutation& mutation) {
  std::printf("%s\n", mutation.bug);
  bool all = true;
  for (const bool exhaustive : {false, true}) {
    const std::uint64_t schedules = exhaustive ? 1'000'000 : 1000;
    if (mutation.between_threads != nullptr) {
      all &=
          finds(mutation.between_threads, exhaustive ? "threads, enumerated" : "threads, sampled",
                {.schedules = schedules, .exhaustive = exhaustive, .workers = 0, .quiet = true});
    }
    all &= finds(mutation.between_fibers, exhaustive ? "fibers, enumerated" : "fibers, sampled",
                 {.schedules = schedules,
                  .exhaustive = exhaustive,
                  .workers = mutation.workers,
                  .quiet = true});
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  for (const Mutation& mutation : leat::scenarios::kMutations) {
    if (argc == 2 && std::string_view(argv[1]) == mutation.name) return finds(mutation) ? 0 : 1;
  }
  std::fprintf(stderr, "usage: mutant <name of a mutation>\n");
  return 2;
}
