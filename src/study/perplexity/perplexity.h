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
  std::string against;                    // another model, or the same one with other pages
  std::optional<KvType> against_kv_type;  // of its pages; none: as the model's
  std::optional<uint64_t> n_windows;
  bool parse_special = false;
  bool as_json = false;
};

// How well a model foresees a text, as text or JSON.
Result<std::string> perplexity(PerplexityOptions options);

}  // namespace kvik
