#pragma once

#include <string>
#include <string_view>

namespace kvik {

// Returns the text with every byte other than ASCII letters, digits and those of `kept` as %XX.
std::string percent_encoded(std::string_view text, std::string_view kept);

}  // namespace kvik
