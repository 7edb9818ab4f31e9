// What a deadlock's report says.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"

namespace leat::support {

/// The report that run throws for `body`; empty if it throws none.
inline std::string report_of(const std::function<void()>& body, const SchedulerOptions& options) {
  try {
    run(body, options);
  } catch (const Deadlock& deadlock) {
    return deadlock.what();
  }
  return "";
}

inline void expect_in(const std::string& report, const std::string& part) {
  EXPECT_NE(report.find(part), std::string::npos) << "no '" << part << "' in: " << report;
}
}  // namespace leat::support
