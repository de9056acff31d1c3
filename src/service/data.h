#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvik {

// What JSON can say, by value: how arguments, schemas and whatever Kvik has no type for reach a
// chat template as they were given.
struct Data {
  using List = std::vector<Data>;
  using Fields =
      std::vector<std::pair<std::string, Data>>;  // in the order in which they were given
  using Null = std::monostate;

  std::variant<Null, bool, int64_t, double, std::string, List, Fields> value;

  friend bool operator==(const Data&, const Data&) = default;
};

}  // namespace kvik
