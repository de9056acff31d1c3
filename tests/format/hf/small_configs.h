#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "format/hf/config.h"

namespace kvik::hf {

// Returns the config.json of a small model with the keys `more` at its end.
inline std::string config(std::string_view type, std::string_view more = "") {
  return fmt::format(R"({{"model_type":"{}","hidden_size":64,"intermediate_size":160,
    "num_hidden_layers":6,"num_attention_heads":4,"vocab_size":260,"max_position_embeddings":2048{}{}}})",
                     type, more.empty() ? "" : ",", more);
}

inline FolderConfig read(const std::string& json) {
  auto config = read_folder_config(json);
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config ? std::move(*config) : FolderConfig();
}

inline double real_of(const FolderConfig& config, std::string_view key) {
  const auto value = config.metadata.get_float(key);
  return value && *value ? **value : -1;
}

inline Error error_of(const std::string& json) {
  const auto config = read_folder_config(json);
  EXPECT_FALSE(config.has_value()) << json;
  return config ? Error{ErrorCode::kIo, ""} : config.error();
}

}  // namespace kvik::hf
