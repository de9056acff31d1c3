#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "study/plan/fit_table.h"
#include "study/svg.h"

namespace kvik {
namespace {

// Sizes in pixels.
constexpr double kWidth = 1000, kHeight = 620;
constexpr double kTop = 70, kBottom = 540, kLeft = 90, kRight = 720, kLegend = 810;
constexpr double kSamples = 200;

constexpr const char* kStyles = R"(
  .line { stroke-width: 2; fill: none; }
  .c0 { stroke: #0969da; } .c1 { stroke: #bc4c00; } .c2 { stroke: #1a7f37; } .c3 { stroke: #8250df; }
  .bf16 { stroke-dasharray: 2 4; } .int8 { stroke-dasharray: 9 4; }
)";
constexpr const char* kDarkStyles = R"(
    .c0 { stroke: #58a6ff; } .c1 { stroke: #f0883e; } .c2 { stroke: #3fb950; }
    .c3 { stroke: #bc8cff; }
)";

class FitDrawing {
 public:
  explicit FitDrawing(const FitTable& table)
      : table_(table),
        svg_({.width = kWidth,
              .height = kHeight,
              .title = table.model + ": what context fits into which memory",
              .styles = kStyles,
              .dark_styles = kDarkStyles},
             kLeft) {
    m_begin_ = std::log2(static_cast<double>(table.memory_bytes.front())) - 1;
    m_end_ = std::log2(static_cast<double>(table.memory_bytes.back()));
    t_begin_ = 3;  // 1,000 tokens
    t_end_ = t_begin_ + 1;
    for (const FitRow& row : table.rows) {
      t_end_ = std::max(t_end_, std::log10(std::max(1.0, tokens(row, std::exp2(m_end_)))));
    }
    t_end_ = std::ceil(t_end_);
  }

  std::string draw() {
    axes();
    lines();
    return std::move(svg_).finish();
  }

 private:
  // Returns the number of tokens of all users together. The number of users may be a fraction.
  double tokens(const FitRow& row, double memory_bytes) const {
    const double left = memory_bytes - static_cast<double>(row.users.fixed_bytes);
    return left / static_cast<double>(row.users.bytes_per_user) * static_cast<double>(table_.n_ctx);
  }
  double x(double log2_bytes) const {
    return kLeft + (log2_bytes - m_begin_) / (m_end_ - m_begin_) * (kRight - kLeft);
  }
  double y(double log10_tokens) const {
    return kBottom - (log10_tokens - t_begin_) / (t_end_ - t_begin_) * (kBottom - kTop);
  }

  void axes() {
    for (double e = std::ceil(m_begin_); e <= m_end_; ++e) {
      svg_.put(
          "<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/>\n<text class=\"quiet\" x=\"{0:.1f}\" "
          "y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
          x(e), kTop, kBottom, kBottom + 20, std::exp2(e - 30));
    }
    for (double e = t_begin_; e <= t_end_; ++e) {
      const double n_users = std::pow(10, e) / static_cast<double>(table_.n_ctx);
      svg_.put(
          "<path class=\"grid\" d=\"M{0} {1:.1f}H{2}\"/>\n<text class=\"quiet\" x=\"{3}\" "
          "y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n<text class=\"quiet\" x=\"{6}\" "
          "y=\"{4:.1f}\">{7}</text>\n",
          kLeft, y(e), kRight, kLeft - 8, y(e) + 4, short_number(std::pow(10, e)), kRight + 8,
          n_users >= 1 ? short_number(n_users) : std::string("-"));
    }
    svg_.put("<path class=\"axis\" d=\"M{0} {1}V{2}H{3}V{1}\"/>\n", kLeft, kTop, kBottom, kRight);
    svg_.put("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">memory [GiB]</text>\n",
             (kLeft + kRight) / 2, kBottom + 46);
    svg_.put(
        "<text transform=\"translate(24 {})rotate(-90)\" text-anchor=\"middle\">tokens of "
        "context, all users together</text>\n",
        (kTop + kBottom) / 2);
    svg_.put(
        "<text transform=\"translate(786 {})rotate(-90)\" text-anchor=\"middle\">users of {} "
        "tokens each</text>\n",
        (kTop + kBottom) / 2, table_.n_ctx);
  }

  // Draws the lines, with one color for each weight type and one dash pattern for each KV type.
  void lines() {
    std::map<std::string, size_t> colors;
    double legend_y = kTop + 8;
    for (const FitRow& row : table_.rows) {
      const size_t color = colors.emplace(row.weights, colors.size()).first->second % 4;
      const std::string kind = fmt::format("line c{} {}", color, name_of(row.kv_type));
      std::string path;
      for (double i = 0; i <= kSamples; ++i) {
        const double m = m_begin_ + (m_end_ - m_begin_) * i / kSamples;
        const double n = tokens(row, std::exp2(m));
        if (n < std::pow(10, t_begin_)) continue;
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(m), y(std::log10(n)));
      }
      if (!path.empty()) svg_.put("<path class=\"{}\" d=\"{}\"/>\n", kind, path);
      svg_.put(
          "<path class=\"{}\" d=\"M{} {:.1f}h36\"/>\n<text x=\"{}\" y=\"{:.1f}\">{}, {} "
          "KV</text>\n",
          kind, kLegend, legend_y, kLegend + 44, legend_y + 4, xml_escaped(row.weights),
          name_of(row.kv_type));
      legend_y += 24;
    }
  }

  const FitTable& table_;
  double m_begin_ = 0, m_end_ = 0;  // base-2 logarithms of bytes
  double t_begin_ = 0, t_end_ = 0;  // base-10 logarithms of tokens
  SvgDrawing svg_;
};

}  // namespace

std::string fit_svg(const FitTable& table) { return FitDrawing(table).draw(); }

}  // namespace kvik
