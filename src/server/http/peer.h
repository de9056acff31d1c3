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

// The other end of a connection: bytes in, bytes out, and whether it is still there.
//
// A pump reads all the time, also while an answer is being made: that is how a client that goes
// away is noticed. It pauses while kInputCap bytes wait, and then notices nothing: only a client
// that pipelines so much behind a running request gets there.
//
// Network thread only. One coroutine waits and writes.
class Peer : public std::enable_shared_from_this<Peer> {
 public:
  // The ledger is for bytes that wait, and outlives the last coroutine.
  Peer(std::unique_ptr<ByteStream> stream, size_t input_cap_bytes,
       std::chrono::milliseconds write_timeout, ByteLedger& ledger);

  // Starts the pump, which keeps the peer alive until the stream is closed. False where the stream
  // did not open in time: nobody is there.
  boost::asio::awaitable<bool> start(std::chrono::milliseconds open_timeout);

  std::string_view input() const { return std::string_view(input_).substr(consumed_); }
  bool is_input_full() const { return input().size() >= input_cap_bytes_; }
  void consume(size_t n_bytes);

  // The peer has closed its sending side, or all of it.
  bool is_gone() const { return is_gone_; }
  // What happens when the peer ends its sending side. It may still be reading, and a short answer
  // is sent all the same; but while a model works for it, it counts as gone for good: kClose ends
  // even a write under way.
  enum class WhenGone { kNote, kClose };
  void when_gone(WhenGone policy);

  // Returns at the deadline or after a notify(), also one that came before. New input and the
  // peer's end notify.
  boost::asio::awaitable<void> wait_until(TimePoint deadline);
  void notify();

  // False where the peer is gone, or takes less than 64 KiB in the write timeout.
  boost::asio::awaitable<bool> write(std::string_view bytes);

  // Ends our sending side, reads on until the peer ends its own or the time is over, then closes.
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
  boost::asio::steady_timer news_;
  boost::asio::steady_timer room_;
  boost::asio::steady_timer write_timer_;
  const size_t input_cap_bytes_;
  const std::chrono::milliseconds write_timeout_;
  std::string input_;
  ByteShare input_share_;
  size_t consumed_ = 0;
  bool has_news_ = false;
  bool is_gone_ = false;
  WhenGone when_gone_ = WhenGone::kNote;
};

}  // namespace kvik
