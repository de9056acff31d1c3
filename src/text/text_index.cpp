#include "text/text_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "text/text_hash.h"

namespace kvik {

void TextIndex::reserve(size_t n) {
  const size_t n_slots = std::bit_ceil(std::max<size_t>(2 * n, 2));
  if (n_slots <= slots_.size()) return;
  std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(n_slots));
  for (const Slot& slot : old) {
    if (slot.number == kEmpty) continue;
    size_t i = slot.hash & (n_slots - 1);
    while (slots_[i].number != kEmpty) i = (i + 1) & (n_slots - 1);
    slots_[i] = slot;
  }
}

size_t TextIndex::slot_of(const std::vector<std::string>& texts, std::string_view text,
                          uint32_t hash) const {
  size_t i = hash & (slots_.size() - 1);
  for (; slots_[i].number != kEmpty; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].hash == hash && texts[slots_[i].number] == text) break;
  }
  return i;
}

std::optional<uint32_t> TextIndex::insert(const std::vector<std::string>& texts, uint32_t number) {
  reserve(n_ + 1);
  const auto hash = static_cast<uint32_t>(hash_text(texts[number]));
  Slot& slot = slots_[slot_of(texts, texts[number], hash)];
  if (slot.number != kEmpty) return slot.number;
  slot = {hash, number};
  ++n_;
  return std::nullopt;
}

std::optional<uint32_t> TextIndex::find(const std::vector<std::string>& texts,
                                        std::string_view text) const {
  const Slot& slot = slots_[slot_of(texts, text, static_cast<uint32_t>(hash_text(text)))];
  return slot.number == kEmpty ? std::nullopt : std::optional(slot.number);
}

}  // namespace kvik
