#include "tier/page_record.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "base/keyed_hash.h"
#include "tensor/kv_type.h"

namespace kvik {
namespace {

constexpr uint64_t kMagic = 0x454741504b49564b;  // "KVIKPAGE"
constexpr uint32_t kRecordVersion = 2;
constexpr size_t kTokensAt = 120;
constexpr size_t kLengthAt = kTokensAt + kPageTokens * sizeof(TokenId);
constexpr size_t kBytesHashAt = kLengthAt + sizeof(uint64_t);
constexpr size_t kKnownAt = kBytesHashAt + sizeof(Hash128);
constexpr size_t kHeadHashAt = kKnownAt + sizeof(SharingMark);
constexpr size_t kSealAt = kHeadHashAt + sizeof(Hash128);
static_assert(kSealAt + sizeof(Sha256Digest) <= kRecordHeadBytes);

template <class T>
void put(std::span<std::byte> out, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out[at + i] = static_cast<std::byte>(value >> (8 * i));
}

template <class T>
T get(std::span<const std::byte> in, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(in[at + i]) << (8 * i);
  return value;
}

void put_key(std::span<std::byte> out, size_t at, const PageKey& key) {
  std::memcpy(out.data() + at, key.bytes.data(), sizeof(PageKey));
}

PageKey get_key(std::span<const std::byte> in, size_t at) {
  PageKey key;
  std::memcpy(key.bytes.data(), in.data() + at, sizeof(PageKey));
  return key;
}

void put_hash(std::span<std::byte> out, size_t at, const Hash128& hash) {
  put(out, at, hash.low);
  put(out, at + sizeof(hash.low), hash.high);
}

Hash128 get_hash(std::span<const std::byte> in, size_t at) {
  return {get<uint64_t>(in, at), get<uint64_t>(in, at + sizeof(uint64_t))};
}

Sha256Digest seal_of(std::span<const std::byte> head, std::string_view mark_key) {
  const std::string_view sealed(reinterpret_cast<const char*>(head.data()), kSealAt);
  return keyed_hash(mark_key, {"kvik page mark", sealed});
}

bool is_sealed(std::span<const std::byte> head, std::string_view mark_key) {
  return std::ranges::equal(seal_of(head, mark_key), head.subspan(kSealAt, sizeof(Sha256Digest)));
}

}  // namespace

void write_record_head(const TierPage& page, size_t n_bytes, std::span<std::byte> slot,
                       std::string_view mark_key) {
  CHECK(!page.tokens.empty() && page.tokens.size() <= kPageTokens);
  CHECK(slot.size() >= kRecordHeadBytes + n_bytes);
  std::ranges::fill(slot.first(kRecordHeadBytes), std::byte{0});
  put(slot, 0, kMagic);
  put(slot, 8, kRecordVersion);
  put(slot, 12, page.group);
  put_key(slot, 16, page.root);
  put_key(slot, 48, page.parent);
  put_key(slot, 80, page.key);
  put(slot, 112, static_cast<uint32_t>(page.tokens.size()));
  for (size_t i = 0; i < page.tokens.size(); ++i) {
    put(slot, kTokensAt + i * sizeof(TokenId), page.tokens[i]);
  }
  put(slot, kLengthAt, uint64_t{n_bytes});
  put_hash(slot, kBytesHashAt, xxh3_128(slot.subspan(kRecordHeadBytes, n_bytes)));
  put(slot, kKnownAt, static_cast<uint64_t>(page.known));
  put_hash(slot, kHeadHashAt, xxh3_128(slot.first(kHeadHashAt)));
  if (!mark_key.empty()) std::ranges::copy(seal_of(slot, mark_key), slot.begin() + kSealAt);
}

std::optional<RecordHead> read_record_head(std::span<const std::byte> head,
                                           std::string_view mark_key) {
  if (head.size() < kRecordHeadBytes || get<uint64_t>(head, 0) != kMagic ||
      get<uint32_t>(head, 8) != kRecordVersion ||
      get_hash(head, kHeadHashAt) != xxh3_128(head.first(kHeadHashAt))) {
    return std::nullopt;
  }
  const auto n_tokens = get<uint32_t>(head, 112);
  if (n_tokens == 0 || n_tokens > kPageTokens) return std::nullopt;
  RecordHead record{.page = {.root = get_key(head, 16),
                             .parent = get_key(head, 48),
                             .key = get_key(head, 80),
                             .group = get<uint32_t>(head, 12),
                             .tokens = std::vector<TokenId>(n_tokens),
                             .known = SharingMark{get<uint64_t>(head, kKnownAt)}},
                    .n_bytes = get<uint64_t>(head, kLengthAt)};
  for (size_t i = 0; i < n_tokens; ++i) {
    record.page.tokens[i] = get<TokenId>(head, kTokensAt + i * sizeof(TokenId));
  }
  if (!mark_key.empty() && !is_sealed(head, mark_key)) record.page.known = SharingMark::kNoTenant;
  return record;
}

std::optional<RecordHead> read_record(std::span<const std::byte> slot, std::string_view mark_key) {
  auto record = read_record_head(slot, mark_key);
  if (!record || record->n_bytes > slot.size() - kRecordHeadBytes) return std::nullopt;
  const Hash128 hash = xxh3_128(slot.subspan(kRecordHeadBytes, record->n_bytes));
  if (hash != get_hash(slot, kBytesHashAt)) return std::nullopt;
  return record;
}

}  // namespace kvik
