#pragma once

#include <string>
#include <string_view>

namespace kvik {

// Text as a terminal may see it: control characters, which could move the cursor, rename the window
// or type for the user, become pictures of themselves (U+241B for ESC), and bytes that are no UTF-8
// become U+FFFD. Line ends and tabs stay; carriage returns go, so that a line hides none before it.
std::string terminal_text(std::string_view text);

// Every maximal run of bytes that is no UTF-8 becomes U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace kvik
