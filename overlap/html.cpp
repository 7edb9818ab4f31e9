#include "leat/overlap/html.h"

#include <cstddef>
#include <string>
#include <string_view>

#include "leat/overlap/figure.h"
#include "leat/overlap/page.h"
#include "leat/overlap/report_html.h"

namespace overlap {
namespace {

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
  std::string page;
  std::string_view rest = kReportHtml;
  fill(page, rest, "/*@PALETTE@*/", kPalette);
  fill(page, rest, "<!--@FIGURES@-->", figures);
  fill(page, rest, "@DATA@", in_script(json_report(from, runs, sweep)));
  return page.append(rest);
}

}  // namespace overlap
