#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/file/file_descriptor.h"
#include "host/kv_events/batch_ring.h"
#include "host/kv_events/zmtp.h"

namespace kvik {

// One connection of a reader of KV events. Its memory is bounded: an incoming frame, the number of
// the next batch, and one batch that is being sent. One thread.
class EventPeer {
 public:
  // A SUB socket, which hears the batches from its subscription on; or one that asks (DEALER, REQ)
  // for batches from a number on.
  enum class Kind { kSubscriber, kAsker };

  // Takes the socket, which does not block. The topic is that of all batches, and borrowed.
  EventPeer(FileDescriptor socket, Kind kind, std::string_view topic);
  EventPeer(const EventPeer&) = delete;
  EventPeer& operator=(const EventPeer&) = delete;

  int fd() const { return socket_.get(); }
  // Events of poll() to wait for.
  short wanted_events(const BatchRing& ring) const;

  // Reads and handles what has arrived; false: the connection has to be closed.
  bool read(const BatchRing& ring);
  // Sends as much as the connection takes; false as above.
  bool write(const BatchRing& ring);
  // Returns whether nothing is left to be sent.
  bool is_done(const BatchRing& ring) const;

  // False: it has not ended its handshake in time.
  bool is_in_time(TimePoint now) const { return is_ready_ || now < handshake_end_; }
  // Returns whether the peer has done nothing with its connection but open it.
  bool is_idle() const { return n_subscriptions_ == 0 && !is_answering_ && !payload_; }
  // Memory of the connection, about. A batch that the ring has dropped counts while it is sent.
  size_t n_bytes() const;
  // Returns the number of batches that a slow subscriber missed since the last call.
  uint64_t take_lost() { return std::exchange(n_lost_, 0); }
  // A peer that sent a lot is not heard until the next second.
  void begin_second() { n_received_ = 0; }

 private:
  bool decode(const BatchRing& ring);
  bool take(const zmtp::Frame& frame, const BatchRing& ring);
  bool take_command(std::string_view command);
  void take_subscription(std::string_view body, const BatchRing& ring);
  void take_part(const zmtp::Frame& frame, const BatchRing& ring);
  bool has_next(const BatchRing& ring) const;
  void begin_next(const BatchRing& ring);
  bool begin_something(const BatchRing& ring);

  const FileDescriptor socket_;
  const Kind kind_;
  const std::string_view topic_;
  zmtp::Decoder decoder_;
  bool said_ready_ = false;
  bool is_ready_ = false;
  const TimePoint handshake_end_;
  size_t n_received_ = 0;  // in this second

  uint32_t n_subscriptions_ = 0;  // that match the topic
  uint64_t next_ = 0;             // batch to send
  uint64_t n_lost_ = 0;           // batches that the ring dropped before they were sent
  uint64_t end_ = 0;              // of what an asker asked for
  bool is_answering_ = false;
  uint32_t n_parts_ = 0;     // of a question that is not whole
  bool is_question_ = true;  // so far

  std::string control_;         // to be sent between two messages
  std::string head_;            // on its way
  BatchRing::Payload payload_;  // then this; null: nothing
  size_t n_sent_ = 0;           // of both
};

}  // namespace kvik
