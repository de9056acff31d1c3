#include <gtest/gtest.h>
#include <zmq.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
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

PageKey key_ending_with(std::initializer_list<int> bytes) {
  PageKey key;
  size_t at = key.bytes.size() - bytes.size();
  for (const int byte : bytes) key.bytes[at++] = static_cast<std::byte>(byte);
  return key;
}

std::shared_ptr<const std::string> named(const char* adapter) {
  return std::make_shared<const std::string>(adapter);
}

TEST(KvEventCodec, a_hash_is_the_end_of_a_key) {
  EXPECT_EQ(block_hash(key_ending_with({1, 2})), 0x102u);
  EXPECT_EQ(block_hash(key_ending_with({9, 0x80, 0, 0, 0, 0, 0, 0, 7})), 0x8000000000000007u);
}

TEST(KvEventCodec, writes_the_arrays_of_vllm) {
  const std::string bytes =
      encode_kv_events(1.5,
                       {{.kind = KvEvent::Kind::kAllCleared},
                        {.hash = 0xfedcba9876543210, .parent = 7, .tokens = {1, 2}},
                        {.hash = 8, .tokens = {3}, .adapter = named("poet")},
                        {.kind = KvEvent::Kind::kRemoved, .hash = 9}},
                       KvEventEncoding::kArray);
  EXPECT_EQ(
      json::from_msgpack(bytes),
      json::parse(
          R"([1.5, [["AllBlocksCleared"], ["BlockStored", [18364758544493064720], 7, [1, 2], 32, null, "CPU", null],
                           ["BlockStored", [8], null, [3], 32, 1189211560, "CPU", "poet"],
                           ["BlockRemoved", [9], "CPU"]], 0])"));
}

TEST(KvEventCodec, writes_maps) {
  const std::string bytes = encode_kv_events(
      2, {{.hash = 1, .tokens = {5}}, {.hash = 2, .tokens = {6}, .adapter = named("x")}},
      KvEventEncoding::kMap);
  EXPECT_EQ(
      json::from_msgpack(bytes),
      json::parse(
          R"({"ts": 2.0, "data_parallel_rank": 0, "events": [{"type": "BlockStored", "block_hashes": [1],
              "parent_block_hash": null, "token_ids": [5], "block_size": 32, "lora_id": null, "medium": "CPU", "lora_name": null},
             {"type": "BlockStored", "block_hashes": [2], "parent_block_hash": null, "token_ids": [6], "block_size": 32,
              "lora_id": 2122721347, "medium": "CPU", "lora_name": "x"}]})"));
}

// Reads batches, as a router does, and keeps the set of blocks.
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

  // Asks for all batches from a number on and applies them.
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
    const PrefixNode* node = kv.index().node_with(PageId{i});
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
  cache.set_log(publisher->get());
  std::mt19937 random(1);
  const PageKey root = root_key("test", "");
  for (int i = 0; i < 20'000; ++i) {  // some begin like others, all make room in the end
    std::vector<TokenId> tokens(20 + random() % 300);
    for (TokenId at = 0; TokenId & token : tokens) token = at++ / 40 * (random() % 8 == 0);
    PageTable table;
    if (!open_prefix(cache, table, {root, tokens}, tokens.size())) continue;
    cache.close(table, root, tokens);
    if (i % 500 != 499) continue;
    for (int tries = 0; tries < 500 && listener.blocks() != blocks_of(cache); ++tries) {
      listener.replay(listener.next());
    }
    ASSERT_EQ(listener.blocks(), blocks_of(cache));
  }
  EXPECT_GT(cache.n_evictions(), 10'000u);
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
