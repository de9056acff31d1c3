#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "host/kv_events/kv_event_publisher.h"
#include "kv/kv_cache.h"
#include "kv/open_prefix.h"
#include "kv/plain_memory.h"
#include "support/temporary_folder.h"

namespace kvik {
namespace {

using nlohmann::json;

// Reads batches like a router and maintains the set of blocks.
class Listener {
 public:
  Listener(const std::string& events, const std::string& replay) : context_(zmq_ctx_new()) {
    socket_ = zmq_socket(context_, ZMQ_SUB);
    zmq_setsockopt(socket_, ZMQ_SUBSCRIBE, "", 0);
    CHECK(zmq_connect(socket_, events.c_str()) == 0);
    question_ = zmq_socket(context_, ZMQ_DEALER);
    CHECK(zmq_connect(question_, replay.c_str()) == 0);
    for (void* socket : {socket_, question_}) {
      const int ms = 2000, none = 0;
      zmq_setsockopt(socket, ZMQ_RCVTIMEO, &ms, sizeof(ms));
      zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none));
    }
  }
  ~Listener() {
    zmq_close(socket_);
    zmq_close(question_);
    zmq_ctx_term(context_);
  }

  // Requests all batches from a number on and applies them.
  void replay(uint64_t first) {
    std::string number;
    for (int shift = 56; shift >= 0; shift -= 8)
      number.push_back(static_cast<char>(first >> shift));
    zmq_send(question_, "", 0, ZMQ_SNDMORE);
    zmq_send(question_, number.data(), number.size(), 0);
    while (true) {
      const auto parts = receive(question_);
      ASSERT_EQ(parts.size(), 3u);
      if (parts[1] == std::string(8, '\xff')) return;
      apply(parts[1], parts[2]);
    }
  }

  const std::set<uint64_t>& blocks() const { return blocks_; }
  uint64_t next() const { return next_; }

 private:
  static std::vector<std::string> receive(void* socket) {
    std::vector<std::string> parts;
    int has_more = 1;
    for (size_t size = sizeof(has_more); has_more != 0;
         zmq_getsockopt(socket, ZMQ_RCVMORE, &has_more, &size)) {
      std::string part(1 << 20, '\0');
      const int n = zmq_recv(socket, part.data(), part.size(), 0);
      if (n < 0) return {};
      part.resize(static_cast<size_t>(n));
      parts.push_back(part);
    }
    return parts;
  }

  void apply(const std::string& number, const std::string& payload) {
    uint64_t sent = 0;
    for (const char byte : number) sent = sent << 8 | static_cast<unsigned char>(byte);
    ASSERT_EQ(sent, next_) << "none is left out";
    next_ = sent + 1;
    const json batch = json::from_msgpack(payload);
    for (const json& event : batch[1]) {
      const std::string type = event[0];
      if (type == "AllBlocksCleared") {
        blocks_.clear();
        continue;
      }
      const uint64_t hash = event[1][0];
      if (type == "BlockRemoved") {
        ASSERT_EQ(blocks_.erase(hash), 1u);
        continue;
      }
      ASSERT_EQ(type, "BlockStored");
      ASSERT_EQ(event[3].size(), 32u);
      if (!event[2].is_null()) {
        ASSERT_TRUE(blocks_.contains(event[2])) << "what stands before it was told";
      }
      ASSERT_TRUE(blocks_.insert(hash).second);
    }
  }

  void* context_;
  void* socket_;
  void* question_;
  std::set<uint64_t> blocks_;
  uint64_t next_ = 0;
};

std::set<uint64_t> blocks_of(const KvCache& kv) {
  std::set<uint64_t> blocks;
  for (uint32_t i = 0; i < kv.n_pages(); ++i) {
    const PrefixNode* node = kv.pages().index().node_with(PageId{i});
    if (node && node->tokens.size() == kPageTokens) blocks.insert(block_hash(node->key));
  }
  return blocks;
}

