#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvik {

// The address at which `kvik serve` listens by default.
inline constexpr std::string_view kDefaultServerUrl = "http://127.0.0.1:8080";

// The address of a server: http://HOST[:PORT][/PATH].
struct ServerUrl {
  std::string host;  // a name or an address, without the brackets of IPv6
  uint16_t port = 80;
  std::string path = {};  // prefix of all routes, such as "/kvik"; without a slash at its end

  // Parses an address; "http://" may be missing. Errors: kInvalidArgument; kUnsupported for https.
  static Result<ServerUrl> parse(std::string_view text);

  // Returns HOST:PORT, with brackets around an address of IPv6.
  std::string authority() const;
  // Returns the whole address, without a slash at its end.
  std::string text() const;
  // Returns whether the host is this machine.
  bool is_loopback() const;
};

}  // namespace kvik
