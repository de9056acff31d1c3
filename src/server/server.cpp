#include "server/server.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
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
#include "base/process/heap.h"
#include "base/process/high_priority.h"
#include "base/process/memory_reserve.h"
#include "base/process/thread.h"
#include "base/rare_warning.h"
#include "server/http/await.h"
#include "server/http/connection.h"
#include "server/http/listen_socket.h"
#include "server/http/plain_stream.h"
#include "server/http/tls_stream.h"
#include "server/operate/counter_sums.h"
#include "server/server_state.h"

namespace kvik {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Connections over the limit that may still send a request, to answer health probes and reject
// others; more are closed at once.
constexpr uint32_t kMaxRejected = 64;

// Pause before a coroutine that ended for lack of memory is started again.
constexpr std::chrono::milliseconds kRestartPause{20};
// Freed memory for which trimming the heap pays off.
constexpr size_t kWorthTrimming = size_t{4} << 20;
// If answers nearly fill their share of the memory, a reader that has taken this long is
// disconnected.
constexpr std::chrono::seconds kReadingTime{10};

// Raises the limit of open files, because every connection is one: Debian's default of 1,024 is
// lower than our limit of connections. Errors: kIo if the limit is too low to serve any connection.
Result<void> allow_open_files(uint32_t max_connections) {
  constexpr rlim_t kOtherFiles = 256, kFewest = 32;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const rlim_t wanted = max_connections + kMaxRejected + kOtherFiles;
  if (limit.rlim_cur >= wanted) return {};
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
    log::warn("{} open files are allowed, {} connections need {}", limit.rlim_cur, max_connections,
              wanted);
  if (limit.rlim_cur >= kFewest) return {};
  return fail(ErrorCode::kIo, fmt::format("{} open files are allowed, expected at least {}",
                                          limit.rlim_cur, kFewest));
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
      : service_(service),
        state_(service, options),
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
    // A Unix-domain socket is used like a TCP socket: accepting, reading and writing do not depend
    // on the family, only the peer's address does.
    acceptor_.assign(socket.is_v6() ? tcp::v6() : tcp::v4(), descriptor, error);
    if (error) return fail(ErrorCode::kIo, fmt::format("cannot listen: {}", error.message()));
    port_ = socket.port();
    is_unix_ = socket.is_unix();
    TRY(allow_open_files(state_.options.max_connections));
    TRY(state_.offload.start("kvik-work", ServerState::kOffloadThreads,
                             Offload::Priority::kNormal));
    TRY(state_.slow_work.start("kvik-work-slow", 1, Offload::Priority::kLow));
    if (state_.options.model_library) TRY(state_.pulls.start());
    TRY_ASSIGN(thread_, start_thread("kvik-http", [this] { run(); }));
    return {};
  }

  uint16_t port() const { return port_; }
  std::string counters() { return CounterSums::counters_in(all_metrics(state_.context(service_))); }
  void stop_accepting() { state_.is_draining.store(true); }

  bool wait_for_submissions(Duration at_most) {
    return state_.active_counts.wait_for_none_submitting(at_most);
  }

  void stop(Duration at_most) {
    if (!thread_.joinable()) return;
    stop_accepting();
    state_.active_counts.wait_for_no_requests(at_most);
    state_.background.stop();
    asio::post(io_, [this] { abort_all(); });
    state_.active_counts.wait_for_no_connections(state_.options.abort_grace);
    asio::post(io_, [this] {
      for (const auto& [raw, connection] : connections_) connection->close();
    });
    work_.reset();
    thread_.join();
    state_.offload.join();
    state_.slow_work.join();
    state_.pulls.stop();
  }

 private:
  // Exists as long as one of the essential coroutines. If there is no memory for its next
  // operation, Asio destroys the coroutine and calls no handler: then run_one() returns 0, and
  // run() starts it again.
  class Running {
   public:
    Running(Impl& impl, bool& is_running) : impl_(&impl), is_running_(&is_running) {
      is_running = true;
    }
    Running(Running&& other) noexcept
        : impl_(std::exchange(other.impl_, nullptr)), is_running_(other.is_running_) {}
    Running& operator=(Running&&) = delete;
    ~Running() {
      if (!impl_) return;
      *is_running_ = false;
      if (impl_->acceptor_.is_open()) impl_->io_.stop();
    }

   private:
    Impl* impl_;
    bool* is_running_;
  };

  // The thread sends tokens while all cores compute: with normal priority it would wait up to 4 ms
  // for a core (p99, two cores).
  void run() {
    HighPriority priority;
    while (!run_until_interrupted(priority)) pause();
  }

  // Returns true once the server has stopped, false if memory ran out.
  bool run_until_interrupted(HighPriority& priority) {
    try {
      start_loops();
      while (io_.run_one() > 0) priority.check();
      return !acceptor_.is_open();
    } catch (const std::exception& exception) {
      warn_of(exception);
      return false;
    }
  }

  // Starts the coroutines that are not running.
  void start_loops() {
    io_.restart();
    if (!acceptor_.is_open()) return;
    const auto rethrow = [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    };
    if (!is_accepting_) asio::co_spawn(io_, accept_all(Running(*this, is_accepting_)), rethrow);
    if (!is_tidying_) asio::co_spawn(io_, tidy(Running(*this, is_tidying_)), rethrow);
  }

  // Continues to serve connections for a moment, in which memory may become free.
  void pause() {
    const TimePoint end = std::chrono::steady_clock::now() + kRestartPause;
    while (std::chrono::steady_clock::now() < end) {
      try {
        io_.restart();
        io_.run_until(end);
        if (!acceptor_.is_open()) return;
      } catch (const std::exception& exception) {
        warn_of(exception);
      }
    }
  }

