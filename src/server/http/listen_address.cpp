#include "server/http/listen_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "server/server.h"

namespace kvik {

std::string bind_address(std::string_view host) {
  if (host == "localhost") return "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return std::string(host);
}

bool is_loopback(std::string_view host) {
  const std::string address = bind_address(host);
  std::array<uint8_t, 16> bytes{};
  if (inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) return bytes[0] == 127;
  if (inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1) return false;
  const std::array<uint8_t, 13> mapped_127 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
  if (std::equal(mapped_127.begin(), mapped_127.end(), bytes.begin())) return true;
  std::array<uint8_t, 16> one{};
  one[15] = 1;
  return bytes == one;
}

}  // namespace kvik
