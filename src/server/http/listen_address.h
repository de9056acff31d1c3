#pragma once

#include <string>
#include <string_view>

namespace kvik {

// Returns the address to bind for a host as given by the user: "localhost" → "127.0.0.1",
// "[::1]" → "::1".
std::string bind_address(std::string_view host);

}  // namespace kvik
