#include "engine/sample/ordered_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "engine/sample/natural_log.h"
#include "engine/sample/uniform_draw.h"
#include "engine/sample/weight_of.h"

namespace kvik {
namespace {

// llama.cpp's default order.
constexpr SamplerKind kDefaultOrder[] = {
    SamplerKind::kPenalties, SamplerKind::kDry,      SamplerKind::kTopNSigma,
    SamplerKind::kTopK,      SamplerKind::kTypicalP, SamplerKind::kTopP,
    SamplerKind::kMinP,      SamplerKind::kXtc,      SamplerKind::kTemperature};

constexpr size_t kMirostatTokens = 100;  // number of tokens that version 1 looks at

constexpr auto has_larger_logit = [](const auto& a, const auto& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
};

// Returns e^x for any x, with the precision of a float.
double exponential(double x) {
  return x <= 0 ? weight_of(static_cast<float>(x)) : 1.0 / weight_of(static_cast<float>(-x));
}

}  // namespace

std::optional<TokenId> OrderedSampler::sample(const Input& input) {
  const SamplingParams& params = input.params;
  candidates_.clear();
  for (TokenId id = 0; id < input.logits.size(); ++id) {
    if (std::isfinite(input.logits[id])) candidates_.push_back({id, input.logits[id], 0});
  }
  if (candidates_.empty()) return std::nullopt;
  if (params.mirostat.version != 0) return sample_mirostat(input);
  const std::span<const SamplerKind> order =
      params.order ? std::span<const SamplerKind>(*params.order) : kDefaultOrder;
  for (const SamplerKind kind : order) run(kind, input);
  return draw(params, input.position, weigh()).id;
}

void OrderedSampler::run(SamplerKind kind, const Input& input) {
  const SamplingParams& p = input.params;
  switch (kind) {
    case SamplerKind::kPenalties:
    case SamplerKind::kDry:
      return adjust(kind, input);
    case SamplerKind::kTopNSigma:
      return keep_top_n_sigma(p.top_n_sigma);
    case SamplerKind::kTopK:
      return keep_top_k(p.top_k == 0 ? candidates_.size() : p.top_k);
    case SamplerKind::kTypicalP:
      return keep_typical(p.typical_p);
    case SamplerKind::kTopP:
      return keep_top_p(p.top_p);
    case SamplerKind::kMinP:
      return keep_min_p(p.min_p);
    case SamplerKind::kXtc:
      return exclude_top_choices(p, input.position);
    case SamplerKind::kTemperature:
      return apply_temperature(p);
  }
}

// Changes the candidates' logits by the tokens so far.
void OrderedSampler::adjust(SamplerKind kind, const Input& input) {
  const bool is_dry = kind == SamplerKind::kDry;
  if (is_dry ? !input.params.dry.is_on() : !has_penalties(input.params)) return;
  for (const Candidate& c : candidates_) input.logits[c.id] = c.logit;
  if (is_dry) {
    input.adjuster.penalize_repetitions(input.params.dry, input.history.tokens, input.logits);
  } else {
    input.adjuster.penalize_tokens(input.params, input.history, input.logits);
  }
  constexpr float kMost = std::numeric_limits<float>::max();
  for (Candidate& c : candidates_) c.logit = std::clamp(input.logits[c.id], -kMost, kMost);
}

float OrderedSampler::peak() const {
  return std::ranges::max_element(candidates_, {}, &Candidate::logit)->logit;
}

// Computes the candidates' weights and returns their sum, at least 1.
double OrderedSampler::weigh() {
  const float most = peak();
  double total = 0;
  for (Candidate& c : candidates_) {
    c.weight = weight_of(c.logit - most);
    total += c.weight;
  }
  return total;
}

// Returns the entropy in nats. total: the sum of the weights.
double OrderedSampler::entropy(double total) const {
  const float most = peak();
  double sum = 0;
  for (const Candidate& c : candidates_) {
    if (c.weight > 0) sum += c.weight * double{c.logit - most};
  }
  return natural_log(total) - sum / total;
}

// --- samplers ---

// Keeps the logits within n standard deviations of the largest one.
void OrderedSampler::keep_top_n_sigma(float n) {
  if (n <= 0) return;
  double sum = 0, squares = 0;
  for (const Candidate& c : candidates_) sum += c.logit;
  const auto count = static_cast<double>(candidates_.size());
  for (const Candidate& c : candidates_) {
    const double deviation = c.logit - sum / count;
    squares += deviation * deviation;
  }
  const double least = peak() - n * std::sqrt(squares / count);
  std::erase_if(candidates_, [&](const Candidate& c) { return c.logit < least; });
}

// Leaves the largest logits sorted.
void OrderedSampler::keep_top_k(size_t k) {
  if (k >= candidates_.size()) return;
  std::ranges::partial_sort(candidates_, candidates_.begin() + static_cast<ptrdiff_t>(k),
                            has_larger_logit);
  candidates_.resize(k);
}

// Keeps the first candidates of the order whose weights exceed the limit, sorted.
template <class Less>
void OrderedSampler::keep_until(double limit, const Less& less) {
  const auto later = [&](const Candidate& a, const Candidate& b) { return less(b, a); };
  // A heap, because few candidates of a large vocabulary stay.
  std::ranges::make_heap(candidates_, later);
  double sum = 0;
  auto end = candidates_.end();
  while (end != candidates_.begin()) {
    std::ranges::pop_heap(candidates_.begin(), end, later);
    sum += (--end)->weight;
    if (sum > limit) break;
  }
  candidates_.erase(candidates_.begin(), end);
  std::ranges::reverse(candidates_);
}

// Keeps the tokens whose surprise is closest to the entropy.
void OrderedSampler::keep_typical(float p) {
  if (p >= 1) return;
  const double total = weigh();
  const float most = peak();
  const double expected = entropy(total);
  const double log_total = natural_log(total);
  const auto distance = [&](const Candidate& c) {
    return std::abs(log_total - double{c.logit - most} - expected);
  };
  keep_until(p * total, [&](const Candidate& a, const Candidate& b) {
    const double d_a = distance(a), d_b = distance(b);
    return d_a != d_b ? d_a < d_b : a.id < b.id;
  });
}

// Keeps the fewest of the largest logits whose weights reach p.
void OrderedSampler::keep_top_p(float p) {
  if (p >= 1) return;
  const double limit = p * weigh();
  keep_until(std::nextafter(limit, 0.0), has_larger_logit);
}

void OrderedSampler::keep_min_p(float p) {
  if (p <= 0) return;
  weigh();
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < p; });
}

