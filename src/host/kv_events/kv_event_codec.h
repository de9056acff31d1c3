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

// Returns the "lora_id" of an adapter, in [1, 2^31), which older readers use instead of
// "lora_name". It is derived from the name, so that it is the same on all servers.
uint32_t lora_id(std::string_view adapter_name);

// Encoding of msgspec structures: as arrays that begin with the name of the structure, as in vLLM,
// or as maps.
enum class KvEventEncoding : uint8_t { kArray, kMap };
std::optional<KvEventEncoding> kv_event_encoding_named(std::string_view name);

// Encodes a batch in MessagePack: its time in seconds since 1970, the events, and 0 as the
// data-parallel rank.
std::string encode_kv_events(double time_s, const std::vector<KvEvent>& events,
                             KvEventEncoding encoding);

}  // namespace kvik
