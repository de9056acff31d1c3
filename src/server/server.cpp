#include "server/server.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <filesystem>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "base/memory_reserve.h"
#include "base/process/heap.h"
#include "base/process/thread.h"
#include "base/rare_warning.h"
#include "server/http/await.h"
#include "server/http/connection.h"
#include "server/http/listen_socket.h"
#include "server/http/plain_stream.h"
#include "server/http/tls_stream.h"
#include "server/server_state.h"

namespace kvik {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Connections over the limit that are heard for a moment, probes to be answered and others to be
// told; more are just closed.
constexpr uint32_t kMaxTurnedAway = 64;

constexpr size_t kReserveBytes = size_t{8} << 20;
constexpr std::chrono::seconds kTidyEvery{1};
// Freed memory that is worth going through the allocator for.
constexpr size_t kWorthTrimming = size_t{4} << 20;
// Where answers nearly fill their part of the memory, a reader who has taken so long for one goes.
constexpr std::chrono::seconds kReadingTime{10};

// A connection is a file; Debian's default of 1,024 files would end accept() before our own limit.
// Errors: kIo where so few are allowed that no connection could be served.
Result<void> allow_open_files(uint32_t max_connections) {
  constexpr rlim_t kOtherFiles = 256, kFewest = 32;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const rlim_t wanted = max_connections + kMaxTurnedAway + kOtherFiles;
  if (limit.rlim_cur >= wanted) return {};
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
    log::warn("{} open files are allowed, {} connections need {}", limit.rlim_cur, max_connections,
              wanted);
  if (limit.rlim_cur >= kFewest) return {};
  return fail(ErrorCode::kIo, fmt::format("{} open files are allowed, expected at least {}",
                                          limit.rlim_cur, kFewest));
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
    static log::RareWarning warn;
    warn("a connection ended with: {}", exception.what());
  }
}

}  // namespace

// The network thread: it accepts, and runs the connections' coroutines.
class Server::Impl {
 public:
  Impl(ServiceApi& service, const ServerOptions& options)
      : state_(service, options),
        acceptor_(io_),
        pause_(io_),
        tidy_timer_(io_),
        work_(io_.get_executor()) {}

  Result<void> listen(const ListenSocket& socket) {
    if (!state_.options.access_log.empty()) {
      TRY_ASSIGN(state_.access_log, AccessLog::open(state_.options.access_log));
    }
    if (state_.options.tls) {
      TRY_ASSIGN(tls_, make_tls_context(*state_.options.tls));
    }
    TRY_ASSIGN(const int descriptor, socket.duplicate());
    boost::system::error_code error;
    acceptor_.assign(socket.is_v6() ? tcp::v6() : tcp::v4(), descriptor, error);
    if (error) return fail(ErrorCode::kIo, fmt::format("cannot listen: {}", error.message()));
    port_ = socket.port();
    TRY(allow_open_files(state_.options.max_connections));
    TRY(state_.offload.start("kvik-work", ServerState::kOffloadThreads,
                             Offload::Priority::kNormal));
    TRY(state_.slow_work.start("kvik-work-slow", 1, Offload::Priority::kLow));
    asio::co_spawn(io_, accept_all(), asio::detached);
    asio::co_spawn(io_, tidy(), asio::detached);
    TRY_ASSIGN(thread_, start_thread("kvik-http", [this] { run(); }));
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
    state_.slow_work.join();
  }