void OrderedSampler::exclude_top_choices(const SamplingParams& params, uint64_t position) {
  constexpr uint64_t kStream = 0x585443;  // a draw of its own, independent of the token's
  const XtcParams& xtc = params.xtc;
  if (xtc.probability <= 0 || xtc.threshold > 0.5f) return;
  if (uniform_draw(params.seed ^ kStream, params.choice_index, position) >= xtc.probability) return;
  const double least = xtc.threshold * weigh();
  const Candidate* last = nullptr;  // least likely of the top choices
  for (const Candidate& c : candidates_) {
    if (c.weight >= least && (!last || has_larger_logit(*last, c))) last = &c;
  }
  if (!last) return;
  const Candidate kept = *last;
  std::erase_if(candidates_, [&](const Candidate& c) { return has_larger_logit(c, kept); });
}

void OrderedSampler::apply_temperature(const SamplingParams& params) {
  const auto& [range, exponent] = params.dynamic_temperature;
  if (range <= 0) return divide_by(params.temperature);
  if (candidates_.size() < 2) return;
  const double least = std::max(0.0f, params.temperature - range);
  const double most = params.temperature + range;
  const double share = entropy(weigh()) / natural_log(static_cast<double>(candidates_.size()));
  // share^exponent
  const double bent = share <= 0  ? (exponent == 0 ? 1 : 0)
                      : share < 1 ? exponential(exponent * natural_log(share))
                                  : 1;
  divide_by(static_cast<float>(least + (most - least) * bent));
}

