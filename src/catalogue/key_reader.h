#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"

namespace kvik {

// Reads "<architecture>.<key>" with its bounds. Errors: kCorrupt; the message names the key, what
// it holds and what was expected.
class KeyReader {
 public:
  KeyReader(const Metadata& metadata, std::string prefix)
      : metadata_(metadata), prefix_(std::move(prefix)) {}

  std::string full(std::string_view key) const;

  // A whole number in [1, max]; `fallback` 0 means that the key must be there.
  Result<uint32_t> count(std::string_view key, uint64_t max, uint64_t fallback = 0) const;

  // As count, but 0 is allowed and the default.
  Result<uint32_t> optional_count(std::string_view key, uint64_t max) const;

  // A whole number in [1, max] for each of n: a list of them, or one for all. `fallback` as for
  // count.
  Result<std::vector<uint32_t>> counts(std::string_view key, size_t n, uint64_t max,
                                       uint64_t fallback = 0) const;

  // The same where a list may hold 0, and the key must be there.
  Result<std::vector<uint32_t>> counts_or_none(std::string_view key, size_t n, uint64_t max) const;

  // A list of n flags, true or false or numbers; empty where the key is absent.
  Result<std::vector<bool>> flags(std::string_view key, size_t n) const;

  // A number ≥ 0 that a float can hold.
  Result<float> real(std::string_view key, double fallback) const;

  // A number > 0.
  Result<float> positive(std::string_view key, double fallback) const;

  Result<bool> flag(std::string_view key, bool fallback) const;

  // A known word of a few.
  Result<std::string> word(std::string_view key, std::string fallback) const;

 private:
  // A list of whole numbers, one for each of n.
  Result<std::vector<int64_t>> list(std::string_view key, size_t n) const;
  Result<void> check_length(std::string_view key, size_t n, size_t expected) const;

  const Metadata& metadata_;
  std::string prefix_;
};

}  // namespace kvik
