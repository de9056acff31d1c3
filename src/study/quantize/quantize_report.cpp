#include "study/quantize/quantize_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <map>
#include <string_view>

#include "base/quantity.h"

namespace kvik {
namespace {

struct Sum {
  uint64_t n_tensors = 0, n_values = 0, n_bytes = 0;
  ErrorSums error = {};

  void add(const QuantizedTensor& tensor) {
    ++n_tensors;
    n_values += tensor.info.n_elements();
    n_bytes += tensor.info.n_bytes;
    error.add(tensor.error);
  }
  double bits() const {
    return n_values == 0 ? 0 : 8.0 * static_cast<double>(n_bytes) / static_cast<double>(n_values);
  }
};

Sum sum_of(const QuantizeReport& report) {
  Sum sum;
  for (const QuantizedTensor& tensor : report.tensors) sum.add(tensor);
  return sum;
}

std::string fallback_text(const QuantizedTensor& tensor) {
  return fmt::format("rows of {} are not a multiple of {}'s {}", tensor.info.shape.back(),
                     name_of(*tensor.wanted), traits(*tensor.wanted).block_elements);
}

}  // namespace

std::string report_text(const QuantizeReport& report) {
  std::string out = fmt::format("{:<36}{:>18}  {:<6}  {:<7}{:>12}{:>8}{:>12}\n", "tensor", "shape",
                                "from", "to", "size", "bits", "rel. RMSE");
  std::map<std::string_view, Sum> by_type;
  size_t n_fallbacks = 0;
  for (const QuantizedTensor& tensor : report.tensors) {
    Sum sum;
    sum.add(tensor);
    by_type[name_of(tensor.info.type)].add(tensor);
    n_fallbacks += tensor.wanted ? 1 : 0;
    out += fmt::format("{:<36}{:>18}  {:<6}  {:<7}{:>12}{:>8.3f}{:>12.6f}{}\n", tensor.info.name,
                       fmt::format("{}", fmt::join(tensor.info.shape, " x ")), name_of(tensor.from),
                       name_of(tensor.info.type), format_bytes(sum.n_bytes), sum.bits(),
                       sum.error.relative_rmse(),
                       tensor.wanted ? "  " + fallback_text(tensor) : std::string());
  }
  out += '\n';
  for (const auto& [type, sum] : by_type) {
    out += fmt::format("{:<8}{:>6} tensors{:>14}{:>8.3f} bits a weight, relative RMSE {:.6f}\n",
                       type, sum.n_tensors, format_bytes(sum.n_bytes), sum.bits(),
                       sum.error.relative_rmse());
  }
  const Sum all = sum_of(report);
  out +=
      fmt::format("{:<8}{:>6} tensors{:>14}{:>8.3f} bits a weight, relative RMSE {:.6f}\n", "all",
                  all.n_tensors, format_bytes(all.n_bytes), all.bits(), all.error.relative_rmse());
  if (n_fallbacks > 0) {
    out += fmt::format("{} of {} tensors fell back to another type than {}'s mix has for them\n",
                       n_fallbacks, all.n_tensors, report.type);
  }
  return out;
}

std::string report_json(const QuantizeReport& report) {
  boost::json::array tensors;
  size_t n_fallbacks = 0;
  for (const QuantizedTensor& tensor : report.tensors) {
    boost::json::array shape(tensor.info.shape.begin(), tensor.info.shape.end());
    boost::json::object entry = {
        {"name", tensor.info.name},           {"shape", std::move(shape)},
        {"from", name_of(tensor.from)},       {"to", name_of(tensor.info.type)},
        {"bytes", tensor.info.n_bytes},       {"relative_rmse", tensor.error.relative_rmse()},
        {"importance", tensor.has_importance}};
    if (tensor.wanted) {
      entry["wanted"] = name_of(*tensor.wanted);
      entry["fallback"] = fallback_text(tensor);
      ++n_fallbacks;
    }
    tensors.push_back(std::move(entry));
  }
  const Sum all = sum_of(report);
  return boost::json::serialize(boost::json::object{{"in", report.in},
                                                    {"out", report.out},
                                                    {"type", report.type},
                                                    {"file_bytes", report.n_bytes},
                                                    {"bits_per_weight", all.bits()},
                                                    {"relative_rmse", all.error.relative_rmse()},
                                                    {"fallbacks", n_fallbacks},
                                                    {"tensors", std::move(tensors)}}) +
         "\n";
}

}  // namespace kvik
