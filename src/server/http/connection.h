#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "server/http/http_message.h"
#include "server/http/peer.h"
#include "server/http/pending_reply.h"
#include "server/http/random_id.h"
#include "server/http/request_parser.h"
#include "server/http/status.h"
#include "server/http/trace_parent.h"
#include "server/server_state.h"

namespace kvik {

// One request and its answer, for the log.
struct Exchange {
  HttpFraming framing{.request_id = random_id("req-")};
  std::string method = "-";
  std::string path = "-";
  TimePoint start = std::chrono::steady_clock::now();
  std::chrono::system_clock::time_point wall_start = std::chrono::system_clock::now();
  unsigned status = 0;
  std::string summary = {};
  std::string key = {};  // name of the API key
  std::optional<TraceParent> trace = {};
  ReplyFacts facts = {};
};

// One client's connection: requests one after the other, each read, answered and logged.
//
//   idle ──bytes──▶ reading ──request──▶ answering ──keep-alive──▶ idle
//                      └──fault──▶ refused    └──close, abort──▶ lingering ──▶ closed
//
// A body that is too large for memory is made piece by piece (BodySource), partly on another
// thread. Network thread only. Shared, because its coroutine, the server's list and wakes posted by
// the engine thread all refer to it, and any of them may be the last.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // The share is for its memory until the handshake is complete, and then for that of an idle
  // connection.
  Connection(std::unique_ptr<ByteStream> stream, std::string remote, ServerState& state,
             ByteShare share);

  // Serves until the client or the server ends the connection.
  boost::asio::awaitable<void> serve();
  // Answers one request: a health probe normally, any other with 503.
  boost::asio::awaitable<void> reject_request();

  // Called when the server aborts: running answers end with an error, idle connections are closed.
  void abort() { peer_->notify(); }
  void close() { peer_->close(); }
  // Closes, and returns its share for the connection that replaces it.
  ByteShare evict();

 private:
  using After = HttpFraming::After;

  // Returns false if the handshake was not completed in time.
  boost::asio::awaitable<bool> open();
  // Returns false if nothing arrived until the deadline, or the server needs the place for another
  // connection.
  boost::asio::awaitable<bool> wait_for_request(Duration at_most);
  boost::asio::awaitable<After> serve_one();
  boost::asio::awaitable<void> serve_request(Exchange& exchange);
  // Reads a request into the parser. Returns a response if the request must be rejected.
  boost::asio::awaitable<std::optional<HttpResponse>> read_request(Exchange& exchange,
                                                                   RequestParser& parser);
  boost::asio::awaitable<std::optional<HttpFault>> read_to(RequestParser::Stage goal,
                                                           RequestParser& parser);
  boost::asio::awaitable<Reply> handle(HttpRequest& request);
  boost::asio::awaitable<Reply> make_elsewhere(const HttpRequest& request, DeferredReply* deferred);
  boost::asio::awaitable<void> answer(Exchange& exchange, Reply reply);
  boost::asio::awaitable<void> send(Exchange& exchange, HttpResponse response);
  boost::asio::awaitable<void> send_pieces(Exchange& exchange, HttpResponse response);
  boost::asio::awaitable<bool> make_piece(BodySource& source, std::string& out);
  // Waits until the kind of the reply is known. Returns false if its client has left or got an
  // error.
  boost::asio::awaitable<bool> wait_for_kind(Exchange& exchange, PendingReply& reply);
  boost::asio::awaitable<void> send_when_done(Exchange& exchange, PendingReply& reply);
  // Ends the exchange if the client has left or the server stops, and returns whether it did.
  boost::asio::awaitable<bool> end_early(Exchange& exchange);
  boost::asio::awaitable<void> stream(Exchange& exchange, PendingReply& reply);

  // Writes a line to the log, and to the access log if there is one.
  void record(const Exchange& exchange);
  void describe(Exchange& exchange, const HttpRequest& head) const;
  // Destroys the source on another thread, because that may take long.
  void let_go(std::unique_ptr<BodySource> source);
  void watch(PendingReply& reply);
  // Counts the request among those that may still submit work, or no longer.
  void set_submitting(bool is_submitting);
  void on_results();

  ServerState& state_;
  const std::string remote_;          // the client's address
  const std::shared_ptr<Peer> peer_;  // shared with the coroutine that reads its bytes
  bool is_rejected_ = false;          // beyond the limit of connections: only probes are answered
  bool has_probe_ = false;            // the newest request is a probe
  bool is_submitting_ = false;        // the newest request may still submit work
  std::optional<OldestFirst<Connection>::Place>
      place_;                        // present until a whole request has been sent
  PendingReply* running_ = nullptr;  // borrowed from the coroutine while it answers
  ByteShare share_;
  ByteShare body_share_;
};

}  // namespace kvik
