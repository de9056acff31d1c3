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

// Typed key-value pairs of a model file, filled by the format floor and read by text and model.
// Keys are those of the file ("llama.context_length"). Integers are widened to 64 bits and floats
// to double; arrays are homogeneous. Immutable after loading, so that any thread may read it.
class Metadata {
 public:
  using Value = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<bool>,
                             std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>,
                             std::vector<std::string>>;

  // Adds a value. Returns false if the key exists already; the first value is kept. stored_bits:
  // width of the numbers in the file, needed to write them again; 0: as wide as the values need.
  bool insert(std::string key, Value value, unsigned stored_bits = 0);
  // Like insert(), but replaces an existing value.
  void replace(std::string key, Value value);
  void erase(std::string_view key);

  const Value* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const std::map<std::string, Value, std::less<>>& values() const { return values_; }
  unsigned stored_bits(std::string_view key) const;

  // Typed access: an absent key is std::nullopt; a value of another type is an error that names the
  // key, its value and what was expected. Integers of either signedness are accepted if they fit,
  // and integers where a float is expected.
  Result<std::optional<uint64_t>> get_uint(std::string_view key) const;
  Result<std::optional<double>> get_float(std::string_view key) const;
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string>> get_string(std::string_view key) const;

  // Arrays: null if the key is absent. get_ints accepts signed and unsigned arrays.
  Result<const std::vector<std::string>*> get_strings(std::string_view key) const;
  Result<const std::vector<double>*> get_floats(std::string_view key) const;
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, unsigned, std::less<>> stored_bits_;  // only for keys with a known width
};

}  // namespace kvik
