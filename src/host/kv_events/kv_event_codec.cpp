#include "host/kv_events/kv_event_codec.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensor/kv_type.h"

namespace kvik {
namespace {

using nlohmann::json;

constexpr const char* kMedium = "CPU";

json or_null(const std::optional<uint64_t>& value) { return value ? json(*value) : json(nullptr); }

json stored(const KvEvent& event, KvEventEncoding encoding) {
  const json hashes = json::array({event.hash});
  const json number = event.adapter ? json(lora_id(*event.adapter)) : json(nullptr);
  const json name = event.adapter ? json(*event.adapter) : json(nullptr);
  if (encoding == KvEventEncoding::kArray) {
    return json::array({"BlockStored", hashes, or_null(event.parent), event.tokens, kPageTokens,
                        number, kMedium, name});
  }
  return {{"type", "BlockStored"},
          {"block_hashes", hashes},
          {"parent_block_hash", or_null(event.parent)},
          {"token_ids", event.tokens},
          {"block_size", kPageTokens},
          {"lora_id", number},
          {"medium", kMedium},
          {"lora_name", name}};
}

json removed(const KvEvent& event, KvEventEncoding encoding) {
  const json hashes = json::array({event.hash});
  if (encoding == KvEventEncoding::kArray) return json::array({"BlockRemoved", hashes, kMedium});
  return {{"type", "BlockRemoved"}, {"block_hashes", hashes}, {"medium", kMedium}};
}

json cleared(KvEventEncoding encoding) {
  if (encoding == KvEventEncoding::kArray) return json::array({"AllBlocksCleared"});
  return {{"type", "AllBlocksCleared"}};
}

json to_json(const KvEvent& event, KvEventEncoding encoding) {
  switch (event.kind) {
    case KvEvent::Kind::kStored:
      return stored(event, encoding);
    case KvEvent::Kind::kRemoved:
      return removed(event, encoding);
    case KvEvent::Kind::kAllCleared:
      break;
  }
  return cleared(encoding);
}

}  // namespace

uint32_t lora_id(std::string_view adapter_name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : adapter_name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return std::max(hash >> 1, 1u);
}

uint64_t block_hash(const PageKey& key) {
  uint64_t hash = 0;
  for (size_t i = key.bytes.size() - 8; i < key.bytes.size(); ++i) {
    hash = hash << 8 | static_cast<uint64_t>(key.bytes[i]);
  }
  return hash;
}

std::optional<KvEventEncoding> kv_event_encoding_named(std::string_view name) {
  if (name == "array") return KvEventEncoding::kArray;
  if (name == "map") return KvEventEncoding::kMap;
  return std::nullopt;
}

std::string encode_kv_events(double time_s, const std::vector<KvEvent>& events,
                             KvEventEncoding encoding) {
  json list = json::array();
  for (const KvEvent& event : events) list.push_back(to_json(event, encoding));
  const json batch =
      encoding == KvEventEncoding::kArray
          ? json::array({time_s, std::move(list), 0})
          : json{{"ts", time_s}, {"events", std::move(list)}, {"data_parallel_rank", 0}};
  std::string bytes;
  json::to_msgpack(batch, bytes);
  return bytes;
}

}  // namespace kvik
