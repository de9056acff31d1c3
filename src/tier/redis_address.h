#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvik {

// Where a Redis is, or a Valkey, which speaks the same.
struct RedisAddress {
  enum class Transport { kTcp, kTls, kUnix };
  Transport transport = Transport::kTcp;
  std::string host = {};  // kUnix: the path of the socket
  uint16_t port = 6379;
  uint32_t database = 0;
  std::string user = {};      // empty: Redis's default user
  std::string password = {};  // empty: none is sent

  // For messages: without user and password.
  std::string printable() const;
};

// redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], the same with rediss:// for TLS, or
// unix:///PATH[?db=DATABASE]. A host of several colons stands in brackets. Errors:
// kInvalidArgument.
Result<RedisAddress> parse_redis_address(std::string_view url);

}  // namespace kvik
