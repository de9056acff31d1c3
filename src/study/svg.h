#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

namespace kvik {

// Draws the common parts of the charts: background, title, axes and grid, in light and dark colors.
class SvgDrawing {
 public:
  // Sizes are in pixels. `styles` and `dark_styles`: additional CSS, the second for dark mode.
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

// Returns `text` escaped for XML.
std::string xml_escaped(const std::string& text);

// Returns a short form of a number: "34 G" for 3.4e10.
std::string short_number(double value);

}  // namespace kvik
