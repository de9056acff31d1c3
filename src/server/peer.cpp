#include "server/peer.h"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace kvik {

namespace asio = boost::asio;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kWriteBytes = size_t{64} << 10;

}  // namespace

Peer::Peer(asio::ip::tcp::socket socket, size_t input_cap_bytes,
           std::chrono::milliseconds write_timeout)
    : socket_(std::move(socket)),
      news_(socket_.get_executor()),
      room_(socket_.get_executor()),
      write_timer_(socket_.get_executor()),
      input_cap_bytes_(input_cap_bytes),
      write_timeout_(write_timeout) {}

void Peer::start() {
  boost::system::error_code ignored;  // a socket that is gone already says so when it is read
  socket_.non_blocking(true, ignored);
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->pump(); }, asio::detached);
}

asio::awaitable<void> Peer::pump() {
  while (socket_.is_open()) {
    if (is_input_full()) {
      room_.expires_at(TimePoint::max());
      co_await room_.async_wait(kAwait);
      continue;
    }
    const auto [error] = co_await socket_.async_wait(asio::ip::tcp::socket::wait_read, kAwait);
    if (error || !read_some()) break;
    notify();
  }
  is_gone_ = true;
  if (when_gone_ == WhenGone::kClose) close();
  notify();
}

// What has come; false at the end. Most connections wait most of the time: one buffer for all of
// them, instead of one in each.
bool Peer::read_some() {
  thread_local std::array<char, size_t{16} << 10> buffer;
  boost::system::error_code error;
  const size_t n = socket_.read_some(asio::buffer(buffer), error);
  if (error == asio::error::would_block) return true;
  if (error) return false;
  input_.erase(0, std::exchange(consumed_, 0));
  input_.append(buffer.data(), n);
  return true;
}

void Peer::consume(size_t n_bytes) {
  consumed_ += n_bytes;
  if (input().empty()) {
    input_ = std::string();  // and its memory
    consumed_ = 0;
  }
  if (!is_input_full()) room_.cancel();
}

void Peer::when_gone(WhenGone policy) {
  when_gone_ = policy;
  if (is_gone_ && policy == WhenGone::kClose) close();
}

asio::awaitable<void> Peer::wait_until(TimePoint deadline) {
  if (!has_news_) {
    news_.expires_at(deadline);
    co_await news_.async_wait(kAwait);
  }
  has_news_ = false;
}

void Peer::notify() {
  has_news_ = true;
  news_.cancel();
}

asio::awaitable<bool> Peer::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kWriteBytes);
    arm_write_timer();
    const auto [error, n] =
        co_await asio::async_write(socket_, asio::buffer(part.data(), part.size()), kAwait);
    write_timer_.expires_at(TimePoint::max());
    if (error) co_return false;
    bytes.remove_prefix(n);
  }
  co_return socket_.is_open();
}

void Peer::arm_write_timer() {
  write_timer_.expires_after(write_timeout_);
  write_timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    // A timer that ran out while its write ended has been set anew meanwhile.
    if (!error && self->write_timer_.expiry() <= std::chrono::steady_clock::now()) self->close();
  });
}

asio::awaitable<void> Peer::linger(std::chrono::milliseconds at_most) {
  boost::system::error_code ignored;  // the peer may have closed first
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  const TimePoint deadline = std::chrono::steady_clock::now() + at_most;
  while (!is_gone_ && is_open() && std::chrono::steady_clock::now() < deadline) {
    consume(input().size());
    co_await wait_until(deadline);
  }
  close();
}

void Peer::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  room_.cancel();
  notify();
}

}  // namespace kvik
