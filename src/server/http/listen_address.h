#pragma once

#include <string>
#include <string_view>

namespace kvik {

// What to bind for a host that a person wrote: "localhost" → "127.0.0.1", "[::1]" → "::1".
std::string bind_address(std::string_view host);

}  // namespace kvik
