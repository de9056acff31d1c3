#include "text/grammar/number_syntax.h"

#include <array>

namespace kvik::grammar {
namespace {

Regular digits(RegularPool& pool, uint32_t min) {
  return pool.repeat(pool.characters({{U'0', U'9'}}), min, RegularPool::kUnbounded);
}

Regular one_character(RegularPool& pool, char32_t c) { return pool.characters({{c, c}}); }

Regular whole_syntax(RegularPool& pool) {
  const Regular more = pool.sequence(pool.characters({{U'1', U'9'}}), digits(pool, 0));
  return pool.sequence(pool.optional(one_character(pool, U'-')),
                       pool.choice(one_character(pool, U'0'), more));
}

}  // namespace

Regular decimal_syntax(RegularPool& pool) {
  const Regular fraction = pool.sequence(one_character(pool, U'.'), digits(pool, 1));
  return pool.sequence(whole_syntax(pool), pool.optional(fraction));
}

Regular number_syntax(RegularPool& pool) {
  const Regular sign = pool.optional(pool.characters({{U'+', U'+'}, {U'-', U'-'}}));
  const Regular exponent = pool.sequence(
      std::array{pool.characters({{U'e', U'e'}, {U'E', U'E'}}), sign, digits(pool, 1)});
  return pool.sequence(decimal_syntax(pool), pool.optional(exponent));
}

Regular integer_syntax(RegularPool& pool) {
  const Regular zeros =
      pool.sequence(one_character(pool, U'.'),
                    pool.repeat(one_character(pool, U'0'), 1, RegularPool::kUnbounded));
  return pool.sequence(whole_syntax(pool), pool.optional(zeros));
}

}  // namespace kvik::grammar
