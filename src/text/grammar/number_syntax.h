#pragma once

#include "text/grammar/regular.h"

namespace kvik::grammar {

// The plain decimal syntax of JSON's numbers, without exponents.
Regular decimal_syntax(RegularPool& pool);
// With them.
Regular number_syntax(RegularPool& pool);
// 7, -7, 7.0
Regular integer_syntax(RegularPool& pool);

}  // namespace kvik::grammar
