#include "server/http/listen_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/printable.h"
#include "server/http/listen_address.h"

namespace kvik {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

Result<tcp::endpoint> resolve(asio::io_context& io, const std::string& name, uint16_t port) {
  const std::string host = bind_address(name);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) return tcp::endpoint(address, port);
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), error);
  if (error || found.empty())
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("cannot resolve the address {} to listen on: {}", name, error.message()));
  return found.begin()->endpoint();
}

// Returns the path of a Unix-domain socket; an abstract one begins with '@'.
std::string unix_path(const sockaddr_un& address, size_t size) {
  if (size <= offsetof(sockaddr_un, sun_path)) return "(unnamed)";
  std::string path(address.sun_path, size - offsetof(sockaddr_un, sun_path));
  if (path[0] == '\0')
    path[0] = '@';
  else
    path.resize(std::strlen(path.c_str()));
  return printable(path);
}

}  // namespace

Result<ListenSocket> ListenSocket::open(const std::string& host, uint16_t port) try {
  asio::io_context io;
  TRY_ASSIGN(const tcp::endpoint endpoint, resolve(io, host, port));
  ListenSocket socket;
  boost::system::error_code error;
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (!error) socket.port_ = acceptor.local_endpoint(error).port();
  if (!error) socket.socket_ = FileDescriptor(acceptor.release(error));
  if (!error) {
    socket.host_ = host;
    socket.is_v6_ = endpoint.protocol() == tcp::v6();
    return socket;
  }
  const char* const advice = error == asio::error::address_in_use && port != 0
                                 ? "; another program uses this port: give --port N, or 0 for any"
                                 : "";
  return fail(ErrorCode::kIo,
              fmt::format("cannot listen on {}:{}: {}{}", host, port, error.message(), advice));
  // Thrown when Asio cannot open its internal files.
} catch (const boost::system::system_error& error) {
  return fail(ErrorCode::kIo,
              fmt::format("cannot listen on {}:{}: {}", host, port, error.code().message()));
}

Result<ListenSocket> ListenSocket::adopt(FileDescriptor descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return fail(ErrorCode::kIo, fmt::format("the socket of the service manager has no address: {}",
                                            std::strerror(errno)));
  ListenSocket socket;
  if (address.ss_family == AF_UNIX) {
    socket.is_unix_ = true;
    socket.host_ = unix_path(reinterpret_cast<const sockaddr_un&>(address), size);
  } else if (address.ss_family == AF_INET || address.ss_family == AF_INET6) {
    tcp::endpoint endpoint;
    std::memcpy(endpoint.data(), &address, std::min<size_t>(size, endpoint.capacity()));
    socket.is_v6_ = address.ss_family == AF_INET6;
    socket.host_ = endpoint.address().to_string();
    socket.port_ = endpoint.port();
  } else {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the socket of the service manager has address family {}, expected "
                            "IPv4, IPv6 or Unix",
                            address.ss_family));
  }
  socket.socket_ = std::move(descriptor);
  socket.is_adopted_ = true;
  return socket;
}

std::string ListenSocket::url(std::string_view scheme) const {
  if (is_unix_) return fmt::format("unix:{}", host_);
  const bool needs_brackets = host_.find(':') != std::string::npos && host_[0] != '[';
  return needs_brackets ? fmt::format("{}://[{}]:{}", scheme, host_, port_)
                        : fmt::format("{}://{}:{}", scheme, host_, port_);
}

Result<int> ListenSocket::duplicate() const {
  const int copy = ::fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0);
  if (copy >= 0) return copy;
  return fail(ErrorCode::kIo, fmt::format("cannot listen: {}", std::strerror(errno)));
}

}  // namespace kvik
