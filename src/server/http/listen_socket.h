#pragma once

#include <cstdint>
#include <string>

#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// A bound and listening TCP socket. Clients that connect before a server accepts them wait in the
// kernel's backlog, so that one server can take over the port from another without a refused
// connection.
class ListenSocket {
 public:
  // Port 0 is any free port. Errors: kInvalidArgument (the host is not an address), kIo (the port
  // is in use or not allowed).
  static Result<ListenSocket> open(const std::string& host, uint16_t port);

  uint16_t port() const { return port_; }
  bool is_v6() const { return is_v6_; }

  // Returns another descriptor of the same socket; the caller closes it. Errors: kIo.
  Result<int> duplicate() const;

 private:
  ListenSocket() = default;

  FileDescriptor socket_;
  uint16_t port_ = 0;
  bool is_v6_ = false;
};

}  // namespace kvik
