#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "catalogue/model_config.h"

namespace kvik {

// A file's keys, complete and right, for tests to spoil.
class Keys {
 public:
  explicit Keys(std::string architecture) : prefix_(architecture + ".") {
    values_["general.architecture"] = std::move(architecture);
    set("block_count", uint64_t{12});
    set("embedding_length", uint64_t{96});
    set("feed_forward_length", uint64_t{224});
    set("attention.head_count", uint64_t{6});
    set("attention.head_count_kv", uint64_t{2});
    set("context_length", uint64_t{4096});
    set("vocab_size", uint64_t{300});
  }

  Keys& set(const std::string& key, Metadata::Value value) {
    values_[prefix_ + key] = std::move(value);
    return *this;
  }
  Keys& set_global(const std::string& key, Metadata::Value value) {
    values_[key] = std::move(value);
    return *this;
  }
  Keys& erase(const std::string& key) {
    values_.erase(prefix_ + key);
    return *this;
  }

  Result<ModelConfig> read() const {
    Metadata metadata;
    for (const auto& [key, value] : values_) metadata.insert(key, value);
    return read_config(metadata);
  }

 private:
  std::string prefix_;
  std::map<std::string, Metadata::Value> values_;
};

inline ModelConfig read(const Keys& keys) {
  auto config = keys.read();
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config ? *std::move(config) : ModelConfig{};
}

inline Error error_of(const Keys& keys) {
  auto config = keys.read();
  EXPECT_FALSE(config.has_value());
  return config ? Error{ErrorCode::kIo, "", ""} : config.error();
}

}  // namespace kvik
