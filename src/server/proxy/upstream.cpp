#include "server/proxy/upstream.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <exception>
#include <limits>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/process/thread.h"
#include "base/rare_warning.h"
#include "base/text/ascii_case.h"
#include "server/http/await.h"

namespace kvik {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

constexpr uint32_t kHeadBytes = 64 << 10;
constexpr size_t kPieceBytes = 16 << 10;

// Headers that belong to a connection, or that our own server writes for the client.
bool is_own_header(http::field field, std::string_view name) {
  switch (field) {
    case http::field::connection:
    case http::field::content_length:
    case http::field::content_type:
    case http::field::date:
    case http::field::keep_alive:
    case http::field::transfer_encoding:
    case http::field::vary:
      return true;
    default:
      return name == "x-request-id" || name == "request-id" || name.starts_with("access-control-");
  }
}

}  // namespace

// The call's state, shared by its owner and its coroutine.
class UpstreamCall::State {
 public:
  State(asio::io_context& io, std::function<void()> on_progress)
      : socket(io),
        room(io, asio::steady_timer::time_point::max()),
        on_progress_(std::move(on_progress)) {}

  // Called by the coroutine.
  void set_head(Head head) {
    {
      const MutexLock lock(mutex_);
      head_ = std::move(head);
    }
    on_progress_();
  }
  void append(std::string_view bytes) {
    {
      const MutexLock lock(mutex_);
      body_ += bytes;
    }
    on_progress_();
  }
  bool is_full() const {
    const MutexLock lock(mutex_);
    return has_no_room();
  }
  void end(std::optional<Error> error) {
    {
      const MutexLock lock(mutex_);
      has_ended_ = true;
      error_ = std::move(error);
    }
    on_progress_();
  }

  // Called by the owner.
  std::optional<Head> head() const {
    const MutexLock lock(mutex_);
    return head_;
  }
  std::optional<Error> error() const {
    const MutexLock lock(mutex_);
    return error_;
  }
  // Returns whether the answer has ended, and whether the coroutine waits for room.
  std::pair<bool, bool> take(std::string& out) {
    const MutexLock lock(mutex_);
    const bool was_full = has_no_room();
    out += body_;
    body_.clear();
    return {has_ended_, was_full};
  }

  tcp::socket socket;       // I/O thread
  asio::steady_timer room;  // I/O thread: canceled when there is room in the buffer

 private:
  bool has_no_room() const REQUIRES(mutex_) {
    return body_.size() + kPieceBytes > Upstreams::kBufferBytes;
  }

  const std::function<void()> on_progress_;
  mutable Mutex mutex_;
  std::optional<Head> head_ GUARDED_BY(mutex_);
  std::string body_ GUARDED_BY(mutex_);
  bool has_ended_ GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ GUARDED_BY(mutex_);

  friend class UpstreamCall;
};

UpstreamCall::UpstreamCall(std::shared_ptr<State> state) : state_(std::move(state)) {}

UpstreamCall::~UpstreamCall() {
  asio::post(state_->socket.get_executor(), [state = state_] {
    boost::system::error_code ignored;
    state->socket.close(ignored);
    state->room.cancel();
  });
}

std::optional<UpstreamCall::Head> UpstreamCall::head() const { return state_->head(); }
std::optional<Error> UpstreamCall::error() const { return state_->error(); }

bool UpstreamCall::take(std::string& out) {
  const auto [has_ended, was_full] = state_->take(out);
  if (was_full)
    asio::post(state_->socket.get_executor(), [state = state_] { state->room.cancel(); });
  return has_ended;
}

class Upstreams::Impl {
 public:
  Impl() : work_(io_.get_executor()) {}
  ~Impl() {
    io_.stop();
    join_if_started(thread_);
  }

  Result<void> start() {
    TRY_ASSIGN(thread_, start_thread("kvik-proxy", [this] { run(); }));
    return {};
  }

  std::shared_ptr<UpstreamCall::State> call(uint16_t port,
                                            std::shared_ptr<const std::string> request,
                                            std::function<void()> on_progress) {
    auto state = std::make_shared<UpstreamCall::State>(io_, std::move(on_progress));
    asio::co_spawn(io_, exchange(state, port, std::move(request)),
                   [state](const std::exception_ptr& failure) {
                     if (failure) state->end(lost("the router has no memory left"));
                   });
    return state;
  }

