#include "leat/overlap/html.h"

#include <string>
#include <string_view>

#include "leat/overlap/report_html.h"

namespace overlap {

std::string html(const std::string& json) {
  constexpr std::string_view kPlace = "@DATA@";
  std::string page(kReportHtml);
  // "</script>" or "<!--" in a name would end the element.
  std::string data;
  data.reserve(json.size());
  for (const char one : json) {
    if (one == '<') {
      data += "\\u003c";
    } else {
      data += one;
    }
  }
  page.replace(page.find(kPlace), kPlace.size(), data);
  return page;
}

}  // namespace overlap
