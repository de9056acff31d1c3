#include "server/http/peer.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <new>
#include <utility>

#include "server/http/await.h"

namespace kvik {

namespace asio = boost::asio;

namespace {

constexpr size_t kWriteBytes = size_t{64} << 10;

}  // namespace

Peer::Peer(std::unique_ptr<ByteStream> stream, size_t input_cap_bytes,
           std::chrono::milliseconds write_timeout, ByteLedger& ledger)
    : stream_(std::move(stream)),
      wake_timer_(stream_->executor()),
      input_space_(stream_->executor()),
      write_timer_(stream_->executor()),
      input_cap_bytes_(input_cap_bytes),
      write_timeout_(write_timeout),
      input_share_(ledger) {}

// Keeps the peer alive while its pump exists, and then marks it as gone. If there is no memory for
// the pump or its next operation, Asio destroys it and calls no handler.
class Peer::PumpEnd {
 public:
  explicit PumpEnd(std::shared_ptr<Peer> peer) : peer_(std::move(peer)) {}
  PumpEnd(PumpEnd&&) = default;
  PumpEnd& operator=(PumpEnd&&) = delete;
  ~PumpEnd() {
    if (!peer_) return;
    peer_->is_disconnected_ = true;
    if (!has_read_all || peer_->disconnect_policy_ == DisconnectPolicy::kClose) peer_->close();
    peer_->notify();
  }

  bool has_read_all = false;

 private:
  std::shared_ptr<Peer> peer_;
};

asio::awaitable<bool> Peer::start(std::chrono::milliseconds open_timeout) {
  const bool is_ready = co_await stream_->open(open_timeout);
  if (is_ready) {
    asio::co_spawn(
        executor(),
        [this, end = PumpEnd(shared_from_this())]() mutable { return pump(std::move(end)); },
        asio::detached);
  }
  co_return is_ready;
}

asio::awaitable<void> Peer::pump(PumpEnd end) {
  while (is_open()) {
    if (is_input_full()) {
      input_space_.expires_at(TimePoint::max());
      co_await input_space_.async_wait(kAwait);
      continue;
    }
    const std::string_view bytes = co_await stream_->read_some();
    end.has_read_all = bytes.empty();
    if (end.has_read_all || !take(bytes)) break;
    notify();
  }
}

// Returns false if there is no memory for more.
bool Peer::take(std::string_view bytes) {
  try {
    input_.erase(0, std::exchange(consumed_, 0));
    if (!input_share_.resize(input_.size() + bytes.size())) return false;
    input_.append(bytes);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Peer::consume(size_t n_bytes) {
  consumed_ += n_bytes;
  if (input().empty()) {
    input_ = std::string();  // frees the memory
    input_share_.release();
    consumed_ = 0;
  }
  if (!is_input_full()) input_space_.cancel();
}

void Peer::on_disconnect(DisconnectPolicy policy) {
  disconnect_policy_ = policy;
  if (is_disconnected_ && policy == DisconnectPolicy::kClose) close();
}

asio::awaitable<void> Peer::wait_until(TimePoint deadline) {
  if (!has_notification_) {
    wake_timer_.expires_at(deadline);
    co_await wake_timer_.async_wait(kAwait);
  }
  has_notification_ = false;
}

void Peer::notify() {
  has_notification_ = true;
  wake_timer_.cancel();
}

asio::awaitable<bool> Peer::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kWriteBytes);
    arm_write_timer();
    const bool is_sent = co_await stream_->write(part);
    write_timer_.expires_at(TimePoint::max());
    if (!is_sent) co_return false;
    bytes.remove_prefix(part.size());
  }
  co_return is_open();
}

void Peer::arm_write_timer() {
  write_timer_.expires_after(write_timeout_);
  write_timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    // A timer that expired while its write ended has been set again meanwhile.
    if (!error && self->write_timer_.expiry() <= std::chrono::steady_clock::now()) self->close();
  });
}

asio::awaitable<void> Peer::linger(std::chrono::milliseconds at_most) {
  stream_->end_sending();
  const TimePoint deadline = std::chrono::steady_clock::now() + at_most;
  while (!is_disconnected_ && is_open() && std::chrono::steady_clock::now() < deadline) {
    consume(input().size());
    co_await wait_until(deadline);
  }
  close();
}

void Peer::close() {
  stream_->close();
  input_space_.cancel();
  write_timer_.cancel();  // it may belong to a write that was lost for lack of memory
  notify();
}

}  // namespace kvik
