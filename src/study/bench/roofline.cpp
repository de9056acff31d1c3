#include "study/bench/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "study/svg.h"

namespace kvik {
namespace {

// Sizes in pixels.
constexpr double kWidth = 1000, kTop = 60, kBottom = 560, kLeft = 90, kRight = 660;
constexpr double kLabelLeft = 700, kLabelHeight = 36;

constexpr const char* kStyles = R"(
  .roof { stroke: #1f2328; stroke-width: 2; fill: none; }
  .lead { stroke: #8c959f; stroke-width: 1; fill: none; }
  .halo { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
  .prefill { fill: #bc4c00; }
  .decode { fill: #0969da; }
)";
constexpr const char* kDarkStyles = R"(
    .roof { stroke: #f0f6fc; }
    .lead { stroke: #656c76; }
    .halo { stroke: #0d1117; }
    .prefill { fill: #f0883e; }
    .decode { fill: #58a6ff; }
)";

struct Ceiling {
  const char* name;
  double ops_per_s;
};

struct Point {
  double ops_per_byte, ops_per_s;
};

Point point_of(const BenchResult& r) {
  return {r.work.ops() / r.work.bytes, r.work.ops() / r.seconds()};
}

std::string speed(double tok_s) { return fmt::format("{:.{}f}", tok_s, tok_s < 100 ? 1 : 0); }

class Drawing {
 public:
  Drawing(std::span<const BenchResult> results, const MachineLimits& machine,
          const std::string& title)
      : results_(results),
        machine_(machine),
        height_(
            std::max(kBottom + 60, kTop + kLabelHeight * static_cast<double>(results.size()) + 20)),
        svg_({.width = kWidth,
              .height = height_,
              .title = title,
              .styles = kStyles,
              .dark_styles = kDarkStyles},
             kLeft),
        ceilings_(
            {{"int4", machine.int4_ops_per_s > machine.int8_ops_per_s ? machine.int4_ops_per_s : 0},
             {"int8", machine.int8_ops_per_s},
             {"bf16", machine.bf16_ops_per_s},
             {"f32", machine.f32_ops_per_s}}) {
    std::erase_if(ceilings_, [](const Ceiling& c) { return c.ops_per_s <= 0; });
    std::ranges::sort(ceilings_, std::ranges::greater(), &Ceiling::ops_per_s);
    const double ridge = ceilings_.front().ops_per_s / machine.read_bytes_per_s;
    double x_min = 1, x_max = 4 * ridge, y_min = ceilings_.back().ops_per_s / 4;
    for (const BenchResult& r : results) {
      const Point p = point_of(r);
      x_min = std::min(x_min, p.ops_per_byte / 2);
      x_max = std::max(x_max, p.ops_per_byte * 2);
      y_min = std::min(y_min, p.ops_per_s / 2);
    }
    x_begin_ = std::log10(x_min);
    x_end_ = std::log10(x_max);
    y_begin_ = std::log10(y_min);
    y_end_ = std::log10(ceilings_.front().ops_per_s * 2);
  }

  std::string draw() {
    axes();
    points();
    roofs();
    return std::move(svg_).finish();
  }

 private:
  double x(double ops_per_byte) const {
    const double share = (std::log10(ops_per_byte) - x_begin_) / (x_end_ - x_begin_);
    return kLeft + share * (kRight - kLeft);
  }
  double y(double ops_per_s) const {
    const double share = (std::log10(ops_per_s) - y_begin_) / (y_end_ - y_begin_);
    return kBottom - share * (kBottom - kTop);
  }

  void line(const char* kind, double x1, double y1, double x2, double y2) {
    svg_.put("<path class=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", kind, x1, y1, x2, y2);
  }

  void axes() {
    for (double e = std::ceil(x_begin_); e <= x_end_; ++e) {
      const double at = x(std::pow(10, e));
      line("grid", at, kTop, at, kBottom);
      svg_.put("<text class=\"quiet\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", at,
               kBottom + 20, short_number(std::pow(10, e)));
    }
    for (double e = std::ceil(y_begin_); e <= y_end_; ++e) {
      const double at = y(std::pow(10, e));
      line("grid", kLeft, at, kRight, at);
      svg_.put("<text class=\"quiet\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
               kLeft - 8, at + 4, short_number(std::pow(10, e)));
    }
    svg_.put("<path class=\"axis\" d=\"M{0} {1}V{2}H{3}\"/>\n", kLeft, kTop, kBottom, kRight);
    svg_.put("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">operations per byte read</text>\n",
             (kLeft + kRight) / 2, kBottom + 44);
    svg_.put(
        "<text transform=\"translate(24 {})rotate(-90)\" text-anchor=\"middle\">operations per "
        "second</text>\n",
        (kTop + kBottom) / 2);
  }

  // Draws the line of the read bandwidth up to the highest ceiling, and each ceiling from its
  // intersection with this line.
  void roofs() {
    const double reads = machine_.read_bytes_per_s;
    const double x_first = std::pow(10, std::max(x_begin_, y_begin_ - std::log10(reads)));
    const double x_ridge = ceilings_.front().ops_per_s / reads;
    line("roof", x(x_first), y(x_first * reads), x(x_ridge), y(ceilings_.front().ops_per_s));
    const double slope =
        std::atan2(y(x_first * reads) - y(10 * x_first * reads), x(10 * x_first) - x(x_first));
    svg_.put(
        "<text class=\"halo\" transform=\"translate({:.1f} {:.1f})rotate({:.1f})\">reads {:.1f} "
        "GB/s</text>\n",
        x(x_first * 1.6) - 8, y(x_first * 1.6 * reads) - 8, -slope * 180 / M_PI, reads * 1e-9);
    for (const Ceiling& c : ceilings_) {
      const double at = y(c.ops_per_s);
      line("roof", x(c.ops_per_s / reads), at, kRight, at);
      svg_.put("<text class=\"halo\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{} {}op/s</text>\n",
               kRight - 4, at - 6, c.name, short_number(c.ops_per_s));
    }
  }

  // Draws the points. Their names are in a column next to the plot, in the order of the points'
  // heights, so that they do not overlap.
  void points() {
    std::vector<const BenchResult*> order;
    for (const BenchResult& r : results_) order.push_back(&r);
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [](const BenchResult* r) { return point_of(*r).ops_per_s; });
    double label_y = kTop;
    double space =
        kLabelHeight * static_cast<double>(order.size());  // space for the remaining labels
    for (const BenchResult* r : order) {
      const Point p = point_of(*r);
      label_y = std::min(std::max(label_y, y(p.ops_per_s) - 8), height_ - space);
      svg_.put("<path class=\"lead\" d=\"M{:.1f} {:.1f}L{} {:.1f}H{}\"/>\n", x(p.ops_per_byte),
               y(p.ops_per_s), kRight + 10, label_y + 6, kLabelLeft - 6);
      svg_.put("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5.5\"/>\n",
               test_name(r->bench), x(p.ops_per_byte), y(p.ops_per_s));
      label(*r, label_y);
      label_y += kLabelHeight;
      space -= kLabelHeight;
    }
  }

  void label(const BenchResult& r, double at) {
    const std::string batch = r.bench.batch == 1 ? "" : fmt::format(" × {}", r.bench.batch);
    svg_.put(
        "<text x=\"{0}\" y=\"{1:.1f}\">{2} {3}{4} at depth {5}</text>\n"
        "<text class=\"quiet\" x=\"{0}\" y=\"{6:.1f}\">{7} tok/s, {8:.0f}% of the limit</text>\n",
        kLabelLeft, at + 4, test_name(r.bench), r.bench.n_tokens, batch, r.bench.depth, at + 20,
        speed(r.median), 100 * r.limit_share());
  }

  std::span<const BenchResult> results_;
  const MachineLimits& machine_;
  double height_;
  SvgDrawing svg_;
  std::vector<Ceiling> ceilings_;                             // highest first
  double x_begin_ = 0, x_end_ = 0, y_begin_ = 0, y_end_ = 0;  // as powers of ten
};

}  // namespace

std::string roofline_svg(std::span<const BenchResult> results, const MachineLimits& machine,
                         const std::string& title) {
  return Drawing(results, machine, title).draw();
}

}  // namespace kvik
