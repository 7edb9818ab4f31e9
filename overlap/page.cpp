#include "leat/overlap/page.h"

#include <cstddef>

namespace overlap {

const std::string_view kPalette = R"(
  :root {
    color-scheme: light dark;
    --page: #fbfbfa; --card: #ffffff; --ink: #1c2024; --soft: #5f6b76; --line: #dfe3e6; --on: #ffffff;
    --busy: #2f7d4f; --starved: #a8620f; --blocked: #b9c2ca; --read: #5566c4; --copy: #1f7ea3;
    --use: #2f7d4f;
  }
  @media (prefers-color-scheme: dark) {
    :root {
      --page: #15181b; --card: #1d2125; --ink: #e6e9ec; --soft: #9aa5af; --line: #343a40; --on: #10151a;
      --busy: #58b27e; --starved: #e3a452; --blocked: #515b64; --read: #8f9cf0; --copy: #52b6db;
      --use: #58b27e;
    }
  }
)";

void fill(std::string& page, std::string_view& rest, std::string_view place,
          std::string_view text) {
  const std::size_t here = rest.find(place);
  page += rest.substr(0, here);
  page += text;
  rest.remove_prefix(here + place.size());
}

std::string in_script(std::string_view json) {
  std::string text;
  for (const char one : json) {
    if (one == '<') {
      text += "\\u003c";
    } else {
      text += one;
    }
  }
  return text;
}

}  // namespace overlap