void OrderedSampler::divide_by(float temperature) {
  if (temperature == 1) return;
  // A quotient that overflows leaves no probability for smaller logits.
  if (temperature == 0 || !std::isfinite(peak() / temperature)) return keep_largest();
  for (Candidate& c : candidates_) c.logit /= temperature;
  std::erase_if(candidates_, [](const Candidate& c) { return !std::isfinite(c.logit); });
}

void OrderedSampler::keep_largest() {
  const Candidate largest = *std::ranges::min_element(candidates_, has_larger_logit);
  candidates_.assign(1, largest);
}

// --- Mirostat ---

// Returns the number of tokens that give an expected surprise of `mu` bits (Basu et al. 2021,
// algorithm 1). The candidates are sorted.
size_t OrderedSampler::mirostat_top_k(float mu, size_t n_vocab) const {
  double products = 0, squares = 0;
  for (size_t i = 0; i + 1 < std::min(candidates_.size(), kMirostatTokens); ++i) {
    const double t = natural_log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * (candidates_[i].logit - candidates_[i + 1].logit);
    squares += t * t;
  }
  if (products <= 0) return candidates_.size();  // all tokens are equally likely
  const double s = products / squares;
  const double epsilon = s - 1;
  const double log_n = natural_log(static_cast<double>(n_vocab));
  // (1 − n^−epsilon) / epsilon tends to ln n.
  const double tail =
      std::abs(epsilon) < 1e-6 ? log_n : (1 - exponential(-epsilon * log_n)) / epsilon;
  const double log_k = (mu * kLn2 - natural_log(tail)) / s;
  if (log_k >= natural_log(static_cast<double>(candidates_.size()))) return candidates_.size();
  return std::max<size_t>(1, static_cast<size_t>(exponential(log_k)));
}

TokenId OrderedSampler::sample_mirostat(const Input& input) {
  const MirostatParams& mirostat = input.params.mirostat;
  const float mu = input.mirostat_mu ? *input.mirostat_mu : 2 * mirostat.tau;
  divide_by(input.params.temperature);
  if (mirostat.version == 1) {
    std::ranges::partial_sort(
        candidates_,
        candidates_.begin() + static_cast<ptrdiff_t>(std::min(candidates_.size(), kMirostatTokens)),
        has_larger_logit);
    keep_top_k(mirostat_top_k(mu, input.logits.size()));
  } else {
    const double least = weigh() * exponential(-mu * kLn2);
    const float most = peak();
    std::erase_if(candidates_,
                  [&](const Candidate& c) { return c.weight < least && c.logit < most; });
  }
  const double total = weigh();
  const float most = peak();
  const Candidate& drawn = draw(input.params, input.position, total);
  const double surprise = (natural_log(total) - double{drawn.logit - most}) / kLn2;
  if (input.mirostat_mu) {
    *input.mirostat_mu = static_cast<float>(mu - mirostat.eta * (surprise - mirostat.tau));
  }
  return drawn.id;
}

// --- draw ---

// Returns the candidate at which the weights, subtracted one after the other, make the draw
// negative.
const OrderedSampler::Candidate& OrderedSampler::draw(const SamplingParams& params,
                                                      uint64_t position, double total) const {
  double left = uniform_draw(params.seed, params.choice_index, position) * total;
  const Candidate* last = nullptr;
  for (const Candidate& c : candidates_) {
    if (c.weight > 0) last = &c;
    left -= c.weight;
    if (left < 0) return c;
  }
  CHECK(last);  // the largest weight is 1
  return *last;
}

}  // namespace kvik
