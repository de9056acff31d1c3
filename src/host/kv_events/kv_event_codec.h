#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "kv/page_key.h"

namespace kvik {

// What vLLM publishes of its KV cache (vllm/distributed/kv_events.py), so that routers which listen
// to it listen to us.

// How a block is called there: the last eight bytes of its key, the first of them the most
// significant.
uint64_t block_hash(const PageKey& key);

struct KvEvent {
  enum class Kind : uint8_t { kStored, kRemoved, kAllCleared };
  Kind kind = Kind::kStored;
  uint64_t hash = 0;
  std::optional<uint64_t> parent = {};
  std::vector<TokenId> tokens = {};                      // kStored
  std::shared_ptr<const std::string> adapter = nullptr;  // kStored: its name; null: none
};

// "lora_id", which stands beside "lora_name" for older readers: made of the name, and so the same
// on every server. In [1, 2^31).
uint32_t lora_id(std::string_view adapter_name);

// Structures of msgspec as arrays that begin with their name, as vLLM has it, or as maps.
enum class KvEventEncoding : uint8_t { kArray, kMap };
std::optional<KvEventEncoding> kv_event_encoding_named(std::string_view name);

// One batch in MessagePack: its time in seconds since 1970, the events, the rank of the server.
std::string encode_kv_events(double time_s, const std::vector<KvEvent>& events,
                             KvEventEncoding encoding);

}  // namespace kvik
