#pragma once

#include "constrain/regular.h"

namespace kvik::constrain {

// The plain decimal syntax of JSON numbers, without exponents.
Regular decimal_syntax(RegularPool& pool);
// The syntax of JSON numbers, with exponents.
Regular number_syntax(RegularPool& pool);
// 7, -7, 7.0
Regular integer_syntax(RegularPool& pool);
// 7, -7; neither fraction nor minus zero.
Regular plain_integer_syntax(RegularPool& pool);

// Bounded syntaxes, with which a model can neither write endless digits nor a number that overflows
// a double: up to 17 significant digits with exponents up to ±289, integers of up to 19 digits, no
// minus zero.
Regular bounded_integer_syntax(RegularPool& pool);
Regular bounded_decimal_syntax(RegularPool& pool);
Regular bounded_number_syntax(RegularPool& pool);

}  // namespace kvik::constrain
