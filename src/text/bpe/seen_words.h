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

// Caches the ids of words that occurred earlier in the same text: words repeat, and copying ids is
// many times faster than merging bytes. Memory grows with the text up to 1 MiB; then new words
// replace old ones. Not thread-safe.
class SeenWords {
 public:
  // `text` is shorter than 4 GiB; the ids of its words are appended to `ids`.
  SeenWords(std::string_view text, std::vector<TokenId>& ids)
      : text_(text),
        ids_(ids),
        from_(ids.size()),
        slots_(std::bit_ceil(std::clamp(text.size() / 16, kProbes, kMaxSlots))) {}

  // Appends the ids of `word`, a non-empty part of the text: copied if the word is cached,
  // otherwise appended by encode(word).
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
    // Records the latest occurrence, because earlier ones are no longer in the processor's caches.
    slot.word = static_cast<uint32_t>(word.data() - text_.data());
    slot.ids = static_cast<uint32_t>(begin - from_);
  }

 private:
  static constexpr size_t kMaxWordBytes = 48;  // longer words are rarely repeated
  static constexpr size_t kMaxWordIds = 255;
  static constexpr size_t kMaxSlots = size_t{1} << 16;
  static constexpr size_t kProbes = 4;

  struct Slot {
    uint32_t hash;
    uint32_t word;           // its offset in the text
    uint32_t ids;            // their offset in the output
    uint8_t word_bytes = 0;  // 0: empty
    uint8_t n_ids;
  };

  // The slot of `word`, or an empty slot for it.
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
