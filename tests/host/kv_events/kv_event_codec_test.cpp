#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "host/kv_events/kv_event_codec.h"

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

}  // namespace
}  // namespace kvik
