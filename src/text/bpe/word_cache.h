#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "text/text_hash.h"

namespace kvik {

// Caches the ids of words that occurred earlier in the same text. Words repeat, and copying ids is
// many times faster than merging bytes. The cache grows with the text up to 1 MiB; then new words
// replace old ones. Not thread-safe.
class WordCache {
 public:
  // `text` is shorter than 4 GiB. The ids of its words are appended to `ids`.
  WordCache(std::string_view text, std::vector<TokenId>& ids)
      : text_(text),
        ids_(ids),
        from_(ids.size()),
        slots_(std::bit_ceil(std::clamp(text.size() / 16, kProbes, kMaxSlots))) {}

  // Appends the ids of `word`, a non-empty part of the text. Copies them if the word is cached,
  // otherwise calls encode(word), which appends them.
  template <class Encode>
  void append(std::string_view word, const Encode& encode) {
    if (word.size() > kMaxWordBytes) {
      encode(word);
      return;
    }
    const auto hash = static_cast<uint32_t>(hash_text(word));
    Slot& slot = find(word, hash);
    const size_t begin = ids_.size();
    if (slot.word_bytes > 0) {
      const size_t old = from_ + slot.ids;
      for (size_t i = 0; i < slot.n_ids; ++i) ids_.push_back(ids_[old + i]);
    } else {
      encode(word);
      if (ids_.size() - begin > kMaxWordIds) return;
      slot.hash = hash;
      slot.word_bytes = static_cast<uint8_t>(word.size());
      slot.n_ids = static_cast<uint8_t>(ids_.size() - begin);
    }
    // Stores the latest occurrence, because earlier ones may have left the processor's caches.
    slot.word = static_cast<uint32_t>(word.data() - text_.data());
    slot.ids = static_cast<uint32_t>(begin - from_);
  }

 private:
  static constexpr size_t kMaxWordBytes = 48;  // longer words rarely repeat
  static constexpr size_t kMaxWordIds = 255;
  static constexpr size_t kMaxSlots = size_t{1} << 16;
  static constexpr size_t kProbes = 4;

  struct Slot {
    uint32_t hash;
    uint32_t word;           // offset of the word in the text
    uint32_t ids;            // offset of its ids in the output
    uint8_t word_bytes = 0;  // 0: the slot is empty
    uint8_t n_ids;
  };

  // Returns the slot of `word`, or a slot that may be filled with it.
  Slot& find(std::string_view word, uint32_t hash) {
    for (size_t i = 0; i < kProbes; ++i) {
      Slot& slot = slots_[(hash + i) & (slots_.size() - 1)];
      if (slot.word_bytes == 0) return slot;
      const bool is_same = slot.hash == hash && slot.word_bytes == word.size() &&
                           std::memcmp(text_.data() + slot.word, word.data(), word.size()) == 0;
      if (is_same) return slot;
    }
    Slot& slot = slots_[hash & (slots_.size() - 1)];
    slot.word_bytes = 0;
    return slot;
  }

  std::string_view text_;
  std::vector<TokenId>& ids_;
  const size_t from_;
  std::vector<Slot> slots_;
};

}  // namespace kvik
