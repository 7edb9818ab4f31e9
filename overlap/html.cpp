#include "leat/overlap/html.h"

#include <cstddef>
#include <string>
#include <string_view>

#include "leat/overlap/figure.h"
#include "leat/overlap/report_html.h"

namespace overlap {
namespace {

// Moves `rest` up to `place` to the page, and appends `text` instead of `place`. Inserted text is
// never searched for further places, because a file's name may contain anything.
void fill(std::string& page, std::string_view& rest, std::string_view place,
          std::string_view text) {
  const std::size_t here = rest.find(place);
  page += rest.substr(0, here);
  page += text;
  rest.remove_prefix(here + place.size());
}

std::string as_template(const std::string& id, const std::string& content) {
  return content.empty() ? "" : "<template id=\"" + id + "\">\n" + content + "</template>\n";
}

}  // namespace

std::string html_report(const Provenance& from, const std::vector<Measurement>& runs,
                        const Sweep* sweep) {
  std::string figures;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].trace.empty()) continue;
    figures += as_template("run-" + std::to_string(i), timelines_svg({&runs[i]}));
  }
  if (sweep != nullptr) {
    figures += as_template("detailed", timelines_svg(sweep->detailed()));
    figures += as_template("maps", heat_maps_svg(*sweep));
  }
  std::string data;
  // "</script>" or "<!--" in a name would end the element.
  for (const char one : json_report(from, runs, sweep)) {
    if (one == '<') {
      data += "\\u003c";
    } else {
      data += one;
    }
  }
  std::string page;
  std::string_view rest = kReportHtml;
  fill(page, rest, "/*@PALETTE@*/", kPalette);
  fill(page, rest, "<!--@FIGURES@-->", figures);
  fill(page, rest, "@DATA@", data);
  return page.append(rest);
}

}  // namespace overlap
