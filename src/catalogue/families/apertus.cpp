#include "catalogue/families/apertus.h"

#include <cmath>
#include <variant>
#include <vector>

#include "catalogue/key_reader.h"

namespace kvik::families {
namespace {

double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

}  // namespace

// The keys have no prefix of the architecture. Files state the curvatures before softplus.
Result<void> finish_apertus(const KeyReader& keys, ModelConfig& config) {
  const KeyReader xielu = keys.with_prefix("xielu");
  const size_t n = config.layers.size();
  TRY_ASSIGN(const std::vector<float> positive, xielu.reals("alpha_p", n));
  TRY_ASSIGN(const std::vector<float> negative, xielu.reals("alpha_n", n));
  TRY_ASSIGN(const std::vector<float> linear, xielu.reals("beta", n));
  TRY_ASSIGN(const std::vector<float> limit, xielu.reals("eps", n));
  for (size_t i = 0; i < n; ++i) {
    std::get<MlpConfig>(config.layers[i].feed_forward).activation.xielu = {
        .positive = static_cast<float>(softplus(positive[i])),
        .negative = static_cast<float>(linear[i] + softplus(negative[i])),
        .linear = linear[i],
        .limit = limit[i]};
  }
  return {};
}

}  // namespace kvik::families
