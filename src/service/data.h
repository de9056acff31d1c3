#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/variant.h"

namespace kvik {

// What JSON can say, by value: how arguments, schemas and whatever Kvik has no type for reach a
// chat template as they were given.
struct Data {
  struct Field;
  using List = std::vector<Data>;
  using Fields = std::vector<Field>;  // in the order in which they were given
  using Null = std::monostate;

  Variant<Null, bool, int64_t, double, std::string, List, Fields> value;

  friend bool operator==(const Data&, const Data&) = default;
};

struct Data::Field {
  std::string name;
  Data data;
  friend bool operator==(const Field&, const Field&) = default;
};

}  // namespace kvik