TEST(KvEvents, tell_exactly_what_the_cache_holds) {
  const TemporaryFolder folder;
  KvEventOptions options{.endpoint = "ipc://" + folder.path() + "/events",
                         .replay_endpoint = "ipc://" + folder.path() + "/replay"};
  auto publisher = KvEventPublisher::start(options);
  ASSERT_TRUE(publisher.has_value());
  Listener listener(options.endpoint, options.replay_endpoint);
  PlainMemory memory;
  KvCache cache(memory, 60 * 64, 64);
  cache.pages().set_log(publisher->get());
  std::mt19937 random(1);
  const PageKey root = root_key("test", "");
  for (int i = 0; i < 20'000; ++i) {  // some have common prefixes, and all are evicted in the end
    std::vector<TokenId> tokens(20 + random() % 300);
    for (TokenId at = 0; TokenId & token : tokens) token = at++ / 40 * (random() % 8 == 0);
    PageTable table;
    if (!open_prefix(cache, table, {root, tokens}, tokens.size())) continue;
    cache.close(table, tokens);
    if (i % 500 != 499) continue;
    for (int tries = 0; tries < 500 && listener.blocks() != blocks_of(cache); ++tries) {
      listener.replay(listener.next());
    }
    ASSERT_EQ(listener.blocks(), blocks_of(cache));
  }
  EXPECT_GT(cache.pages().n_evictions(), 10'000u);
}

// A peer that sends protocol bytes directly, including sequences that no library would send.
class RawPeer {
 public:
  RawPeer(const std::string& path, std::string_view type) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    CHECK(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    const timeval long_patience{.tv_sec = 20, .tv_usec = 0};
    const timeval short_patience{.tv_sec = 1, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &long_patience, sizeof(long_patience));
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &short_patience, sizeof(short_patience));
    std::string greeting(64, '\0');
    greeting[0] = '\xff';
    greeting[9] = '\x7f';
    greeting[10] = 3;
    greeting.replace(12, 4, "NULL");
    send(greeting);
    std::string ready("\x05READY\x0bSocket-Type");
    ready += std::string(3, '\0') + static_cast<char>(type.size()) + std::string(type);
    send(std::string("\x04") + static_cast<char>(ready.size()) + ready);
  }
  ~RawPeer() { ::close(fd_); }

  // Returns false if the other side has closed the connection or accepts no more data.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  bool send_frame(std::string_view body, char flags = 0) const {
    std::string head{static_cast<char>(flags | 2)};
    for (int shift = 56; shift >= 0; shift -= 8)
      head.push_back(static_cast<char>(uint64_t{body.size()} >> shift));
    return send(head) && send(body);
  }
  // Returns the received data up to the end of the connection, the bytes `end`, or a timeout.
  std::string read_until(std::string_view end = {}) const {
    std::string all;
    std::array<char, 65536> bytes;
    while (end.empty() || !all.contains(end)) {
      const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), 0);
      if (n <= 0) break;
      all.append(bytes.data(), static_cast<size_t>(n));
    }
    return all;
  }

 private:
  const int fd_;
};

size_t resident_bytes() {
  size_t n_all = 0, n_resident = 0;
  std::ifstream("/proc/self/statm") >> n_all >> n_resident;
  return n_resident * 4096;
}

// A publisher with two sockets in a folder, and a listener that receives everything.
struct Published {
  TemporaryFolder folder;
  std::string events = folder.path() + "/events", replay = folder.path() + "/replay";
  std::unique_ptr<KvEventPublisher> publisher = std::move(*KvEventPublisher::start(
      {.endpoint = "ipc://" + events, .replay_endpoint = "ipc://" + replay}));

  void tell(uint32_t n_pages, uint32_t first = 0) const {
    const std::vector<TokenId> tokens(kPageTokens, 7);
    for (uint32_t i = first; i < first + n_pages; ++i) {
      const PageKey key = child_key(root_key("m", ""), std::vector<TokenId>{i});
      publisher->on_stored({.key = key, .parent = nullptr, .tokens = tokens});
    }
  }
  // Checks that a new reader is served.
  void expect_alive() const {
    const RawPeer peer(replay, "DEALER");
    peer.send_frame("", 1);
    peer.send_frame(std::string(8, '\0'));
    const std::string end(8, '\xff');
    EXPECT_TRUE(peer.read_until(end).contains(end));
  }
};

constexpr size_t kSomeMemory = size_t{16} << 20;

TEST(KvEvents, long_subscriptions_take_no_memory) {
  const Published published;
  published.expect_alive();
  const size_t before = resident_bytes();
  std::string subscription(size_t{1} << 20, 'x');
  for (int i = 0; i < 30; ++i) {
    const RawPeer peer(published.events, "SUB");
    for (int k = 0; k < 10; ++k) {
      subscription[0] = '\1';
      subscription[1] = static_cast<char>(i);
      subscription[2] = static_cast<char>(k);
      if (!peer.send_frame(subscription)) break;
    }
  }
  published.expect_alive();
  EXPECT_LT(resident_bytes(), before + kSomeMemory);
}

