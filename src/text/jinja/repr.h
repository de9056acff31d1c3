#pragma once

#include <string>

namespace kvik::jinja {

// As Python prints a float: 1.0, 0.1, 1e+16, nan.
std::string float_text(double value);

}  // namespace kvik::jinja
