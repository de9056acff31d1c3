#include "server/http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/rare_warning.h"
#include "server/http/auth.h"

namespace kvik {

namespace asio = boost::asio;
using std::chrono::steady_clock;

namespace {

// Bytes that may wait in addition to the largest header: of a body, or of pipelined requests.
constexpr size_t kInputSlackBytes = size_t{64} << 10;

// Calls a function in its destructor.
template <class Undo>
class Scoped {
 public:
  explicit Scoped(Undo undo) : undo_(std::move(undo)) {}
  ~Scoped() { undo_(); }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

 private:
  Undo undo_;
};

// Checks a client's request id, which is returned in a header and logged.
bool is_sane_request_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::ranges::all_of(id, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  });
}

HttpFault input_full_fault(RequestParser::Stage stage) {
  if (stage == RequestParser::Stage::kHead) return {431, "the request's header is too long"};
  return {400, "a chunk's extensions or the trailer are too long"};
}

// Logged for a client that left before its answer; nginx's number, never sent.
constexpr unsigned kClientLeft = 499;

// Longest pause between two questions whether the kind of a reply is known.
constexpr std::chrono::milliseconds kDecisionPause{500};

Error stopping() { return {ErrorCode::kUnavailable, "the server is stopping"}; }

// Small answers are written on the network thread: another thread would take longer.
constexpr size_t kSmallBytes = size_t{16} << 10;

}  // namespace

Connection::Connection(std::unique_ptr<ByteStream> stream, std::string remote, ServerState& state,
                       ByteShare share)
    : state_(state),
      remote_(std::move(remote)),
      peer_(std::make_shared<Peer>(std::move(stream),
                                   state.options.header_limit_bytes + kInputSlackBytes,
                                   state.options.write_timeout, state.memory.all)),
      share_(std::move(share)),
      body_share_(state.memory.bodies) {}

ByteShare Connection::evict() {
  close();
  return std::move(share_);
}

asio::awaitable<bool> Connection::open() {
  const bool is_ready = co_await peer_->start(state_.options.header_timeout);
  static_cast<void>(share_.resize(std::min(share_.n_bytes(), peer_->idle_bytes())));  // shrinks
  co_return is_ready;
}

asio::awaitable<void> Connection::serve() {
  place_.emplace(state_.waiting, *this);
  const bool is_ready = co_await open();
  if (!is_ready) co_return;
  After after = After::kKeepAlive;
  // A new connection must send a request soon; one that was answered may wait.
  Duration patience = state_.options.header_timeout;
  while (after == After::kKeepAlive) {
    place_.emplace(state_.waiting, *this);
    const bool has_request = co_await wait_for_request(patience);
    patience = state_.options.idle_timeout;
    if (!has_request) {
      place_.reset();
      peer_->close();
      co_return;
    }
    after = co_await serve_one();
  }
  co_await peer_->linger(state_.options.linger);
}

asio::awaitable<void> Connection::reject_request() {
  const bool is_ready = co_await open();
  if (!is_ready) co_return;
  is_rejected_ = true;
  const bool has_request = co_await wait_for_request(state_.options.rejected_timeout);
  if (has_request) co_await serve_one();
  if (!has_probe_) ++state_.counts.rejected_connections;
  co_await peer_->linger(state_.options.linger);
}

asio::awaitable<bool> Connection::wait_for_request(Duration at_most) {
  const TimePoint deadline = steady_clock::now() + at_most;
  while (peer_->input().empty()) {
    const bool is_over = peer_->is_disconnected() || !peer_->is_open() || state_.is_aborting;
    if (is_over || steady_clock::now() >= deadline) co_return false;
    co_await peer_->wait_until(deadline);
  }
  co_return true;
}

asio::awaitable<Connection::After> Connection::serve_one() {
  Exchange exchange;
  bool has_memory = true;
  try {
    co_await serve_request(exchange);
  } catch (const std::bad_alloc&) {
    has_memory = false;
  }
  if (!has_memory) {
    static log::RareWarning warn;
    warn("{} {}: out of memory", exchange.method, exchange.path);
    exchange.framing.after = After::kClose;
    if (exchange.status == 0) co_await send(exchange, error_response(no_memory()));
  }
  record(exchange);
  co_return exchange.framing.after;
}

