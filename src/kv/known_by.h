#pragma once

#include <cstdint>

namespace kvik {

// Who finds what: all find all; or a page is private to the tenant that computed it until a second
// one has computed the same, and from then on found by all.
enum class Sharing : uint8_t { kAll, kTwo };

// Who knows the tokens of a page and all before it, having computed them: nobody that could be told
// apart, one tenant (its hash), or two different ones, and so all.
//
//   kNobody ──computed by a tenant──▶ that tenant ──computed by another──▶ kAll
//
// The mark travels with the page through the tiers.
enum class KnownBy : uint64_t { kNobody = 0, kAll = UINT64_MAX };

// A tenant's own mark. Whose hash is one of the two words above has a neighbour's.
inline KnownBy known_by(uint64_t tenant) {
  if (tenant == 0) return KnownBy{1};
  return tenant == UINT64_MAX ? KnownBy{UINT64_MAX - 1} : KnownBy{tenant};
}

// Of a page that two computed, each as marked.
inline KnownBy joined(KnownBy a, KnownBy b) {
  if (a == KnownBy::kNobody || a == b) return b;
  return b == KnownBy::kNobody ? a : KnownBy::kAll;
}

// Whether a reader finds a page: one of kAll every page, one of kNobody what all know.
inline bool may_find(KnownBy reader, KnownBy page) {
  if (reader == KnownBy::kAll || page == KnownBy::kAll) return true;
  return page == reader && page != KnownBy::kNobody;
}

// On whose behalf the index is searched.
struct PageReader {
  uint64_t tenant = 0;
  KnownBy as = KnownBy::kAll;  // what it finds: what all know, and what is so marked
};

}  // namespace kvik
