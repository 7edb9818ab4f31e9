// Pages as strings, which the build generates (report_html.cpp.in), with page.css and page.js.
#pragma once

#include <string_view>

namespace overlap {

/// overlap/report.html
extern const std::string_view kReportHtml;
/// overlap/trace/report/page.html
extern const std::string_view kTraceHtml;

}  // namespace overlap
