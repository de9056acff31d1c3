#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// Maps a text to its index in an array of texts, which the caller owns and passes to each call.
// Uses linear probing with eight bytes per slot, at most half full. Reading is thread-safe.
class TextIndex {
 public:
  // Reserves memory for `n` texts.
  void reserve(size_t n);

  // Adds texts[number]. If an equal text exists, adds nothing and returns its index.
  std::optional<uint32_t> insert(const std::vector<std::string>& texts, uint32_t number);

  // Returns the index of a text; std::nullopt if it was not added.
  std::optional<uint32_t> find(const std::vector<std::string>& texts, std::string_view text) const;

 private:
  struct Slot {
    uint32_t hash;
    uint32_t number = kEmpty;
  };
  static constexpr uint32_t kEmpty = ~uint32_t{0};

  // Returns the slot of `text`, or the empty slot for it.
  size_t slot_of(const std::vector<std::string>& texts, std::string_view text, uint32_t hash) const;

  std::vector<Slot> slots_ = std::vector<Slot>(2);
  size_t n_ = 0;
};

}  // namespace kvik
