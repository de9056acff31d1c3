#include "study/perplexity/perplexity.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file/atomic_file.h"
#include "host/load_model.h"
#include "host/progress_bar.h"
#include "study/perplexity/text_scores.h"
#include "study/window_logits.h"

namespace kvik {
namespace {

constexpr uint32_t kDefaultWindow = 512;
constexpr uint32_t kMinWindow = 4;
constexpr size_t kMaxTextBytes = size_t{1} << 30;

// A loaded model that evaluates windows of a text.
struct Reader {
  std::string name;
  LoadedModel loaded;
  std::unique_ptr<WindowLogits> logits;
};

struct Scores {
  uint32_t n_ctx = 0;
  size_t n_windows = 0;
  Perplexity model, other;
  Divergence divergence;
};

KvType other_kv_type(const PerplexityOptions& options) {
  return options.against_kv_type.value_or(options.model.kv_type);
}

Result<Reader> open_reader(ModelOptions options, std::string name) {
  options.model = name;
  Reader reader{.name = std::move(name), .loaded = {}, .logits = {}};
  TRY_ASSIGN(reader.loaded, load_model(options));
  TRY_ASSIGN(reader.logits,
             WindowLogits::create(reader.loaded, static_cast<uint32_t>(options.n_ctx)));
  return reader;
}

// Returns the first scored position. Each position from there on, except the last of the window,
// predicts a token that is scored.
uint32_t first_scored(uint32_t n_ctx) { return n_ctx / 2; }

Result<void> score_window(std::span<const TokenId> window, Reader& model,
                          std::optional<Reader>& other, Scores& scores) {
  const auto first = first_scored(scores.n_ctx);
  const auto is_scored = [&](uint32_t at) { return at >= first && at + 1 < window.size(); };
  // log probabilities of the other model, by scored position
  std::vector<std::vector<double>> expected;
  if (other) {
    TRY(other->logits->read(window, [&](uint32_t at, std::span<const float> logits) {
      if (!is_scored(at)) return;
      expected.push_back(log_probabilities(logits));
      scores.other.add(expected.back(), window[at + 1]);
    }));
  }
  return model.logits->read(window, [&](uint32_t at, std::span<const float> logits) {
    if (!is_scored(at)) return;
    const std::vector<double> log_p = log_probabilities(logits);
    scores.model.add(log_p, window[at + 1]);
    if (other) scores.divergence.add(log_p, expected[at - first]);
  });
}

Result<std::vector<std::vector<TokenId>>> read_windows(const PerplexityOptions& options,
                                                       const Reader& model,
                                                       const std::optional<Reader>& other) {
  TRY_ASSIGN(const std::string text, read_whole(options.file, kMaxTextBytes));
  const TokenizeOptions how{.add_bos = true, .parse_special = options.parse_special};
  const auto n_ctx = static_cast<uint32_t>(options.model.n_ctx);
  auto windows = windows_of(*model.loaded.tokenizer, text, n_ctx, how);
  if (!windows) {
    return fail(windows.error().code,
                fmt::format("'{}': {}", options.file, windows.error().message));
  }
  if (other) {
    const auto others = windows_of(*other->loaded.tokenizer, text, n_ctx, how);
    const bool same_words =
        other->loaded.tokenizer->n_vocab() == model.loaded.tokenizer->n_vocab() && others;
    if (!same_words || *others != *windows) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' makes other tokens of the text than '{}', expected one "
                              "vocabulary for both",
                              other->name, model.name));
    }
  }
  if (options.n_windows && *options.n_windows < windows->size()) {
    windows->resize(*options.n_windows);
  }
  return std::move(*windows);
}

std::string as_json(const PerplexityOptions& options, const Scores& s) {
  boost::json::object out = {{"model", options.model.model},
                             {"kv_type", name_of(options.model.kv_type)},
                             {"ctx", s.n_ctx},
                             {"windows", s.n_windows},
                             {"tokens_scored", s.model.n_tokens()},
                             {"perplexity", s.model.value().value},
                             {"perplexity_error", s.model.value().error}};
  if (!options.against.empty()) {
    const Divergence& d = s.divergence;
    const boost::json::object compared = {{"against", options.against},
                                          {"against_kv_type", name_of(other_kv_type(options))},
                                          {"against_perplexity", s.other.value().value},
                                          {"against_perplexity_error", s.other.value().error},
                                          {"kl_mean", d.mean().value},
                                          {"kl_mean_error", d.mean().error},
                                          {"kl_median", d.quantile(0.5)},
                                          {"kl_p99", d.quantile(0.99)},
                                          {"kl_max", d.max()},
                                          {"same_top_share", d.same_top_share().value},
                                          {"same_top_share_error", d.same_top_share().error}};
    out.insert(compared.begin(), compared.end());
  }
  return boost::json::serialize(out) + "\n";
}

std::string as_text(const PerplexityOptions& options, const Scores& s) {
  const Estimate value = s.model.value();
  std::string out = fmt::format("{} tokens scored, in {} windows of {}\n", s.model.n_tokens(),
                                s.n_windows, s.n_ctx);
  out += fmt::format("perplexity {:.4f} ± {:.4f}\n", value.value, value.error);
  if (options.against.empty()) return out;
  const Divergence& d = s.divergence;
  out += fmt::format("against {}{}: perplexity {:.4f} ± {:.4f}\n", options.against,
                     options.against_kv_type
                         ? fmt::format(" with {} pages", name_of(*options.against_kv_type))
                         : "",
                     s.other.value().value, s.other.value().error);
  out += fmt::format(
      "  KL divergence [nats]  mean {:.6f} ± {:.6f}, median {:.6f}, p99 {:.6f}, max {:.6f}\n",
      d.mean().value, d.mean().error, d.quantile(0.5), d.quantile(0.99), d.max());
  out += fmt::format("  same top token        {:.2f}% ± {:.2f}%\n", 100 * d.same_top_share().value,
                     100 * d.same_top_share().error);
  return out;
}

}  // namespace

Result<std::string> perplexity(PerplexityOptions options) {
  if (options.model.n_ctx == 0) options.model.n_ctx = kDefaultWindow;
  if (options.model.n_ctx < kMinWindow || options.model.n_ctx > UINT32_MAX / 2 ||
      options.n_windows == 0u) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} windows of {} tokens, expected at least one, of {} at least",
                            options.n_windows.value_or(1), options.model.n_ctx, kMinWindow));
  }
  if (options.against.empty() && options.against_kv_type) options.against = options.model.model;
  TRY_ASSIGN(Reader model, open_reader(options.model, options.model.model));
  std::optional<Reader> other;
  if (!options.against.empty()) {
    ModelOptions other_options = options.model;
    other_options.adapter.clear();
    other_options.kv_type = other_kv_type(options);
    TRY_ASSIGN(other, open_reader(other_options, options.against));
  }
  TRY_ASSIGN(const auto windows, read_windows(options, model, other));
  Scores scores;
  scores.n_ctx = static_cast<uint32_t>(options.model.n_ctx);
  ProgressBar bar("reading");
  for (const auto& window : windows) {
    TRY(score_window(window, model, other, scores));
    ++scores.n_windows;
    bar.show(scores.n_windows, windows.size(),
             fmt::format("perplexity {:.3f}", scores.model.value().value));
  }
  return options.as_json ? as_json(options, scores) : as_text(options, scores);
}

}  // namespace kvik