 private:
  using State = UpstreamCall::State;

  static Error lost(std::string_view reason) {
    return {ErrorCode::kUnavailable,
            fmt::format("the model's process did not complete the answer ({})", reason)};
  }

  void run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& exception) {
        static log::RareWarning warn;
        warn("proxy thread: {}", exception.what());
      }
    }
  }

  static asio::awaitable<void> exchange(std::shared_ptr<State> state, uint16_t port,
                                        std::shared_ptr<const std::string> request) {
    const std::optional<Error> error = co_await attempt(*state, port, request);
    boost::system::error_code ignored;
    state->socket.close(ignored);
    state->end(error);
  }

  static asio::awaitable<std::optional<Error>> attempt(
      State& state, uint16_t port, std::shared_ptr<const std::string>& request) {
    const tcp::endpoint server(asio::ip::address_v4::loopback(), port);
    auto [connect_error] = co_await state.socket.async_connect(server, kAwait);
    if (connect_error) co_return lost(connect_error.message());
    boost::system::error_code ignored;
    state.socket.set_option(tcp::no_delay(true), ignored);
    // A server may answer, and close, before it has read the whole request.
    co_await asio::async_write(state.socket, asio::buffer(*request), kAwait);
    request = nullptr;
    co_return co_await read_answer(state);
  }

  static asio::awaitable<std::optional<Error>> read_answer(State& state) {
    boost::beast::flat_buffer buffer(kHeadBytes + kPieceBytes);
    http::response_parser<http::buffer_body> parser;
    parser.header_limit(kHeadBytes);
    parser.body_limit(std::numeric_limits<uint64_t>::max());
    auto [head_error, n_head] =
        co_await http::async_read_header(state.socket, buffer, parser, kAwait);
    const bool has_closed =
        head_error == http::error::end_of_stream || head_error == http::error::partial_message;
    if (head_error && !has_closed &&
        head_error.category() == make_error_code(http::error{}).category())
      co_return Error{ErrorCode::kCorrupt,
                      fmt::format("the model's process answers with something other than HTTP ({})",
                                  head_error.message())};
    if (head_error) co_return lost(head_error.message());
    state.set_head(head_of(parser));
    std::array<char, kPieceBytes> piece;
    while (!parser.is_done()) {
      auto& body = parser.get().body();
      body.data = piece.data();
      body.size = piece.size();
      auto [error, n_read] = co_await http::async_read_some(state.socket, buffer, parser, kAwait);
      const size_t n_bytes = piece.size() - body.size;
      if (n_bytes > 0) state.append({piece.data(), n_bytes});
      if (error && error != http::error::need_buffer) co_return lost(error.message());
      while (state.is_full() && state.socket.is_open()) co_await state.room.async_wait(kAwait);
    }
    co_return std::nullopt;
  }

  template <class Parser>
  static UpstreamCall::Head head_of(const Parser& parser) {
    const auto& message = parser.get();
    UpstreamCall::Head head;
    head.status = message.result_int();
    if (const auto length = parser.content_length()) head.n_body_bytes = *length;
    for (const auto& field : message) {
      const std::string name = ascii_lower(std::string_view(field.name_string()));
      const std::string value(field.value());
      if (field.name() == http::field::content_type) head.content_type = value;
      if (!is_own_header(field.name(), name))
        head.headers.emplace_back(std::string_view(field.name_string()), value);
    }
    return head;
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

Upstreams::Upstreams(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Upstreams::~Upstreams() = default;

Result<std::unique_ptr<Upstreams>> Upstreams::start() {
  try {
    auto impl = std::make_unique<Impl>();
    TRY(impl->start());
    return std::unique_ptr<Upstreams>(new Upstreams(std::move(impl)));
    // Thrown when Asio cannot open its internal files.
  } catch (const boost::system::system_error& error) {
    return fail(ErrorCode::kIo,
                fmt::format("cannot call other servers: {}", error.code().message()));
  }
}

std::unique_ptr<UpstreamCall> Upstreams::call(uint16_t port,
                                              std::shared_ptr<const std::string> request,
                                              std::function<void()> on_progress) {
  return std::unique_ptr<UpstreamCall>(
      new UpstreamCall(impl_->call(port, std::move(request), std::move(on_progress))));
}

}  // namespace kvik
