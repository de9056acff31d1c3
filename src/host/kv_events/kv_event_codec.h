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

// KV cache events in vLLM's format (vllm/distributed/kv_events.py), so that routers for vLLM work
// with Kvik.

// Returns the block hash: the last eight bytes of the page key, most significant byte first.
uint64_t block_hash(const PageKey& key);

struct KvEvent {
  enum class Kind : uint8_t { kStored, kRemoved, kAllCleared };
  Kind kind = Kind::kStored;
  uint64_t hash = 0;
  std::optional<uint64_t> parent = {};
  std::vector<TokenId> tokens = {};                      // kStored
  std::shared_ptr<const std::string> adapter = nullptr;  // kStored: name of the adapter; null: none
};

// Returns "lora_id", which older readers use instead of "lora_name": derived from the name, so
// equal on all servers. In [1, 2^31).
uint32_t lora_id(std::string_view adapter_name);

// Encoding of msgspec structures: arrays that begin with their name, as in vLLM, or maps.
enum class KvEventEncoding : uint8_t { kArray, kMap };
std::optional<KvEventEncoding> kv_event_encoding_named(std::string_view name);

// Encodes a batch in MessagePack: its time in seconds since 1970, the events, and the rank of the
// server.
std::string encode_kv_events(double time_s, const std::vector<KvEvent>& events,
                             KvEventEncoding encoding);

}  // namespace kvik
