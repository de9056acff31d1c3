#include "host/kv_events/event_peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace kvik {
namespace {

constexpr std::chrono::seconds kHandshakeTime{10};
constexpr size_t kMaxReceivedBytes = size_t{64} << 10;  // per second
constexpr size_t kMaxControlBytes = 4096;               // answers to PINGs
constexpr uint32_t kMaxParts = 8;

std::string big_endian(uint64_t number) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

bool is_temporary_error() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

EventPeer::EventPeer(FileDescriptor socket, Kind kind, std::string_view topic)
    : socket_(std::move(socket)),
      kind_(kind),
      topic_(topic),
      handshake_end_(std::chrono::steady_clock::now() + kHandshakeTime),
      control_(zmtp::greeting()) {}

short EventPeer::wanted_events(const BatchRing& ring) const {
  const bool wants_out = !head_.empty() || !control_.empty() || (is_ready_ && has_next(ring));
  const bool wants_in = n_received_ < kMaxReceivedBytes && !is_answering_;
  return static_cast<short>((wants_in ? POLLIN : 0) | (wants_out ? POLLOUT : 0));
}

bool EventPeer::read(const BatchRing& ring) {
  std::array<char, 4096> bytes;
  const ssize_t n = ::recv(fd(), bytes.data(), bytes.size(), 0);
  if (n <= 0) return n < 0 && is_temporary_error();
  n_received_ += static_cast<size_t>(n);
  decoder_.feed({bytes.data(), static_cast<size_t>(n)});
  return decode(ring);
}

// Handles frames until an answer begins; later frames wait for its end.
bool EventPeer::decode(const BatchRing& ring) {
  while (!is_answering_) {
    const auto frame = decoder_.next();
    if (!frame) return false;
    if (decoder_.has_greeting() && !std::exchange(sent_ready_, true)) {
      control_ += zmtp::ready(kind_ == Kind::kSubscriber ? "PUB" : "ROUTER");
    }
    if (!*frame) return true;
    if (!take(**frame, ring)) return false;
  }
  return true;
}

bool EventPeer::take(const zmtp::Frame& frame, const BatchRing& ring) {
  if (frame.is_command) return take_command(frame.body);
  if (!is_ready_) return false;
  if (kind_ == Kind::kReplayClient) {
    take_part(frame, ring);
    return n_parts_ <= kMaxParts;
  }
  take_subscription(frame.body, ring);
  return true;
}

bool EventPeer::take_command(std::string_view command) {
  if (is_ready_) {
    control_ += zmtp::pong(command);
    return control_.size() <= kMaxControlBytes;
  }
  const std::string type = zmtp::socket_type_of(command);
  is_ready_ = kind_ == Kind::kSubscriber ? type == "SUB" || type == "XSUB"
                                         : type == "DEALER" || type == "REQ" || type == "ROUTER";
  return is_ready_;
}

// A subscriber receives topics that begin with one of its subscriptions. There is only one topic,
// so only the number of matching subscriptions is kept.
void EventPeer::take_subscription(std::string_view body, const BatchRing& ring) {
  if (body.empty() || !topic_.starts_with(body.substr(1))) return;
  if (body[0] == 1 && n_subscriptions_ < UINT32_MAX && n_subscriptions_++ == 0) next_ = ring.end();
  if (body[0] == 0 && n_subscriptions_ > 0) --n_subscriptions_;
}

// A replay request is an empty frame followed by a number of eight bytes: the first batch wanted.
void EventPeer::take_part(const zmtp::Frame& frame, const BatchRing& ring) {
  ++n_parts_;
  const bool is_first = n_parts_ == 1;
  is_valid_request_ = is_valid_request_ && frame.has_more == is_first &&
                      frame.body.size() == (is_first ? 0 : sizeof(next_));
  if (frame.has_more) return;
  n_parts_ = 0;
  is_answering_ = std::exchange(is_valid_request_, true);
  if (!is_answering_) return;
  next_ = 0;
  for (const char byte : frame.body) next_ = next_ << 8 | static_cast<unsigned char>(byte);
  end_ = ring.end();
}

bool EventPeer::has_next(const BatchRing& ring) const {
  if (kind_ == Kind::kReplayClient) return is_answering_;
  return n_subscriptions_ > 0 && next_ < ring.end();
}

// Begins the next message: the topic for a subscriber or an empty frame for a replay, then the
// number of the batch and its bytes. A replay ends with the number of all ones and no bytes.
// Batches that the ring has dropped are skipped, as the numbers show.
void EventPeer::begin_next(const BatchRing& ring) {
  if (kind_ == Kind::kSubscriber && next_ < ring.begin()) n_lost_ += ring.begin() - next_;
  next_ = std::max(next_, ring.begin());
  const bool is_end = kind_ == Kind::kReplayClient && next_ >= end_;
  payload_ = is_end ? std::make_shared<const std::string>() : ring.at(next_);
  head_ = zmtp::frame(kind_ == Kind::kReplayClient ? "" : topic_, zmtp::More::kYes);
  head_ += zmtp::frame(big_endian(is_end ? UINT64_MAX : next_), zmtp::More::kYes);
  head_ += zmtp::frame_head(payload_->size(), zmtp::More::kNo);
  n_sent_ = 0;
  ++next_;
  if (is_end) is_answering_ = false;
}

// Begins the next thing to send; returns false if there is nothing.
bool EventPeer::begin_next_message(const BatchRing& ring) {
  head_ = std::exchange(control_, {});
  payload_.reset();
  n_sent_ = 0;
  if (head_.empty() && is_ready_ && has_next(ring)) begin_next(ring);
  return !head_.empty();
}

bool EventPeer::write(const BatchRing& ring) {
  constexpr int kCallsAtOnce = 64;  // so that other connections are served too
  for (int i = 0; i < kCallsAtOnce; ++i) {
    if (n_sent_ == head_.size() + (payload_ ? payload_->size() : 0) && !begin_next_message(ring)) {
      if (!decode(ring)) return false;
      if (!is_answering_) return true;
      continue;
    }
    const size_t n_of_head = std::min(n_sent_, head_.size());
    std::string_view body = payload_ ? std::string_view(*payload_) : "";
    body.remove_prefix(n_sent_ - n_of_head);
    std::array<iovec, 2> pieces = {{{head_.data() + n_of_head, head_.size() - n_of_head},
                                    {const_cast<char*>(body.data()), body.size()}}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t n = ::sendmsg(fd(), &message, MSG_NOSIGNAL);
    if (n < 0) return is_temporary_error();
    n_sent_ += static_cast<size_t>(n);
  }
  return true;
}

size_t EventPeer::n_bytes() const {
  size_t n = sizeof(*this) + decoder_.n_bytes() + control_.capacity() + head_.capacity();
  if (payload_ && payload_.use_count() == 1) n += payload_->size();
  return n;
}

bool EventPeer::is_done(const BatchRing& ring) const {
  return !is_ready_ || (head_.empty() && !has_next(ring));
}

}  // namespace kvik
