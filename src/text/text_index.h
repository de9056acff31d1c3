#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// Text → its number in an array of texts that the caller owns and hands in again at each call.
// Linear probing over eight bytes an entry; at most half of them are taken. Reading: any thread.
class TextIndex {
 public:
  // Room for `n` texts.
  void reserve(size_t n);

  // Adds texts[number], where no equal text is there yet; else gives the number of that one.
  std::optional<uint32_t> insert(const std::vector<std::string>& texts, uint32_t number);

  std::optional<uint32_t> find(const std::vector<std::string>& texts, std::string_view text) const;

 private:
  struct Slot {
    uint32_t hash;
    uint32_t number = kEmpty;
  };
  static constexpr uint32_t kEmpty = ~uint32_t{0};

  // Where `text` is, or the empty slot where it would go.
  size_t slot_of(const std::vector<std::string>& texts, std::string_view text, uint32_t hash) const;

  std::vector<Slot> slots_ = std::vector<Slot>(2);
  size_t n_ = 0;
};

}  // namespace kvik
