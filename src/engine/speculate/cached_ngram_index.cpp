#include "engine/speculate/cached_ngram_index.h"

#include <algorithm>
#include <bit>
#include <random>

#include "engine/speculate/suffix_index.h"

namespace kvik {
namespace {

constexpr uint64_t kMaxSlots = 1 << 19;

uint64_t slots_for(uint64_t n_pages) {
  return std::min(std::bit_ceil(n_pages * kPageTokens), kMaxSlots);
}

// Returns the page at an index of the table, in any layer group that still has it.
std::optional<PageId> page_at(const PageTable& table, uint32_t index) {
  for (uint32_t g = 0; g < table.n_groups(); ++g) {
    if (table.holds(g, index)) return table.page(g, index);
  }
  return std::nullopt;
}

// Returns the number of tokens before `place` that equal the last tokens of the list.
uint32_t common_suffix(CachedTokenPosition place, std::span<const TokenId> tokens) {
  uint32_t n = 0;
  while (n < std::min<size_t>(tokens.size(), SuffixIndex::kLongest)) {
    if (place.offset == 0) {
      place.node = place.node->parent;
      if (!place.node || !place.node->parent) break;
      place.offset = static_cast<uint32_t>(place.node->tokens.size());
    }
    --place.offset;
    if (place.node->tokens[place.offset] != tokens[tokens.size() - 1 - n]) break;
    ++n;
  }
  return n;
}

}  // namespace

bool may_read(const PrefixNode& node, const CachedPageReader& reader) {
  const PrefixNode* root = &node;
  while (root->parent) root = root->parent;
  return root->key == reader.root && may_hit(reader.as, node.known);
}

CachedNgramIndex::CachedNgramIndex(const KvCache& kv) : kv_(kv), slots_(slots_for(kv.n_pages())) {
  std::random_device device;
  secret_ = (uint64_t{device()} << 32) | device();
}

uint64_t CachedNgramIndex::n_bytes(uint64_t n_pages) { return slots_for(n_pages) * sizeof(Slot); }

size_t CachedNgramIndex::slot_of(const CachedPageReader& page_reader,
                                 std::span<const TokenId> tokens, size_t end) const {
  uint64_t hash = secret_ ^ PageKeyHash()(page_reader.root) ^ static_cast<uint64_t>(page_reader.as);
  for (const TokenId token : tokens.subspan(end - kGram, kGram)) {
    hash = (hash + token + 1) * 0x9e3779b97f4a7c15u;
  }
  return (hash >> 32) & (slots_.size() - 1);
}

void CachedNgramIndex::add(const PageTable& table, const CachedPageReader& writer,
                           std::span<const TokenId> tokens, uint32_t first) {
  for (size_t at = std::max(first, kGram); at < tokens.size(); ++at) {
    const auto page = page_at(table, static_cast<uint32_t>(at / kPageTokens));
    if (!page) continue;
    const Slot slot{static_cast<uint32_t>(*page), static_cast<uint32_t>(at % kPageTokens)};
    slots_[slot_of(writer, tokens, at)] = slot;
    const PrefixNode* node = kv_.pages().index().node_with(*page);
    if (writer.as == SharingMark::kAll || !node || node->known != SharingMark::kAll) continue;
    slots_[slot_of({.root = writer.root}, tokens, at)] = slot;
  }
}

// Tokens that all tenants may read have slots of their own.
std::optional<CachedNgramIndex::Match> CachedNgramIndex::find(
    std::span<const TokenId> tokens, const CachedPageReader& reader) const {
  if (tokens.size() < kGram) return std::nullopt;
  auto match = match_at(slots_[slot_of(reader, tokens, tokens.size())], tokens, reader);
  if (match || reader.as == SharingMark::kAll) return match;
  const size_t known_to_all = slot_of({.root = reader.root}, tokens, tokens.size());
  return match_at(slots_[known_to_all], tokens, reader);
}

std::optional<CachedNgramIndex::Match> CachedNgramIndex::match_at(
    const Slot& slot, std::span<const TokenId> tokens, const CachedPageReader& reader) const {
  if (slot.page >= kv_.n_pages()) return std::nullopt;
  const PrefixNode* node = kv_.pages().index().node_with(PageId{slot.page});
  if (!node || slot.offset >= node->tokens.size()) return std::nullopt;
  const Match match{{node, slot.offset}, common_suffix({node, slot.offset}, tokens)};
  if (match.n_matched < kGram || !may_read(*node, reader)) return std::nullopt;
  return match;
}

CachedTokenPosition CachedNgramIndex::next_after(const CachedTokenPosition& place,
                                                 const CachedPageReader& reader) const {
  if (place.offset + 1 < place.node->tokens.size()) return {place.node, place.offset + 1};
  const PrefixNode* newest = nullptr;
  TimePoint used;
  for (const PrefixNode* child : place.node->children) {
    if (!may_hit(reader.as, child->known)) continue;
    for (const auto& page : child->pages) {
      if (!page || (newest && kv_.pages().history(*page).last_used <= used)) continue;
      newest = child;
      used = kv_.pages().history(*page).last_used;
    }
  }
  return {newest, 0};
}

}  // namespace kvik