asio::awaitable<void> Connection::serve_request(Exchange& exchange) {
  Reply reply;
  const Scoped share([this] { body_share_.release(); });
  RequestParser parser({state_.options.header_limit_bytes, state_.options.max_header_fields,
                        state_.body_limit_bytes});
  std::optional<HttpResponse> refusal = co_await read_request(exchange, parser);
  place_.reset();
  const Scoped counted([this] {
    set_submitting(false);
    state_.active_counts.add_requests(-1);
  });
  state_.active_counts.add_requests(1);
  set_submitting(true);
  if (refusal) {
    // Unread input would be taken for the next request.
    if (parser.stage() != RequestParser::Stage::kDone) exchange.framing.after = After::kClose;
    reply = std::move(*refusal);
  } else {
    parser.request().id = exchange.framing.request_id;
    reply = co_await handle(parser.request());
  }
  co_await answer(exchange, std::move(reply));
}

asio::awaitable<std::optional<HttpResponse>> Connection::read_request(Exchange& exchange,
                                                                      RequestParser& parser) {
  using Stage = RequestParser::Stage;
  std::optional<HttpFault> fault = co_await read_to(Stage::kBody, parser);
  const HttpRequest& head = parser.request();
  if (!head.method.empty()) describe(exchange, head);
  if (fault) co_return error_response(*fault);
  has_probe_ = Router::is_probe(head.path);
  if (is_rejected_ && !has_probe_) {
    exchange.framing.after = After::kClose;
    co_return error_response(HttpFault{
        503, fmt::format("too many connections: the limit is {}", state_.options.max_connections)});
  }
  std::optional<HttpResponse> refusal = state_.router.answer_head(head);
  if (refusal) co_return refusal;
  if (head.expects_continue && head.has_body && peer_->input().empty())
    co_await peer_->write("HTTP/1.1 100 Continue\r\n\r\n");
  fault = co_await read_to(Stage::kDone, parser);
  if (fault) co_return error_response(*fault);
  co_return std::nullopt;
}

asio::awaitable<std::optional<HttpFault>> Connection::read_to(RequestParser::Stage goal,
                                                              RequestParser& parser) {
  using Stage = RequestParser::Stage;
  const bool is_head = goal == Stage::kBody;
  const TimePoint deadline =
      steady_clock::now() + (is_head ? state_.options.header_timeout : state_.options.body_timeout);
  while (parser.stage() < goal) {
    std::expected<size_t, HttpFault> n_taken = 0;
    if (!peer_->input().empty()) n_taken = parser.feed(peer_->input());
    if (!n_taken) co_return std::move(n_taken.error());
    peer_->consume(*n_taken);
    // A string that grows in pieces uses up to twice its size.
    if (!is_head && !body_share_.grow(2 * *n_taken))
      co_return HttpFault{503, "too many large requests at once"};
    if (parser.stage() >= goal) break;
    if (state_.is_aborting) co_return HttpFault{503, stopping().message};
    if (steady_clock::now() >= deadline)
      co_return HttpFault{
          408, fmt::format("the request's {} took too long", is_head ? "header" : "body")};
    if (*n_taken > 0) continue;
    if (peer_->is_input_full()) co_return input_full_fault(parser.stage());
    if (peer_->is_disconnected())
      co_return HttpFault{400, "the connection was closed before the request was complete"};
    co_await peer_->wait_until(deadline);
  }
  co_return std::nullopt;
}

asio::awaitable<Reply> Connection::handle(HttpRequest& request) {
  Reply reply = std::unique_ptr<DeferredReply>();
  const bool is_light = request.body.size() <= state_.options.offload_body_bytes;
  if (is_light && !Router::is_heavy(request.path)) {
    reply = state_.router.handle(request);
  }
  while (const auto* deferred = std::get_if<std::unique_ptr<DeferredReply>>(&reply)) {
    reply = co_await make_elsewhere(request, deferred->get());
  }
  request = {};  // an answer can take minutes, so the body must not be kept
  body_share_.release();
  co_return reply;
}

// Makes the reply on another thread; `deferred` is null if the request was not handled yet.
asio::awaitable<Reply> Connection::make_elsewhere(const HttpRequest& request,
                                                  DeferredReply* deferred) {
  const bool is_slow = deferred && deferred->kind() == DeferredReply::Kind::kSlow;
  std::optional<TenantMutex::Lock> lock;
  if (is_slow) {
    lock.emplace(co_await state_.slow_work_mutex.lock(deferred->tenant()));
    if (state_.is_aborting || peer_->is_disconnected()) co_return error_response(stopping());
  }
  Offload& threads = is_slow ? state_.slow_work : state_.offload;
  co_return co_await threads.call([&] { return state_.router.make(request, deferred); });
}

