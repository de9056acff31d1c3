#include "catalogue/families/sparse/read_mixed_streams.h"

#include <fmt/format.h>

#include <string_view>

#include "catalogue/limits.h"

namespace kvik::families {

Result<HyperConnectionsConfig> read_mixed_streams(const KeyReader& keys, const ModelConfig& config,
                                                  const SinkhornConfig& usual, uint32_t n_least) {
  constexpr uint64_t kMaxMixedStreams = 16, kMaxIterations = 1000;
  constexpr std::string_view kCount = "hyper_connection.count";
  HyperConnectionsConfig hyper;
  SinkhornConfig sinkhorn = usual;
  TRY_ASSIGN(hyper.n, keys.count(kCount, kMaxMixedStreams));
  if (hyper.n < n_least || uint64_t{hyper.n} * config.model_dim > kMaxDim) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected {} or more, and at most {} dimensions together",
                            keys.full(kCount), hyper.n, n_least, kMaxDim));
  }
  TRY_ASSIGN(sinkhorn.n_iterations,
             keys.count("hyper_connection.sinkhorn_iterations", kMaxIterations));
  TRY_ASSIGN(sinkhorn.eps, keys.positive("hyper_connection.epsilon", double{usual.eps}));
  hyper.sinkhorn = sinkhorn;
  return hyper;
}

}  // namespace kvik::families
