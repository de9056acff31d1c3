#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// A bound and listening stream socket: TCP, or a Unix-domain socket of a service manager. Clients
// that connect before a server accepts them wait in the kernel's backlog, so that one server can
// take over the port from another without a refused connection.
class ListenSocket {
 public:
  // Port 0 is any free port. Errors: kInvalidArgument (the host is not an address), kIo (the port
  // is in use or not allowed).
  static Result<ListenSocket> open(const std::string& host, uint16_t port);

  // Takes over a listening stream socket, such as inherited_socket(). Errors: kInvalidArgument (its
  // family is neither IPv4, IPv6 nor Unix), kIo.
  static Result<ListenSocket> adopt(FileDescriptor socket);

  // Returns the address to which clients on this machine may connect: "127.0.0.1"; the path of a
  // Unix-domain socket.
  const std::string& host() const { return host_; }
  uint16_t port() const { return port_; }  // 0: a Unix-domain socket
  bool is_v6() const { return is_v6_; }
  bool is_unix() const { return is_unix_; }
  bool is_adopted() const { return is_adopted_; }

  // Returns the address as in a URL: "http://127.0.0.1:8080", "unix:/run/kvik/kvik.sock".
  std::string url(std::string_view scheme) const;

  // Returns another descriptor of the same socket; the caller closes it. Errors: kIo.
  Result<int> duplicate() const;

 private:
  ListenSocket() = default;

  FileDescriptor socket_;
  std::string host_;
  uint16_t port_ = 0;
  bool is_v6_ = false;
  bool is_unix_ = false;
  bool is_adopted_ = false;
};

}  // namespace kvik