asio::awaitable<void> Connection::answer(Exchange& exchange, Reply reply) {
  if (auto* response = std::get_if<HttpResponse>(&reply)) {
    set_submitting(false);  // its reader may be slow
    co_await send(exchange, std::move(*response));
    co_return;
  }
  const auto pending = std::move(std::get<std::unique_ptr<PendingReply>>(reply));
  set_submitting(pending->will_submit());
  watch(*pending);
  const Scoped forget([this] {
    running_ = nullptr;
    peer_->on_disconnect(Peer::DisconnectPolicy::kNote);
  });
  const bool is_decided = co_await wait_for_kind(exchange, *pending);
  if (is_decided && pending->kind() == PendingReply::Kind::kStream)
    co_await stream(exchange, *pending);
  else if (is_decided)
    co_await send_when_done(exchange, *pending);
  exchange.summary = pending->summary();
  exchange.facts = pending->facts();
}

asio::awaitable<void> Connection::send(Exchange& exchange, HttpResponse response) {
  write_error_body(response, exchange.framing);
  if (response.source) {
    const bool is_more = co_await make_piece(*response.source, response.body);
    if (is_more) {
      co_await send_pieces(exchange, std::move(response));
      co_return;
    }
    let_go(std::move(response.source));
  }
  const std::string bytes = serialize(response, exchange.framing);
  exchange.status = response.status;
  const bool is_sent = co_await peer_->write(bytes);
  if (!is_sent) exchange.framing.after = After::kClose;
}

// Sends an answer of unknown length; `body` is its first piece.
asio::awaitable<void> Connection::send_pieces(Exchange& exchange, HttpResponse response) {
  const OldestFirst<Connection>::Place place(state_.writing, *this);
  HttpFraming& framing = exchange.framing;
  framing.body = HttpFraming::Body::kStreamed;
  if (framing.minor_version == 0) framing.after = After::kClose;  // its end is the body's end
  std::string bytes = serialize(response, framing);
  bytes += frame_part(std::exchange(response.body, {}), framing);
  exchange.status = response.status;
  bool is_more = true;
  bool is_sent = co_await peer_->write(bytes);
  while (is_more && is_sent) {
    std::string piece;
    is_more = co_await make_piece(*response.source, piece);
    bytes = frame_part(piece, framing);
    if (!is_more) bytes += frame_end(framing);
    is_sent = co_await peer_->write(bytes);
  }
  if (!is_sent) framing.after = After::kClose;
  let_go(std::move(response.source));
}

asio::awaitable<bool> Connection::make_piece(BodySource& source, std::string& out) {
  if (source.weight_bytes() <= kSmallBytes) co_return source.next(out);
  co_return co_await state_.offload.call([&] { return source.next(out); });
}

void Connection::let_go(std::unique_ptr<BodySource> source) {
  state_.offload.post([source = std::move(source)]() mutable { source.reset(); });
}

asio::awaitable<void> Connection::send_when_done(Exchange& exchange, PendingReply& reply) {
  std::string no_bytes;
  while (reply.advance(no_bytes) == PendingReply::State::kRunning) {
    set_submitting(reply.will_submit());
    const bool has_ended = co_await end_early(exchange);
    if (has_ended) co_return;
    co_await peer_->wait_until(TimePoint::max());
  }
  set_submitting(false);
  co_await send(exchange, reply.response());
}

asio::awaitable<bool> Connection::wait_for_kind(Exchange& exchange, PendingReply& reply) {
  while (!reply.is_decided()) {
    const bool has_ended = co_await end_early(exchange);
    if (has_ended) co_return false;
    co_await peer_->wait_until(steady_clock::now() + kDecisionPause);
  }
  co_return true;
}

asio::awaitable<bool> Connection::end_early(Exchange& exchange) {
  if (peer_->is_disconnected()) {
    exchange.status = kClientLeft;
    exchange.framing.after = After::kClose;
    co_return true;
  }
  if (!state_.is_aborting) co_return false;
  exchange.framing.after = After::kClose;
  co_await send(exchange, error_response(stopping()));
  co_return true;
}

