// overlap/report.html as the build has put it into a string (report_html.cpp.in).
#pragma once

#include <string_view>

namespace overlap {

extern const std::string_view kReportHtml;

}  // namespace overlap
