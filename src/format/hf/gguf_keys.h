#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/metadata.h"

namespace kvik::hf {

// Writes "<architecture>.<key>" as a GGUF file would have it. The first value of a key stays.
class GgufKeys {
 public:
  GgufKeys(Metadata& metadata, std::string_view architecture)
      : metadata_(metadata), architecture_(architecture) {}

  void number(std::string_view key, uint64_t value) { add(key, value); }
  void text(std::string_view key, std::string value) { add(key, std::move(value)); }
  void flag(std::string_view key, bool value) { add(key, value); }
  // Of each layer.
  void numbers(std::string_view key, std::vector<uint64_t> values) { add(key, std::move(values)); }
  void flags(std::string_view key, std::vector<bool> values) { add(key, std::move(values)); }
  // Those of a GGUF file have 32 bits.
  void real(std::string_view key, double value) {
    add(key, static_cast<double>(static_cast<float>(value)));
  }

 private:
  void add(std::string_view key, Metadata::Value value) {
    metadata_.insert(fmt::format("{}.{}", architecture_, key), std::move(value));
  }

  Metadata& metadata_;
  std::string_view architecture_;
};

}  // namespace kvik::hf
