// What the reports for a browser share: colours, and how text gets into a page.
#pragma once

#include <string>
#include <string_view>

namespace overlap {

/// Style sheet that defines the colours of figures and of reports as variables.
extern const std::string_view kPalette;

/// Moves `rest` up to `place` to the page, and appends `text` instead of `place`, which is there.
/// Inserted text is never searched for further places, because a name in it may be anything.
void fill(std::string& page, std::string_view& rest, std::string_view place, std::string_view text);

/// Returns the JSON for a <script> element, which "</script>" and "<!--" in a text would end.
[[nodiscard]] std::string in_script(std::string_view json);

}  // namespace overlap
