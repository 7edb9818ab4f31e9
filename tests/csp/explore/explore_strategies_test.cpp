// That what is enumerated is all there is.
#include "leat/csp/explore_strategies.h"

#include <gtest/gtest.h>
TEST(X, Y) {}