  static void warn_of(const std::exception& exception) {
    static log::RareWarning warn;
    warn("network thread: {}", exception.what());
  }

  asio::awaitable<void> accept_all(Running) {
    while (acceptor_.is_open()) {
      auto [error, socket] = co_await acceptor_.async_accept(kAwait);
      if (!error && try_admit(std::move(socket))) continue;
      if (acceptor_.is_open()) {
        static log::RareWarning warn;  // usually out of files
        warn("cannot accept a connection: {}", error ? error.message() : "out of memory");
        pause_.expires_after(std::chrono::milliseconds(100));
        co_await pause_.async_wait(kAwait);
      }
    }
  }

  // Returns false if there is no memory for the connection.
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
    if (!is_served && connections_.size() - n_served_ >= kMaxRejected) return;
    boost::system::error_code ignored;  // the peer may be gone already
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::send_buffer_size(state_.options.socket_send_buffer_bytes),
                      ignored);
    const std::string remote =
        is_unix_ ? "unix" : socket.remote_endpoint(ignored).address().to_string();
    std::unique_ptr<ByteStream> stream;
    if (tls_)
      stream = std::make_unique<TlsStream>(std::move(socket), *tls_, state_.memory.all);
    else
      stream = std::make_unique<PlainStream>(std::move(socket));
    auto connection =
        std::make_shared<Connection>(std::move(stream), remote, state_, std::move(share));
    auto counted = std::make_unique<Counted>(*this, connection, is_served);
    asio::co_spawn(io_, is_served ? connection->serve() : connection->reject_request(),
                   [counted = std::move(counted)](std::exception_ptr failure) { report(failure); });
  }

  // Counts a connection as long as its coroutine exists, however it ends: Asio calls no handler if
  // there is no memory for an operation.
  class Counted {
   public:
    Counted(Impl& impl, std::shared_ptr<Connection> connection, bool is_served)
        : impl_(impl), connection_(std::move(connection)), n_served_(is_served ? 1 : 0) {
      impl_.connections_.emplace(connection_.get(), connection_);
      impl_.n_served_ += n_served_;
      impl_.state_.active_counts.add_connections(1);
      impl_.state_.counts.connections = impl_.connections_.size();
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() {
      connection_->close();
      impl_.n_served_ -= n_served_;
      impl_.connections_.erase(connection_.get());
      impl_.state_.counts.connections = impl_.connections_.size();
      impl_.state_.active_counts.add_connections(-1);
    }

   private:
    Impl& impl_;
    const std::shared_ptr<Connection> connection_;
    const uint32_t n_served_;
  };

  // Reserves memory for another connection; if there is none, the connections that have taken
  // longest to send their request are closed, and their memory is used.
  bool has_room(ByteShare& share) {
    const size_t wanted = tls_ ? TlsStream::kOpeningBytes : PlainStream::kIdleBytes;
    bool is_full = n_served_ >= state_.options.max_connections;
    while (is_full || !share.resize(wanted)) {
      Connection* const oldest = state_.waiting.take_oldest();
      if (!oldest) return false;
      const ByteShare freed = oldest->evict();
      is_full = false;
    }
    return true;
  }

  // Periodically returns freed memory to the system, and disconnects slow readers if memory is
  // needed.
  asio::awaitable<void> tidy(Running) {
    while (acceptor_.is_open()) {
      tidy_timer_.expires_after(state_.options.tidy_every);
      co_await tidy_timer_.async_wait(kAwait);
      static_cast<void>(MemoryReserve::restore());
      const ByteLedger& answers = state_.memory.answers;
      if (answers.used_bytes() > answers.limit_bytes() / 4 * 3) {
        const TimePoint limit = std::chrono::steady_clock::now() - kReadingTime;
        if (Connection* const slow = state_.writing.take_oldest(limit)) slow->close();
      }
      ByteLedger& all = state_.memory.all;
      if (all.take_peak_bytes() > all.used_bytes() + kWorthTrimming)
        state_.offload.post(heap::release);
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

  ServiceApi& service_;
  ServerState state_;                      // outlives everything in io_
  std::optional<asio::ssl::context> tls_;  // likewise
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  asio::steady_timer tidy_timer_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  uint32_t n_served_ = 0;
  bool is_accepting_ = false, is_tidying_ = false;
  uint16_t port_ = 0;
  bool is_unix_ = false;  // clients connect to a Unix-domain socket
  std::thread thread_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { stop(Duration::zero()); }

Result<void> Server::check(const ServerOptions& options) {
  std::error_code ignored;
  // Opening and closing a pipe would signal the end to its reader.
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
    MemoryReserve::keep(MemoryReserve::kUsualBytes);
    heap::keep_little();
  }
  try {
    auto impl = std::make_unique<Impl>(service, options);
    TRY(impl->listen(socket));
    return std::unique_ptr<Server>(new Server(std::move(impl)));
    // Thrown when Asio cannot open its internal files.
  } catch (const boost::system::system_error& error) {
    return fail(ErrorCode::kIo, fmt::format("cannot serve: {}", error.code().message()));
  }
}

uint16_t Server::port() const { return impl_->port(); }
void Server::stop_accepting() { impl_->stop_accepting(); }
bool Server::wait_for_submissions(Duration at_most) { return impl_->wait_for_submissions(at_most); }
std::string Server::counters() { return impl_->counters(); }
void Server::stop(Duration at_most) { impl_->stop(at_most); }

}  // namespace kvik
