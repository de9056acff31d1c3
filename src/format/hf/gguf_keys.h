#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/metadata.h"

namespace kvik::hf {

// Adds keys "<architecture>.<key>" as in a GGUF file. The first value of a key is kept.
class GgufKeys {
 public:
  GgufKeys(Metadata& metadata, std::string_view architecture)
      : metadata_(metadata), architecture_(architecture) {}

  void number(std::string_view key, uint64_t value) { add(key, value); }
  void text(std::string_view key, std::string value) { add(key, std::move(value)); }
  void texts(std::string_view key, std::vector<std::string> values) { add(key, std::move(values)); }
  void flag(std::string_view key, bool value) { add(key, value); }
  // Lists with an entry per layer.
  void numbers(std::string_view key, std::vector<uint64_t> values) { add(key, std::move(values)); }
  void reals(std::string_view key, std::vector<double> values) {
    for (double& value : values) value = static_cast<double>(static_cast<float>(value));
    add(key, std::move(values));
  }
  void flags(std::string_view key, std::vector<bool> values) { add(key, std::move(values)); }
  // Rounds to 32 bits as in a GGUF file.
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
