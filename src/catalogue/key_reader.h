#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"

namespace kvik {

// Reads the values of keys "<architecture>.<key>" within bounds. Errors: kCorrupt; the message
// names the key, its value and what was expected.
class KeyReader {
 public:
  KeyReader(const Metadata& metadata, std::string prefix)
      : metadata_(metadata), prefix_(std::move(prefix)) {}

  // Returns a reader of the keys "<prefix>.<key>".
  KeyReader with_prefix(std::string prefix) const { return {metadata_, std::move(prefix)}; }

  // Returns a reader of the values of one of n layers: count() and optional_count() return the
  // entry of that layer if the key is a list.
  KeyReader of_layer(uint32_t layer, size_t n) const {
    KeyReader reader = *this;
    reader.layer_ = {layer, n};
    return reader;
  }

  // Returns the key with the prefix of the architecture.
  std::string full(std::string_view key) const;

  // Returns an integer in [1, max]. With `fallback` 0 the key is required.
  Result<uint32_t> count(std::string_view key, uint64_t max, uint64_t fallback = 0) const;

  // Like count(), but 0 is allowed and is the default.
  Result<uint32_t> optional_count(std::string_view key, uint64_t max) const;

  // Returns n integers in [1, max], from a list or from a single number. `fallback` as for
  // count().
  Result<std::vector<uint32_t>> counts(std::string_view key, size_t n, uint64_t max,
                                       uint64_t fallback = 0) const;

  // Returns a list of n integers ≥ 0. The key is required.
  Result<std::vector<uint64_t>> integers(std::string_view key, size_t n) const;
  // Returns the first n integers ≥ 0 of a list. The key is required.
  Result<std::vector<uint64_t>> integers_at_least(std::string_view key, size_t n) const;

  // Like counts(), but a list may contain 0, and the key is required.
  Result<std::vector<uint32_t>> counts_or_none(std::string_view key, size_t n, uint64_t max) const;

  bool has(std::string_view key) const { return metadata_.find(full(key)) != nullptr; }
  bool is_text(std::string_view key) const;
  bool is_list(std::string_view key) const;   // of numbers or booleans
  size_t length(std::string_view key) const;  // of a list of integers; 0 for anything else

  // Returns a list of n booleans, which may be stored as numbers; empty if the key is absent.
  Result<std::vector<bool>> flags(std::string_view key, size_t n) const;

  // Returns a number ≥ 0 that a float can hold.
  Result<float> real(std::string_view key, double fallback) const;

  // Returns a number > 0.
  Result<float> positive(std::string_view key, double fallback) const;

  // Returns n numbers of any sign that a float can hold, from a list or from a single number. The
  // key is required.
  Result<std::vector<float>> reals(std::string_view key, size_t n) const;
  // Like reals(), but they may be minus infinity.
  Result<std::vector<float>> extended_reals(std::string_view key, size_t n) const;

  Result<bool> flag(std::string_view key, bool fallback) const;

  // Returns a string.
  Result<std::string> word(std::string_view key, std::string fallback) const;

 private:
  // Returns an integer; std::nullopt if the key is absent.
  Result<std::optional<uint64_t>> number(std::string_view key) const;
  std::string place_of(std::string_view key) const;
  struct Bounds {
    uint64_t least, most;
  };
  // Returns the numbers of the layers, checked.
  Result<std::vector<uint32_t>> counts_of(std::string_view key, std::span<const int64_t> numbers,
                                          Bounds bounds) const;
  // Returns a list of n integers.
  Result<std::vector<int64_t>> list(std::string_view key, size_t n) const;
  Result<void> check_length(std::string_view key, size_t n, size_t expected) const;

  const Metadata& metadata_;
  std::string prefix_;
  struct Layer {
    uint32_t index = 0;
    size_t n = 0;
  };
  std::optional<Layer> layer_ = {};
};

}  // namespace kvik