asio::awaitable<void> Connection::stream(Exchange& exchange, PendingReply& reply) {
  HttpFraming& framing = exchange.framing;
  framing.body = HttpFraming::Body::kStreamed;
  if (framing.minor_version == 0) framing.after = After::kClose;  // its end is the body's end
  const HttpResponse head = reply.response();
  exchange.status = head.status;
  std::string bytes = serialize(head, framing);
  auto state = PendingReply::State::kRunning;
  bool is_sent = true;
  TimePoint last_write = steady_clock::now();
  while (is_sent) {
    std::string events;
    if (state == PendingReply::State::kRunning) state = reply.advance(events);
    if (state == PendingReply::State::kRunning && state_.is_aborting) {
      events += reply.final_error_event(stopping());
      state = PendingReply::State::kDone;
      framing.after = After::kClose;
    }
    const TimePoint heartbeat = last_write + state_.options.heartbeat;
    if (events.empty() && steady_clock::now() >= heartbeat) {
      events = reply.heartbeat();
      last_write = steady_clock::now();  // some replies have none
    }
    bytes += frame_part(events, framing);
    if (state == PendingReply::State::kDone) bytes += frame_end(framing);
    if (!bytes.empty()) {
      is_sent = co_await peer_->write(bytes);
      last_write = steady_clock::now();
      bytes.clear();
    } else if (peer_->is_disconnected() || !peer_->is_open()) {
      is_sent = false;
    } else {
      co_await peer_->wait_until(heartbeat);
    }
    if (state == PendingReply::State::kDone) break;
  }
  if (!is_sent) {
    exchange.status = kClientLeft;
    framing.after = After::kClose;
  }
}

void Connection::describe(Exchange& exchange, const HttpRequest& head) const {
  exchange.method = printable(head.method);
  exchange.path = printable(head.path);
  HttpFraming& framing = exchange.framing;
  framing.error_shape = Router::error_shape(head.path);
  framing.minor_version = head.minor_version;
  if (!head.keep_alive || is_rejected_ || state_.is_draining.load()) framing.after = After::kClose;
  if (head.method == "HEAD") framing.body = HttpFraming::Body::kLeftOut;
  framing.allowed_origin = state_.router.allowed_origin(head);
  const auto id = head.header("x-request-id");
  if (id && is_sane_request_id(*id)) framing.request_id = *id;
  if (const auto trace = head.header("traceparent")) exchange.trace = parse_trace_parent(*trace);
  const auto& keys = state_.options.api_keys;
  const ApiKey* key = keys && state_.access_log ? find_key(head, *keys) : nullptr;
  if (key) exchange.key = key->name;
}

// Probes are frequent: they are logged at debug level. The access log has them.
void Connection::record(const Exchange& exchange) {
  state_.counts.add_response(exchange.status);
  const double ms = to_ms(steady_clock::now() - exchange.start);
  const auto level = Router::is_probe(exchange.path) ? log::Level::kDebug : log::Level::kInfo;
  const std::string trace = exchange.trace ? exchange.trace->trace_id : "";
  log::at(level, "{} {} {} {} {:.1f} ms{}{}{}{}", exchange.framing.request_id, exchange.method,
          exchange.path, exchange.status, ms, exchange.summary.empty() ? "" : " ", exchange.summary,
          trace.empty() ? "" : " trace=", trace);
  if (!state_.access_log) return;
  AccessRecord record{.time = exchange.wall_start,
                      .request_id = exchange.framing.request_id,
                      .remote = remote_,
                      .method = exchange.method,
                      .path = exchange.path,
                      .status = exchange.status,
                      .ms = ms,
                      .key = exchange.key,
                      .trace = exchange.trace,
                      .ttft_ms = std::nullopt,
                      .facts = exchange.facts};
  if (const auto first = exchange.facts.first_token_at)
    record.ttft_ms = to_ms(*first - exchange.start);
  state_.access_log->write(record);
  state_.counts.unlogged = state_.access_log->lines_left_out();
}

void Connection::watch(PendingReply& reply) {
  running_ = &reply;
  peer_->on_disconnect(Peer::DisconnectPolicy::kClose);
  reply.set_wake([weak = weak_from_this(), executor = peer_->executor()] {
    asio::post(executor, [weak] {
      if (const auto self = weak.lock()) self->on_results();
    });
  });
}

void Connection::set_submitting(bool is_submitting) {
  if (is_submitting == is_submitting_) return;
  is_submitting_ = is_submitting;
  state_.active_counts.add_submitting(is_submitting ? 1 : -1);
}

void Connection::on_results() {
  if (running_ && running_->has_overflowed() && peer_->is_open()) {
    ++state_.counts.slow_readers;
    static log::RareWarning warn;
    warn("{}: the reader is too slow for its stream", running_->summary());
    peer_->close();  // also ends a stuck write
  }
  peer_->notify();
}

}  // namespace kvik
