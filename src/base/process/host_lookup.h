#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace kvik {

struct HostAddress {
  sockaddr_storage address{};
  socklen_t n_bytes = 0;  // of `address`

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Returns the addresses of a host for a TCP connection, in the order of preference. `host` is a
// name or an address. Waits at most until the deadline: a lookup that no name server has answered
// by then continues in a separate thread, and its result is dropped. Errors: kIo if the lookup
// fails or takes too long, kUnavailable if too many lookups are still unanswered. Any thread.
Result<std::vector<HostAddress>> look_up_host(const std::string& host, uint16_t port,
                                              TimePoint deadline);

}  // namespace kvik
