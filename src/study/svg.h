#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

namespace kvik {

// Common parts of the charts: background, title, axes and grid, in light and dark colors.
class SvgDrawing {
 public:
  // Sizes in pixels. `styles` and `dark_styles`: additional CSS, the second for dark mode.
  struct Page {
    double width, height;
    std::string title;
    std::string styles, dark_styles;
  };
  SvgDrawing(const Page& page, double title_left);

  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  std::string finish() && { return std::move(out_) + "</svg>\n"; }

 private:
  std::string out_;
};

// `text` escaped for XML.
std::string xml_escaped(const std::string& text);

// 3.4e10 → "34 G".
std::string short_number(double value);

}  // namespace kvik
