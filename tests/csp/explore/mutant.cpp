// Usage: mutant <name of a mutation>
//
// Linked with a copy of the algorithm into which that bug was planted: shows that explore() finds
// it, by sampling and by enumerating, and that the schedule it tells makes it happen again. Fails
// where it does not.
#include <cstdio>
#include <string_view>

#include "leat/csp/explore.h"
#include "mutations.h"

namespace {

using leat::ExploreOptions;
using leat::ExploreResult;
using leat::scenarios::Mutation;

bool finds(const Mutation& mutation, const char* how, const ExploreOptions& options) {
  const ExploreResult found = leat::explore(mutation.program, options);
  if (found) {
    std::printf("%s, %s: not found in %llu schedules\n", mutation.name, how,
                static_cast<unsigned long long>(found.schedules));
    return false;
  }
  const ExploreResult again = leat::replay(mutation.program, found.schedule, options);
  std::printf("%s, %s: found in schedule %llu: %s; again: %s\n", mutation.name, how,
              static_cast<unsigned long long>(found.schedules), found.failure.c_str(),
              again.failure.c_str());
  return again.failure == found.failure;
}

}  // namespace

int main(int argc, char** argv) {
  for (const Mutation& mutation : leat::scenarios::kMutations) {
    if (argc != 2 || std::string_view(argv[1]) != mutation.name) continue;
    std::printf("planted: %s\n", mutation.bug);
    const bool sampled = finds(mutation, "sampled", {.workers = mutation.workers});
    const bool enumerated = finds(
        mutation, "enumerated",
        {.schedules = 1'000'000, .exhaustive = true, .preemptions = 2, .workers = mutation.workers});
    return sampled && enumerated ? 0 : 1;
  }
  std::fprintf(stderr, "usage: mutant <name of a mutation>\n");
  return 2;
}
