#include "server/http/listen_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

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

Result<int> ListenSocket::duplicate() const {
  const int copy = ::fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0);
  if (copy >= 0) return copy;
  return fail(ErrorCode::kIo, fmt::format("cannot listen: {}", std::strerror(errno)));
}

}  // namespace kvik