TEST(KvEvents, many_subscriptions_take_no_memory) {
  const Published published;
  published.expect_alive();
  const size_t before = resident_bytes();
  std::mt19937 random(1);
  const RawPeer peer(published.events, "SUB");
  for (int i = 0; i < 3000; ++i) {
    std::string subscription(200, '\1');
    for (size_t k = 1; k < subscription.size(); ++k) subscription[k] = static_cast<char>(random());
    if (!peer.send_frame(subscription)) break;
  }
  published.expect_alive();
  EXPECT_LT(resident_bytes(), before + kSomeMemory);
}

TEST(KvEvents, long_questions_take_no_memory) {
  const Published published;
  published.expect_alive();
  const std::string question(size_t{64} << 20, 'x');
  const size_t before = resident_bytes();
  const RawPeer peer(published.replay, "DEALER");
  peer.send_frame("", 1);
  peer.send_frame(question);
  const RawPeer other(published.replay, "DEALER");
  for (int i = 0; i < 1'000'000 && other.send_frame("", 1); ++i) {  // message parts without an end
  }
  published.expect_alive();
  EXPECT_LT(resident_bytes(), before + kSomeMemory);
}

TEST(KvEvents, stalled_readers_use_bounded_memory_and_block_no_one) {
  const Published published;
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<RawPeer>(published.events, "SUB"));
    silent.back()->send_frame("\1");
    silent.push_back(std::make_unique<RawPeer>(published.replay, "DEALER"));
    for (int k = 0; k < 20; ++k) {
      silent.back()->send_frame("", 1);
      silent.back()->send_frame(std::string(8, '\0'));
    }
  }
  published.expect_alive();
  const size_t before = resident_bytes();
  constexpr uint32_t kPages = 40'000;
  for (uint32_t first = 0; first < 10 * kPages; first += kPages) {
    published.tell(kPages, first);
    for (uint32_t i = first; i < first + kPages; ++i) {
      published.publisher->on_removed(child_key(root_key("m", ""), std::vector<TokenId>{i}));
    }
  }
  published.expect_alive();
  EXPECT_LT(resident_bytes(), before + KvEventPublisher::max_bytes(kPages));
}

// Returns the counts when they satisfy the condition, or the last ones after a timeout.
template <class Are>
PageLogCounts counts_when(const KvEventPublisher& publisher, const Are& are) {
  PageLogCounts counts = publisher.counts();
  for (int i = 0; i < 3000 && !are(counts); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    counts = publisher.counts();
  }
  return counts;
}

TEST(KvEvents, what_they_take_is_counted) {
  const Published published;
  const RawPeer subscriber(published.events, "SUB"), asker(published.replay, "DEALER");
  subscriber.send_frame("\1");
  published.tell(1000);
  const PageLogCounts counts = counts_when(*published.publisher, [](const PageLogCounts& now) {
    return now.n_subscribers == 1 && now.n_replay_readers == 1 && now.n_waiting == 0 &&
           now.batch_bytes > 0;
  });
  EXPECT_EQ(counts.n_subscribers, 1u);
  EXPECT_EQ(counts.n_replay_readers, 1u);
  EXPECT_EQ(counts.n_waiting, 0u);
  EXPECT_EQ(counts.waiting_bytes, 0u);
  constexpr uint64_t kTokens = 1000 * kPageTokens * sizeof(TokenId);
  EXPECT_GT(counts.held_bytes, kTokens);
  EXPECT_GT(counts.batch_bytes, 1000 * kPageTokens);
  EXPECT_GT(counts.connection_bytes, 2 * sizeof(EventPeer));
  EXPECT_LT(counts.held_bytes + counts.batch_bytes + counts.connection_bytes,
            KvEventPublisher::max_bytes(1000));
  EXPECT_EQ(counts.n_lost_batches, 0u);
}

TEST(KvEvents, what_waits_and_what_was_dropped_is_counted) {
  const Published published;
  const RawPeer silent(published.events, "SUB");
  silent.send_frame("\1");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  published.tell(1);
  ASSERT_TRUE(silent.read_until("BlockStored").contains("BlockStored"));
  const std::vector<TokenId> tokens(kPageTokens, 7);
  const PageKey key = child_key(root_key("m", ""), std::vector<TokenId>{9});
  // More events than may wait, although few pages are held at a time.
  for (int i = 0; i < 20'000; ++i) {
    published.publisher->on_stored({.key = key, .parent = nullptr, .tokens = tokens});
    published.publisher->on_removed(key);
  }
  EXPECT_GT(published.publisher->counts().n_resets, 0u);
  // More batches than are stored for replay, before the reader continues.
  const std::vector<TokenId> long_tokens(kPageTokens, 1'000'000);
  for (uint32_t i = 10; i < 170'000; ++i) {
    const PageKey page = child_key(root_key("m", ""), std::vector<TokenId>{i});
    published.publisher->on_stored({.key = page, .parent = nullptr, .tokens = long_tokens});
  }
  EXPECT_GT(published.publisher->counts().waiting_bytes, 0u);
  counts_when(*published.publisher, [](const PageLogCounts& now) { return now.n_waiting == 0; });
  for (int i = 0; published.publisher->counts().n_lost_batches == 0 && i < 500; ++i) {
    silent.read_until("BlockStored");
  }
  EXPECT_GT(published.publisher->counts().n_lost_batches, 0u);
}

