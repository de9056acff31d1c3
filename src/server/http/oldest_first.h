#pragma once

#include <cstdint>
#include <map>

#include "base/clock.h"

namespace kvik {

// A list of objects in the order in which they were added, from which the oldest is removed when
// connections or memory run out. Borrows the objects. Network thread.
template <class T>
class OldestFirst {
 public:
  // Keeps an object in the list during its lifetime.
  class Place {
   public:
    Place(OldestFirst& list, T& one) : list_(list), number_(++list.last_number_) {
      list_.by_age_.emplace(number_, Entry{&one, std::chrono::steady_clock::now()});
    }
    ~Place() { list_.by_age_.erase(number_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    OldestFirst& list_;
    const uint64_t number_;
  };

  // Removes and returns the oldest object that was added before `limit`; null if there is none.
  T* take_oldest(TimePoint limit = TimePoint::max()) {
    const auto oldest = by_age_.begin();
    if (oldest == by_age_.end() || oldest->second.since >= limit) return nullptr;
    T* const one = oldest->second.one;
    by_age_.erase(oldest);
    return one;
  }

 private:
  struct Entry {
    T* one;
    TimePoint since;
  };

  std::map<uint64_t, Entry> by_age_;
  uint64_t last_number_ = 0;
};

}  // namespace kvik
