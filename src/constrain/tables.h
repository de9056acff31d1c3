#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace kvik::constrain {

inline uint64_t hash_words(std::span<const uint32_t> words) {
  uint64_t hash = words.size();
  for (const uint32_t word : words) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29;
  }
  return hash;
}

// A hash index with open addressing. It stores numbers; the caller compares the items.
class HashIndex {
 public:
  // Returns the stored number for which same(number) is true. If there is none, inserts and returns
  // `fresh`.
  template <class Same>
  uint32_t find_or_put(uint64_t hash, uint32_t fresh, const Same& same) {
    if ((n_ + 1) * 2 > slots_.size()) grow();
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[at];
      if (slot.number == kFree) {
        slot = {hash, fresh};
        ++n_;
        return fresh;
      }
      if (slot.hash == hash && same(slot.number)) return slot.number;
    }
  }
  size_t bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  static constexpr uint32_t kFree = ~uint32_t{0};
  struct Slot {
    uint64_t hash = 0;
    uint32_t number = kFree;
  };
  void grow() {
    std::vector<Slot> old(std::max<size_t>(64, slots_.size() * 2));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.number == kFree) continue;
      size_t at = slot.hash & (slots_.size() - 1);
      while (slots_[at].number != kFree) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }
  std::vector<Slot> slots_;
  size_t n_ = 0;
};

// Stores each distinct item once. The size of T is a multiple of four bytes.
template <class T>
struct HashedItems {
  std::vector<T> items;
  HashIndex index;

  uint32_t put(const T& item) {
    static_assert(sizeof(T) % sizeof(uint32_t) == 0);
    std::array<uint32_t, sizeof(T) / sizeof(uint32_t)> words;
    std::memcpy(words.data(), &item, sizeof(T));
    const auto fresh = static_cast<uint32_t>(items.size());
    const uint32_t number =
        index.find_or_put(hash_words(words), fresh, [&](uint32_t i) { return items[i] == item; });
    if (number == fresh) items.push_back(item);
    return number;
  }
  size_t bytes() const { return items.capacity() * sizeof(T) + index.bytes(); }
};

// Stores each distinct list of words once.
struct HashedLists {
  struct Place {
    uint32_t begin, n;
  };
  std::vector<uint32_t> words;
  std::vector<Place> places;
  HashIndex index;

  std::span<const uint32_t> get(uint32_t number) const {
    return std::span(words).subspan(places[number].begin, places[number].n);
  }
  uint32_t put(std::span<const uint32_t> list) {
    const auto fresh = static_cast<uint32_t>(places.size());
    const uint32_t number = index.find_or_put(
        hash_words(list), fresh, [&](uint32_t i) { return std::ranges::equal(get(i), list); });
    if (number == fresh) {
      places.push_back({static_cast<uint32_t>(words.size()), static_cast<uint32_t>(list.size())});
      words.insert(words.end(), list.begin(), list.end());
    }
    return number;
  }
  size_t bytes() const {
    return words.capacity() * sizeof(uint32_t) + places.capacity() * sizeof(Place) + index.bytes();
  }
};

}  // namespace kvik::constrain
