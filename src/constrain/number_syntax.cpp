#include "constrain/number_syntax.h"

#include <array>

namespace kvik::constrain {
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

Regular plain_integer_syntax(RegularPool& pool) {
  const Regular zero = one_character(pool, U'0');
  return pool.difference(whole_syntax(pool), pool.sequence(one_character(pool, U'-'), zero));
}

Regular bounded_integer_syntax(RegularPool& pool) {
  constexpr uint32_t kDigits = 19;  // digits of the largest 64-bit integer
  const Regular digit = pool.characters({{U'0', U'9'}});
  const Regular whole = pool.sequence(std::array{pool.optional(one_character(pool, U'-')),
                                                 pool.characters({{U'1', U'9'}}),
                                                 pool.repeat(digit, 0, kDigits - 1)});
  return pool.choice(one_character(pool, U'0'), whole);
}

Regular bounded_decimal_syntax(RegularPool& pool) {
  constexpr uint32_t kDigits = 17;  // enough to distinguish all doubles
  const Regular digit = pool.characters({{U'0', U'9'}});
  const Regular zero = one_character(pool, U'0'), point = one_character(pool, U'.');
  const Regular below_one =
      pool.sequence(zero, pool.optional(pool.sequence(point, pool.repeat(digit, 1, kDigits))));
  const Regular whole = pool.sequence(pool.characters({{U'1', U'9'}}), digits(pool, 0));
  const Regular more = pool.sequence(whole, pool.optional(pool.sequence(point, digits(pool, 1))));
  const Regular few_digits = pool.repeat(pool.sequence(pool.optional(point), digit), 1, kDigits);
  const Regular magnitude = pool.choice(below_one, pool.intersection(more, few_digits));
  const Regular zeros = pool.sequence(point, pool.repeat(zero, 1, RegularPool::kUnbounded));
  const Regular above_zero = pool.difference(magnitude, pool.sequence(zero, pool.optional(zeros)));
  return pool.choice(magnitude, pool.sequence(one_character(pool, U'-'), above_zero));
}

Regular bounded_number_syntax(RegularPool& pool) {
  const Regular digit = pool.characters({{U'0', U'9'}});
  // The exponent is at most 289: the largest number is below 10^17 · 10^289 = 10^306, which fits
  // into a double.
  const Regular power = pool.choice(std::array{
      pool.repeat(digit, 1, 2), pool.sequence(one_character(pool, U'1'), pool.repeat(digit, 2, 2)),
      pool.sequence(
          std::array{one_character(pool, U'2'), pool.characters({{U'0', U'8'}}), digit})});
  const Regular sign = pool.optional(pool.characters({{U'+', U'+'}, {U'-', U'-'}}));
  const Regular exponent =
      pool.sequence(std::array{pool.characters({{U'e', U'e'}, {U'E', U'E'}}), sign, power});
  return pool.sequence(bounded_decimal_syntax(pool), pool.optional(exponent));
}

Regular integer_syntax(RegularPool& pool) {
  const Regular zeros =
      pool.sequence(one_character(pool, U'.'),
                    pool.repeat(one_character(pool, U'0'), 1, RegularPool::kUnbounded));
  return pool.sequence(whole_syntax(pool), pool.optional(zeros));
}

}  // namespace kvik::constrain
