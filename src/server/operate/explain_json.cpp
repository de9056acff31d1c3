#include "server/operate/explain_json.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/string.hpp>

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxPieces = 512;
// earlier tokens that determine what a token adds: the bytes of a character
constexpr size_t kTokensBefore = 8;

// Returns the text that each of `ids` after the first n_before adds.
std::vector<std::string> pieces_of(const ServiceApi& service, std::span<const TokenId> ids,
                                   size_t n_before) {
  std::vector<std::string> pieces;
  for (size_t i = n_before; i < ids.size() && pieces.size() < kMaxPieces; ++i) {
    const size_t first = i - std::min(i, kTokensBefore);
    const std::string text = service.detokenize(ids.subspan(first, i - first)).value_or("");
    const std::string longer = service.detokenize(ids.subspan(first, i - first + 1)).value_or("");
    // A character that this token completes was decoded differently before.
    const auto [at, ignored] = std::ranges::mismatch(longer, text);
    pieces.emplace_back(at, longer.end());
  }
  return pieces;
}

json::object text_json(const ServiceApi& service, std::span<const TokenId> ids, size_t n_before) {
  const std::string all = service.detokenize(ids).value_or("");
  const std::string before = service.detokenize(ids.first(n_before)).value_or("");
  json::array pieces;
  for (const std::string& piece : pieces_of(service, ids, n_before)) {
    pieces.emplace_back(piece);
  }
  return {{"tokens", ids.size() - n_before},
          {"text", std::string_view(all).substr(std::min(before.size(), all.size()))},
          {"pieces", std::move(pieces)}};
}

template <class Get>
json::array column(const TracedRun& run, size_t first, const Get& get) {
  json::array values;
  for (size_t i = first; i < run.tokens.size(); ++i) values.push_back(get(run.tokens[i]));
  return values;
}

json::object run_json(const TracedRun& run) {
  json::object out = traced_tokens_json(run, 0);
  out["cached_tokens"] = run.usage.cached_tokens;
  out["queue_ms"] = to_ms(run.usage.queue_time);
  out["n_seen"] = column(run, 0, [](const TracedToken& t) { return t.n_seen; });
  out["beside"] = column(run, 0, [](const TracedToken& t) { return t.n_other_sequences; });
  out["fit"] = fit_json(run.fit());
  out["late_fit"] = fit_json(run.fit(std::max<size_t>(1, run.tokens.size() / 2)));
  return out;
}

}  // namespace

json::value fit_json(const std::optional<PowerFit>& fit) {
  if (!fit) return nullptr;
  return {{"exponent", fit->exponent}, {"exponent_error", fit->exponent_error},
          {"factor", fit->factor},     {"r_squared", fit->r_squared},
          {"from", fit->x_min},        {"to", fit->x_max},
          {"points", fit->n_points}};
}

json::object traced_tokens_json(const TracedRun& run, size_t first) {
  return {{"way", name_of(run.way)},
          {"first", first},
          {"ms", column(run, first, [](const TracedToken& t) { return t.ms; })},
          {"kv_rows", column(run, first, [](const TracedToken& t) { return t.kv_rows; })},
          {"kv_bytes", column(run, first, [](const TracedToken& t) { return t.kv_bytes; })}};
}

json::object experiment_json(const ServiceApi& service, const CacheExperiment& experiment) {
  const std::vector<TokenId>& prompt = experiment.options().prompt;
  std::vector<TokenId> ids = prompt;
  uint64_t n_compared = 0, n_different = 0;
  json::array runs;
  for (const TracedRun& run : experiment.runs()) {
    if (run.way == CacheMode::kCold) {
      for (const TracedToken& token : run.tokens) ids.push_back(token.id);
    }
    n_compared += run.n_compared;
    n_different += run.n_different;
    runs.push_back(run_json(run));
  }
  return {{"prompt", text_json(service, prompt, 0)},
          {"answer", text_json(service, ids, prompt.size())},
          {"runs", std::move(runs)},
          {"repeats", experiment.n_repeats()},
          {"bits",
           {{"compared", n_compared},
            {"different", n_different},
            {"equal", experiment.are_bits_equal()}}}};
}

}  // namespace kvik
