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

// A bound endpoint with its connections, of which there are kMaxPeers at most. A further one takes
// the place of the oldest that has subscribed to nothing and asks for nothing; without such a
// connection it is closed at once. One thread, which polls.
class EventSocket {
 public:
  static constexpr size_t kMaxPeers = 64;

  // Listens at tcp://HOST:PORT (HOST may be * for all addresses) or ipc://PATH, a socket that its
  // owner alone may connect to. Errors: kInvalidArgument, in one sentence that names the endpoint.
  static Result<std::unique_ptr<EventSocket>> bind(const std::string& endpoint,
                                                   EventPeer::Kind kind, std::string_view topic);
  ~EventSocket();
  EventSocket(const EventSocket&) = delete;
  EventSocket& operator=(const EventSocket&) = delete;

  // Adds what poll() is to wait for.
  void add_to(std::vector<pollfd>& all, const BatchRing& ring) const;
  // Acts on the events of as many entries as add_to() added, the first of which is `events`.
  void act(const pollfd* events, const BatchRing& ring);
  // Closes connections that did not say in time what they are.
  void close_late(TimePoint now);
  void begin_second();
  // Returns whether nothing is left to be sent to any peer.
  bool is_done(const BatchRing& ring) const;

  size_t n_peers() const { return peers_.size(); }
  size_t n_bytes() const;
  // Batches that slow subscribers missed so far.
  uint64_t n_lost() const { return n_lost_; }

 private:
  EventSocket(FileDescriptor socket, std::string path, EventPeer::Kind kind, std::string_view topic)
      : socket_(std::move(socket)), path_(std::move(path)), kind_(kind), topic_(topic) {}
  void accept_all();

  const FileDescriptor socket_;
  const std::string path_;  // of ipc, which is removed at the end; empty: tcp
  const EventPeer::Kind kind_;
  const std::string_view topic_;
  std::vector<std::unique_ptr<EventPeer>> peers_;
  uint64_t n_lost_ = 0;
};

}  // namespace kvik
