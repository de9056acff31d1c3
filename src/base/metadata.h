#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace kvik {

// Typed key → value pairs of a model file: filled by format, read by text and model.
// Keys keep the outside spelling ("llama.context_length"). All integers are widened to 64 bits, all
// floats to double; arrays are homogeneous. Immutable after loading, so any thread may read it.
class Metadata {
 public:
  using Value = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<bool>,
                             std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>,
                             std::vector<std::string>>;

  // False where the key exists already; the first value stays. stored_bits: how wide its numbers
  // are in the file, for whoever writes them again; 0: as wide as they need.
  bool insert(std::string key, Value value, unsigned stored_bits = 0);
  // The same in the place of what is there.
  void replace(std::string key, Value value);
  void erase(std::string_view key);

  const Value* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const std::map<std::string, Value, std::less<>>& values() const { return values_; }
  unsigned stored_bits(std::string_view key) const;

  // The typed readers below: an absent key is std::nullopt, a key of another type is an error that
  // names the key, what it is and what was expected. Integers of either sign are accepted where
  // they fit, and integers where a float is expected.
  Result<std::optional<uint64_t>> get_uint(std::string_view key) const;
  Result<std::optional<double>> get_float(std::string_view key) const;
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string>> get_string(std::string_view key) const;

  // Arrays: null where the key is absent. Signed and unsigned integer arrays both serve get_ints.
  Result<const std::vector<std::string>*> get_strings(std::string_view key) const;
  Result<const std::vector<double>*> get_floats(std::string_view key) const;
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, unsigned, std::less<>> stored_bits_;  // where they are known
};

}  // namespace kvik
