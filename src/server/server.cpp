#include "server/server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "server/http/connection.h"
#include "server/http/listen_address.h"
#include "server/http/plain_stream.h"
#include "server/http/tls_stream.h"
#include "server/server_state.h"

namespace kvik {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Connections over the limit that may be told so at the same time; more are just closed.
constexpr uint32_t kMaxTurnedAway = 64;

Result<tcp::endpoint> resolve(const ServerOptions& options) {
  const std::string host = bind_address(options.host);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) return tcp::endpoint(address, options.port);
  asio::io_context io;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(options.port), error);
  if (error || found.empty())
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is no address to listen on: {}", options.host, error.message()));
  return found.begin()->endpoint();
}

// A connection is a file; Debian's default of 1,024 files would end accept() before our own limit.
void allow_open_files(uint32_t max_connections) {
  constexpr rlim_t kOtherFiles = 256;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = max_connections + kMaxTurnedAway + kOtherFiles;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
    log::warn("{} open files are allowed, {} connections need {}", limit.rlim_cur, max_connections,
              wanted);
}

// The calling thread sends tokens that are ready while every core computes. As everybody else it
// waited for up to 4 ms until it was its turn (p99, two cores); at this rank it is 0.8 ms. It needs
// less than a hundredth of a core. Without the right to (RLIMIT_NICE) all stays as it is.
void come_before_computation() {
  constexpr int kNice = -10;
  static_cast<void>(setpriority(PRIO_PROCESS, 0, kNice));  // 0: this thread
}

void report(std::exception_ptr failure) {
  if (!failure) return;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& exception) {
    log::error("a connection ended with: {}", exception.what());
  }
}

}  // namespace

// The network thread: it accepts, and runs the connections' coroutines.
class Server::Impl {
 public:
  Impl(ServiceApi& service, const ServerOptions& options)
      : state_(service, options), acceptor_(io_), pause_(io_), work_(io_.get_executor()) {}

  Result<void> listen() {
    if (!state_.options.access_log.empty()) {
      TRY_ASSIGN(state_.access_log, AccessLog::open(state_.options.access_log));
    }
    if (state_.options.tls) {
      TRY_ASSIGN(tls_, make_tls_context(*state_.options.tls));
    }
    TRY_ASSIGN(const tcp::endpoint endpoint, resolve(state_.options));
    boost::system::error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error)
      return fail(ErrorCode::kIo, fmt::format("cannot listen on {}:{}: {}", state_.options.host,
                                              state_.options.port, error.message()));
    allow_open_files(state_.options.max_connections);
    asio::co_spawn(io_, accept_all(), asio::detached);
    thread_ = std::thread([this] { run(); });
    return {};
  }

  uint16_t port() const { return port_; }
  void stop_accepting() { state_.is_draining.store(true); }

  void stop(Duration at_most) {
    if (!thread_.joinable()) return;
    stop_accepting();
    state_.census.wait_for_no_requests(at_most);
    asio::post(io_, [this] { abort_all(); });
    state_.census.wait_for_no_connections(state_.options.abort_grace);
    asio::post(io_, [this] {
      for (const auto& [raw, connection] : connections_) connection->close();
    });
    work_.reset();
    thread_.join();
    state_.offload.join();
  }

 private:
  void run() {
    come_before_computation();
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& exception) {  // memory running out
        log::error("network thread: {}", exception.what());
      }
    }
  }

  asio::awaitable<void> accept_all() {
    constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
    while (acceptor_.is_open()) {
      auto [error, socket] = co_await acceptor_.async_accept(kAwait);
      if (!error) {
        admit(std::move(socket));
      } else if (acceptor_.is_open()) {
        log::warn("cannot accept a connection: {}", error.message());  // out of files, mostly
        pause_.expires_after(std::chrono::milliseconds(100));
        co_await pause_.async_wait(kAwait);
      }
    }
  }

  void admit(tcp::socket socket) {
    const uint32_t max = state_.options.max_connections;
    if (state_.is_aborting || connections_.size() >= size_t{max} + kMaxTurnedAway) return;
    boost::system::error_code ignored;  // the peer may be gone already
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::send_buffer_size(state_.options.socket_send_buffer_bytes),
                      ignored);
    const auto remote = socket.remote_endpoint(ignored).address().to_string();
    std::unique_ptr<ByteStream> stream;
    if (tls_)
      stream = std::make_unique<TlsStream>(std::move(socket), *tls_);
    else
      stream = std::make_unique<PlainStream>(std::move(socket));
    auto connection = std::make_shared<Connection>(std::move(stream), remote, state_);
    const uint32_t n_served = n_served_ < max ? 1 : 0;
    n_served_ += n_served;
    connections_.emplace(connection.get(), connection);
    state_.census.add_connections(1);
    state_.counts.connections = connections_.size();
    asio::co_spawn(io_, n_served > 0 ? connection->serve() : connection->turn_away(),
                   [this, connection, n_served](std::exception_ptr failure) {
                     report(failure);
                     connection->close();
                     n_served_ -= n_served;
                     connections_.erase(connection.get());
                     state_.counts.connections = connections_.size();
                     state_.census.add_connections(-1);
                   });
  }

  void abort_all() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    state_.is_aborting = true;
    for (const auto& [raw, connection] : connections_) connection->abort();
  }

  ServerState state_;                      // outlives what runs in io_
  std::optional<asio::ssl::context> tls_;  // as well
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  uint32_t n_served_ = 0;
  uint16_t port_ = 0;
  std::thread thread_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { stop(Duration::zero()); }

Result<std::unique_ptr<Server>> Server::start(ServiceApi& service, const ServerOptions& options) {
  auto impl = std::make_unique<Impl>(service, options);
  TRY(impl->listen());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

uint16_t Server::port() const { return impl_->port(); }
void Server::stop_accepting() { impl_->stop_accepting(); }
void Server::stop(Duration at_most) { impl_->stop(at_most); }

}  // namespace kvik
