#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file/file_descriptor.h"
#include "base/result.h"
#include "host/kv_events/batch_ring.h"
#include "host/kv_events/event_peer.h"

namespace kvik {

// A listening endpoint and its connections, at most kMaxPeers. A further connection replaces the
// oldest one without subscription or request. If there is none, the new connection is closed at
// once. Used by the one thread that polls.
class EventSocket {
 public:
  static constexpr size_t kMaxPeers = 64;

  // Listens at tcp://HOST:PORT (HOST may be * for all addresses) or ipc://PATH, a socket to which
  // only its owner may connect. Errors: kInvalidArgument, naming the endpoint.
  static Result<std::unique_ptr<EventSocket>> bind(const std::string& endpoint,
                                                   EventPeer::Kind kind, std::string_view topic);
  ~EventSocket();
  EventSocket(const EventSocket&) = delete;
  EventSocket& operator=(const EventSocket&) = delete;

  // Adds the descriptors that poll() waits for.
  void add_to(std::vector<pollfd>& all, const BatchRing& ring) const;
  // Handles the events of the entries that add_to() added, starting at `events`.
  void act(const pollfd* events, const BatchRing& ring);
  // Closes connections that did not complete their handshake in time.
  void close_late(TimePoint now);
  void begin_second();
  // Returns whether nothing is left to send to any peer.
  bool is_done(const BatchRing& ring) const;

  size_t n_peers() const { return peers_.size(); }
  size_t n_bytes() const;
  // Returns the number of batches that slow subscribers missed so far.
  uint64_t n_lost() const { return n_lost_; }

 private:
  EventSocket(FileDescriptor socket, std::string path, EventPeer::Kind kind, std::string_view topic)
      : socket_(std::move(socket)), path_(std::move(path)), kind_(kind), topic_(topic) {}
  void accept_all();

  const FileDescriptor socket_;
  const std::string path_;  // path of an ipc socket, removed by the destructor; empty: tcp
  const EventPeer::Kind kind_;
  const std::string_view topic_;
  std::vector<std::unique_ptr<EventPeer>> peers_;
  uint64_t n_lost_ = 0;
};

}  // namespace kvik