TEST(KvEvents, a_subscriber_receives_only_its_topic) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/events";
  auto publisher = KvEventPublisher::start({.endpoint = "ipc://" + path, .topic = "kv-1"});
  ASSERT_TRUE(publisher.has_value());
  const RawPeer mine(path, "SUB"), other(path, "SUB"), gone(path, "SUB");
  mine.send_frame("\1kv-");
  other.send_frame("\1kv-1-more");
  gone.send_frame("\1kv-");
  gone.send_frame(std::string("\0kv-", 4));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const PageKey key = child_key(root_key("m", ""), std::vector<TokenId>{1});
  (*publisher)->on_stored({.key = key, .parent = nullptr, .tokens = {}});
  publisher->reset();
  EXPECT_NE(mine.read_until().find("kv-1"), std::string::npos);
  EXPECT_EQ(other.read_until().find("kv-1"), std::string::npos);
  EXPECT_EQ(gone.read_until().find("kv-1"), std::string::npos);
}

TEST(KvEvents, other_protocols_are_rejected) {
  const Published published;
  for (const char* said : {"GET / HTTP/1.1\r\n\r\n", "\xff\1\1\1\1\1\1\1\1\x7f\1", ""}) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    published.events.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::send(fd, said, std::strlen(said), MSG_NOSIGNAL);
    ::close(fd);
  }
  const RawPeer wrong(published.events, "PULL");
  EXPECT_LT(wrong.read_until().size(), 200u) << "its connection is closed";
  published.expect_alive();
}

TEST(KvEvents, the_owner_alone_may_connect_to_a_socket_file) {
  const Published published;
  EXPECT_EQ(std::filesystem::status(published.events).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(KvEvents, more_connections_than_it_has_places_for_are_closed) {
  const Published published;
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 64; ++i) {
    peers.push_back(std::make_unique<RawPeer>(published.events, "SUB"));
    peers.back()->send_frame("\1");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const RawPeer further(published.events, "SUB");
  EXPECT_LT(further.read_until().size(), 1u);
  peers.clear();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  published.expect_alive();
}

TEST(KvEvents, connections_that_subscribe_to_nothing_make_room_for_subscribers) {
  const Published published;
  std::vector<std::unique_ptr<RawPeer>> idle;
  for (int i = 0; i < 64; ++i) idle.push_back(std::make_unique<RawPeer>(published.events, "SUB"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const RawPeer subscriber(published.events, "SUB");
  subscriber.send_frame("\1");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  published.tell(1);
  EXPECT_TRUE(subscriber.read_until("BlockStored").contains("BlockStored"));
}

TEST(BatchRing, keeps_the_newest_within_both_bounds) {
  BatchRing ring(3, 100);
  for (int i = 0; i < 5; ++i) ring.add(std::string(20, static_cast<char>('a' + i)));
  EXPECT_EQ(ring.begin(), 2u);
  EXPECT_EQ(ring.end(), 5u);
  EXPECT_EQ(ring.at(4)->front(), 'e');
  ring.add(std::string(90, 'x'));
  EXPECT_EQ(ring.begin(), 5u);
  ring.add(std::string(1000, 'y'));
  EXPECT_EQ(ring.n_bytes(), 1000u) << "the newest is kept, however long";
}

TEST(KvEvents, an_endpoint_that_cannot_be_is_refused) {
  for (const char* endpoint :
       {"nonsense", "tcp://*", "tcp://256.1.1.1:9", "ipc:///nowhere/at/all"}) {
    const auto publisher = KvEventPublisher::start({.endpoint = endpoint});
    ASSERT_FALSE(publisher.has_value()) << endpoint;
    EXPECT_NE(publisher.error().message.find(endpoint), std::string::npos);
  }
}

}  // namespace
}  // namespace kvik
