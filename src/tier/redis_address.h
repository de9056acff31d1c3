#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvik {

// Address of a Redis server, or of a Valkey server, which has the same protocol.
struct RedisAddress {
  enum class Transport { kTcp, kTls, kUnix };
  Transport transport = Transport::kTcp;
  std::string host = {};  // kUnix: path of the socket
  uint16_t port = 6379;
  uint32_t database = 0;
  std::string user = {};      // empty: Redis's default user
  std::string password = {};  // empty: none is sent

  // Returns the address without user and password, for messages.
  std::string printable() const;
};

// Parses redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], the same with rediss:// for TLS, or
// unix:///PATH[?db=DATABASE]. An IPv6 address is in brackets. Errors: kInvalidArgument.
Result<RedisAddress> parse_redis_address(std::string_view url);

}  // namespace kvik
