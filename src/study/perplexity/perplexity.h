#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/load_model.h"

namespace kvik {

struct PerplexityOptions {
  ModelOptions model;
  std::string file;
  std::string against;  // the model to compare with, or the same with another KV type
  std::optional<KvType> against_kv_type;  // its KV type; absent: the same as the model's
  std::optional<uint64_t> n_windows;
  bool parse_special = false;
  bool as_json = false;
};

// The perplexity of a model on a text, as text or JSON.
Result<std::string> perplexity(PerplexityOptions options);

}  // namespace kvik
