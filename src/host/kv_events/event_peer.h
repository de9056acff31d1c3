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

// A connection of a KV event subscriber. Its memory is bounded: an incoming frame, the number of
// the next batch, and the batch being sent. One thread.
class EventPeer {
 public:
  // A SUB socket receives batches from its subscription on; an asker (DEALER, REQ) requests the
  // batches from a number on.
  enum class Kind { kSubscriber, kReplayClient };

  // Takes a non-blocking socket. Borrows the topic, which is that of all batches.
  EventPeer(FileDescriptor socket, Kind kind, std::string_view topic);
  EventPeer(const EventPeer&) = delete;
  EventPeer& operator=(const EventPeer&) = delete;

  int fd() const { return socket_.get(); }
  // Returns the events for which poll() must wait.
  short wanted_events(const BatchRing& ring) const;

  // Reads and handles what has arrived; returns false if the connection must be closed.
  bool read(const BatchRing& ring);
  // Sends as much as the connection accepts; returns false if it must be closed.
  bool write(const BatchRing& ring);
  // Returns whether nothing is left to send.
  bool is_done(const BatchRing& ring) const;

  // Returns false if the handshake was not completed in time.
  bool is_in_time(TimePoint now) const { return is_ready_ || now < handshake_end_; }
  // Returns whether the peer has only opened the connection so far.
  bool is_idle() const { return n_subscriptions_ == 0 && !is_answering_ && !payload_; }
  // Returns the approximate memory of the connection. A batch that the ring has dropped counts
  // while it is sent.
  size_t n_bytes() const;
  // Returns the number of batches that a slow subscriber missed since the last call.
  uint64_t take_lost() { return std::exchange(n_lost_, 0); }
  // Begins a new second. A peer that sent too much in one second is not read until the next one.
  void begin_second() { n_received_ = 0; }

 private:
  bool decode(const BatchRing& ring);
  bool take(const zmtp::Frame& frame, const BatchRing& ring);
  bool take_command(std::string_view command);
  void take_subscription(std::string_view body, const BatchRing& ring);
  void take_part(const zmtp::Frame& frame, const BatchRing& ring);
  bool has_next(const BatchRing& ring) const;
  void begin_next(const BatchRing& ring);
  bool begin_next_message(const BatchRing& ring);

  const FileDescriptor socket_;
  const Kind kind_;
  const std::string_view topic_;
  zmtp::Decoder decoder_;
  bool sent_ready_ = false;
  bool is_ready_ = false;
  const TimePoint handshake_end_;
  size_t n_received_ = 0;  // bytes received in the current second

  uint32_t n_subscriptions_ = 0;  // number of subscriptions that match the topic
  uint64_t next_ = 0;             // number of the next batch to send
  uint64_t n_lost_ = 0;           // batches that the ring dropped before they were sent
  uint64_t end_ = 0;              // end of the batches that an asker requested
  bool is_answering_ = false;
  uint32_t n_parts_ = 0;          // number of frames of an incomplete request
  bool is_valid_request_ = true;  // the frames of the request are valid so far

  std::string control_;         // control frames, sent between two messages
  std::string head_;            // frames being sent, except for the body of the last one
  BatchRing::Payload payload_;  // body sent after head_; null: none
  size_t n_sent_ = 0;           // bytes of head_ and payload_ that were sent
};

}  // namespace kvik
