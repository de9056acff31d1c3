#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

namespace kvik {

// What drawings have in common: paper, a title, axes and a grid, in light and dark.
class SvgDrawing {
 public:
  // Pixels. `styles` and `dark_styles`: CSS of what is not common, the second for dark paper.
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

// `text` as XML may hold it.
std::string xml_escaped(const std::string& text);

// 3.4e10 → "34 G".
std::string short_number(double value);

}  // namespace kvik
