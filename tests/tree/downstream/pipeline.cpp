// A program that has leat::pipeline alone.
#include <cstdio>

#include "leat/pipeline/check.h"
#include "leat/pipeline/kinds.h"
#include "leat/pipeline/simulate.h"

int main() {
  using namespace leat::pipeline;
  const Schedule order = make(Kind::kOneFOneB, {.ranks = 4, .microbatches = 8});
  const bool is_right =
      check(order).findings.empty() && simulate(order).makespan == (8 + 4 - 1) * 3;
  std::puts(is_right ? "33 ticks" : "wrong");
  return is_right ? 0 : 1;
}
