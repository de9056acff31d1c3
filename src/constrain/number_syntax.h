#pragma once

#include "constrain/regular.h"

namespace kvik::constrain {

// Returns the plain decimal syntax of JSON numbers, without exponents.
Regular decimal_syntax(RegularPool& pool);
// Returns the syntax of JSON numbers, with exponents.
Regular number_syntax(RegularPool& pool);
// Returns the syntax of integers, which may have a fraction of zeros: 7, -7, 7.0.
Regular integer_syntax(RegularPool& pool);
// Returns the syntax of integers with neither fraction nor minus zero: 7, -7.
Regular plain_integer_syntax(RegularPool& pool);

// Return bounded syntaxes, with which a model can write neither endless digits nor a number that
// overflows a double: up to 17 significant digits with exponents up to ±289, integers of up to 19
// digits, no minus zero.
Regular bounded_integer_syntax(RegularPool& pool);
Regular bounded_decimal_syntax(RegularPool& pool);
Regular bounded_number_syntax(RegularPool& pool);

}  // namespace kvik::constrain
