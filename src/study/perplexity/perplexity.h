#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/load_model.h"

namespace kvik {

// The options of `kvik perplexity`.
struct PerplexityOptions {
  ModelOptions model;
  std::string file;
  std::string against;  // model to compare with; may be the same one with another KV type
  // KV type of that model; absent: the same as the first model's
  std::optional<KvType> against_kv_type;
  std::optional<uint64_t> n_windows;
  bool parse_special = false;
  bool as_json = false;
};

// Returns the perplexity of a model on a text, as text or JSON.
Result<std::string> perplexity(PerplexityOptions options);

}  // namespace kvik
