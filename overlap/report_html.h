// overlap/report.html as a string, which the build generates (report_html.cpp.in).
#pragma once

#include <string_view>

namespace overlap {

extern const std::string_view kReportHtml;

}  // namespace overlap
