#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "server/http/byte_ledger.h"
#include "server/http/byte_stream.h"

namespace kvik {

// The remote end of a connection: incoming bytes, outgoing bytes, and whether it is still there.
//
// A pump reads continuously, also while an answer is being produced, so that a client that leaves
// is noticed. It pauses while input_cap_bytes of input wait, and then notices nothing: only clients
// that pipeline that much during a running request are affected.
//
// Network thread only. One coroutine waits and writes.
class Peer : public std::enable_shared_from_this<Peer> {
 public:
  // The ledger counts waiting bytes, and outlives the last coroutine.
  Peer(std::unique_ptr<ByteStream> stream, size_t input_cap_bytes,
       std::chrono::milliseconds write_timeout, ByteLedger& ledger);

  // Starts the pump, which keeps the peer alive until the stream is closed. Returns false if the
  // handshake was not completed in time.
  boost::asio::awaitable<bool> start(std::chrono::milliseconds open_timeout);

  std::string_view input() const { return std::string_view(input_).substr(consumed_); }
  bool is_input_full() const { return input().size() >= input_cap_bytes_; }
  void consume(size_t n_bytes);

  // Returns true if the peer has closed its sending side or the connection.
  bool is_disconnected() const { return is_disconnected_; }
  // Action when the peer closes its sending side. kNote: only is_disconnected() is set, because the
  // peer may still read a short answer. kClose: the connection is closed, which also ends a write
  // in progress; set while the model works for the peer.
  enum class DisconnectPolicy { kNote, kClose };
  void on_disconnect(DisconnectPolicy policy);

  // Returns at the deadline or after a notify(), also an earlier one. New input and the peer's end
  // notify.
  boost::asio::awaitable<void> wait_until(TimePoint deadline);
  void notify();

  // Returns false if the peer is gone, or accepts less than 64 KiB within the write timeout.
  boost::asio::awaitable<bool> write(std::string_view bytes);

  // Closes the sending side, reads until the peer closes its own or the time is over, and closes.
  // Closing with unread input would reset the connection, and the peer might lose the answer.
  boost::asio::awaitable<void> linger(std::chrono::milliseconds at_most);

  void close();
  bool is_open() const { return stream_->is_open(); }
  size_t idle_bytes() const { return stream_->idle_bytes(); }
  boost::asio::any_io_executor executor() { return stream_->executor(); }

 private:
  class PumpEnd;

  boost::asio::awaitable<void> pump(PumpEnd end);
  bool take(std::string_view bytes);
  void arm_write_timer();

  const std::unique_ptr<ByteStream> stream_;
  boost::asio::steady_timer wake_timer_;
  boost::asio::steady_timer input_space_;
  boost::asio::steady_timer write_timer_;
  const size_t input_cap_bytes_;
  const std::chrono::milliseconds write_timeout_;
  std::string input_;
  ByteShare input_share_;
  size_t consumed_ = 0;
  bool has_notification_ = false;
  bool is_disconnected_ = false;
  DisconnectPolicy disconnect_policy_ = DisconnectPolicy::kNote;
};

}  // namespace kvik
