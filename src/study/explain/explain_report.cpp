#include "study/explain/explain_report.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "base/check.h"

// The page that shows the report, embedded by cmake/page.cmake.
extern "C" const char kvik_explain_page_begin[];
extern "C" const char kvik_explain_page_end[];

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kMark = "id=\"report\">";  // the report is inserted after this text

json::object spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

json::array map(const auto& items, const auto& to_json) {
  json::array out;
  for (const auto& item : items) out.push_back(to_json(item));
  return out;
}

// Returns a test as in `kvik bench --json`, with its two limits separately.
json::object bench_json(const BenchResult& r, const MachineLimits& machine) {
  return {{"test", test_name(r.bench)},
          {"tokens", r.bench.n_tokens},
          {"depth", r.bench.depth},
          {"batch", r.bench.batch},
          {"tok_s", r.median},
          {"tok_s_min", r.min},
          {"tok_s_max", r.max},
          {"limit_share", r.limit_share()},
          {"arithmetic_share", min_compute_seconds(r.work, machine) / r.seconds()},
          {"memory_share", min_read_seconds(r.work, machine) / r.seconds()},
          {"ms", 1e3 * r.seconds()}};
}

json::object machine_json(const ExplainFigures& figures) {
  const MachineLimits& m = figures.machine;
  return {{"backend", figures.backend},
          {"threads", figures.n_threads},
          {"read_bytes_per_s", m.read_bytes_per_s},
          {"int8_ops_per_s", m.int8_ops_per_s},
          {"int4_ops_per_s", m.int4_ops_per_s},
          {"bf16_ops_per_s", m.bf16_ops_per_s},
          {"f32_ops_per_s", m.f32_ops_per_s}};
}

json::object memory_json(const MemoryTable& memory) {
  const auto row_json = [](const MemoryRow& row) -> json::object {
    return {{"type", name_of(row.type)},
            {"bytes_per_token", row.bytes_per_token},
            {"bytes", json::array(row.bytes.begin(), row.bytes.end())},
            {"longest_context", row.longest_context},
            {"users_that_fit", row.users_that_fit}};
  };
  return {{"machine_bytes", memory.machine_bytes},
          {"available_bytes", memory.available_bytes},
          {"weights_bytes", memory.weights_bytes},
          {"buffers_bytes", memory.buffers_bytes},
          {"contexts", json::array(memory.contexts.begin(), memory.contexts.end())},
          {"types", map(memory.rows, row_json)}};
}

json::object type_json(const TypeTime& type) {
  const BenchResult& r = type.decode;
  return {{"type", name_of(type.type)},
          {"ms", spread_json({1e3 / r.median, 1e3 / r.max, 1e3 / r.min})},
          {"bytes_per_token", type.bytes_per_token}};
}

json::object shape_json(const ShapeTime& shape) {
  return {{"name", shape.name},
          {"kv_heads", shape.n_kv_heads},
          {"window", shape.window},
          {"ms", spread_json(shape.ms)},
          {"kv_bytes", shape.kv_bytes}};
}

json::object sharing_json(const SharingTime& sharing) {
  return {{"shared", sharing.n_shared},
          {"own", sharing.n_own},
          {"found", sharing.n_found},
          {"first_ttft_ms", spread_json(sharing.first_ttft_ms)},
          {"second_ttft_ms", spread_json(sharing.second_ttft_ms)}};
}

// Escapes JSON for a script element: the result contains no "<", ">" and "&", so no text can end
// the element or begin a comment. In JSON these characters occur only in strings, where an escape
// is equivalent.
std::string escaped_for_script(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

json::object figures_json(const ExplainFigures& figures) {
  const auto bench = [&](const BenchResult& r) { return bench_json(r, figures.machine); };
  return {{"machine", machine_json(figures)},         {"bench", map(figures.phases.bench, bench)},
          {"rows", map(figures.phases.rows, bench)},  {"depth", figures.depth},
          {"types", map(figures.types, type_json)},   {"shapes", map(figures.shapes, shape_json)},
          {"sharing", sharing_json(figures.sharing)}, {"memory", memory_json(figures.memory)}};
}

std::string explain_html(std::string_view report_json) {
  const std::string_view page(kvik_explain_page_begin, kvik_explain_page_end);
  const size_t mark = page.find(kMark);
  CHECK(mark != page.npos);
  const size_t begin = mark + kMark.size();
  const size_t end = page.find("</", begin);
  std::string out(page.substr(0, begin));
  out += escaped_for_script(report_json);
  return out.append(page.substr(end));
}

}  // namespace kvik