 private:
  void run() {
    come_before_computation();
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& exception) {  // memory running out
        static log::RareWarning warn;
        warn("network thread: {}", exception.what());
      }
    }
  }

  asio::awaitable<void> accept_all() {
    while (acceptor_.is_open()) {
      auto [error, socket] = co_await acceptor_.async_accept(kAwait);
      if (!error && try_admit(std::move(socket))) continue;
      if (acceptor_.is_open()) {
        static log::RareWarning warn;  // out of files, mostly
        warn("cannot accept a connection: {}", error ? error.message() : "out of memory");
        pause_.expires_after(std::chrono::milliseconds(100));
        co_await pause_.async_wait(kAwait);
      }
    }
  }

  // False where there is no memory for it.
  bool try_admit(tcp::socket socket) {
    try {
      admit(std::move(socket));
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void admit(tcp::socket socket) {
    if (state_.is_aborting) return;
    ByteShare share(state_.memory.connections);
    const bool is_served = has_room(share);
    if (!is_served && connections_.size() - n_served_ >= kMaxTurnedAway) return;
    boost::system::error_code ignored;  // the peer may be gone already
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::send_buffer_size(state_.options.socket_send_buffer_bytes),
                      ignored);
    const auto remote = socket.remote_endpoint(ignored).address().to_string();
    std::unique_ptr<ByteStream> stream;
    if (tls_)
      stream = std::make_unique<TlsStream>(std::move(socket), *tls_, state_.memory.all);
    else
      stream = std::make_unique<PlainStream>(std::move(socket));
    auto connection =
        std::make_shared<Connection>(std::move(stream), remote, state_, std::move(share));
    const uint32_t n_served = is_served ? 1 : 0;
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

  // For one connection more, whose memory it takes; where there is none, those go that have been
  // longest about sending their request. What they held is the new one's at once.
  bool has_room(ByteShare& share) {
    const size_t wanted = tls_ ? TlsStream::kOpeningBytes : PlainStream::kIdleBytes;
    bool is_full = n_served_ >= state_.options.max_connections;
    while (is_full || !share.resize(wanted)) {
      Connection* const oldest = state_.waiting.take_oldest();
      if (!oldest) return false;
      const ByteShare freed = oldest->give_up();
      is_full = false;
    }
    return true;
  }

  // Once a second: what was freed goes back to the system, and readers who take for ever go where
  // others want the memory.
  asio::awaitable<void> tidy() {
    while (acceptor_.is_open()) {
      tidy_timer_.expires_after(kTidyEvery);
      co_await tidy_timer_.async_wait(kAwait);
      static_cast<void>(MemoryReserve::restore());
      const ByteLedger& answers = state_.memory.answers;
      if (answers.used_bytes() > answers.limit_bytes() / 4 * 3) {
        const TimePoint limit = std::chrono::steady_clock::now() - kReadingTime;
        if (Connection* const slow = state_.writing.take_oldest(limit)) slow->close();
      }
      ByteLedger& all = state_.memory.all;
      if (all.take_peak_bytes() > all.used_bytes() + kWorthTrimming)
        asio::post(state_.offload.get_executor(), heap::release);
    }
  }

  // Releases the socket before closing it: only then does the reactor forget it while another
  // server holds a duplicate.
  void close_acceptor() {
    boost::system::error_code error;
    const int descriptor = acceptor_.release(error);
    if (!error) ::close(descriptor);
  }

  void abort_all() {
    close_acceptor();
    pause_.cancel();
    tidy_timer_.cancel();
    state_.is_aborting = true;
    for (const auto& [raw, connection] : connections_) connection->abort();
  }

  ServerState state_;                      // outlives what runs in io_
  std::optional<asio::ssl::context> tls_;  // as well
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  asio::steady_timer tidy_timer_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  uint32_t n_served_ = 0;
  uint16_t port_ = 0;
  std::thread thread_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { stop(Duration::zero()); }

Result<void> Server::check(const ServerOptions& options) {
  std::error_code ignored;
  // Whoever reads a pipe would take that for its end.
  const bool is_pipe = std::filesystem::is_fifo(options.access_log, ignored);
  if (!options.access_log.empty() && !is_pipe) TRY(AccessLog::open(options.access_log));
  if (options.tls) TRY(make_tls_context(*options.tls));
  return {};
}

Result<std::unique_ptr<Server>> Server::start(ServiceApi& service, const ServerOptions& options) {
  TRY_ASSIGN(const ListenSocket socket, ListenSocket::open(options.host, options.port));
  return start(service, options, socket);
}

Result<std::unique_ptr<Server>> Server::start(ServiceApi& service, const ServerOptions& options,
                                              const ListenSocket& socket) {
  if (!options.loading) {
    MemoryReserve::keep(kReserveBytes);
    heap::keep_little();
  }
  try {
    auto impl = std::make_unique<Impl>(service, options);
    TRY(impl->listen(socket));
    return std::unique_ptr<Server>(new Server(std::move(impl)));
  } catch (const boost::system::system_error& error) {  // Asio opens files of its own
    return fail(ErrorCode::kIo, fmt::format("cannot serve: {}", error.code().message()));
  }
}

uint16_t Server::port() const { return impl_->port(); }
void Server::stop_accepting() { impl_->stop_accepting(); }
void Server::stop(Duration at_most) { impl_->stop(at_most); }

}  // namespace kvik
