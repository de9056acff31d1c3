#include "study/svg.h"

#include <cstddef>

namespace kvik {
namespace {

constexpr const char* kStyles = R"(
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; }
  .quiet { fill: #59636e; }
  .paper { fill: #ffffff; }
  .grid { stroke: #d8dee4; stroke-width: 1; }
  .axis { stroke: #59636e; stroke-width: 1; fill: none; })";

constexpr const char* kDarkStyles = R"(
    text { fill: #f0f6fc; }
    .quiet { fill: #9198a1; }
    .paper { fill: #0d1117; }
    .grid { stroke: #2b323b; }
    .axis { stroke: #9198a1; })";

}  // namespace

SvgDrawing::SvgDrawing(const Page& page, double title_left) {
  put("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\">\n<title>{2}</title>\n",
      page.width, page.height, xml_escaped(page.title));
  put("<style>{}{}  @media (prefers-color-scheme: dark) {{{}{}  }}\n</style>\n", kStyles,
      page.styles, kDarkStyles, page.dark_styles);
  put("<rect class=\"paper\" width=\"{}\" height=\"{}\"/>\n"
      "<text class=\"title\" x=\"{}\" y=\"34\">{}</text>\n",
      page.width, page.height, title_left, xml_escaped(page.title));
}

std::string xml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {  // XML does not allow control characters
      out += c;
    }
  }
  return out;
}

std::string short_number(double value) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g}{}", value, kUnits[unit]);
}

}  // namespace kvik
