#pragma once

#include <cstdint>

namespace kvik {

// Sharing of pages among tenants. kAll: every tenant hits every page. kTwo: a page is private to
// the tenant that computed it until a second tenant has computed the same page; then all tenants
// hit it.
enum class Sharing : uint8_t { kAll, kTwo };

// Sharing mark of a page: the tenants that have computed it with the same tokens before it. The
// mark is kNobody (no tenant is known), the hash of one tenant, or kAll (several tenants, so that
// all may hit the page).
//
//   kNobody ──computed by a tenant──▶ that tenant ──computed by another──▶ kAll
//
// The mark is stored with the page in the tiers.
enum class KnownBy : uint64_t { kNobody = 0, kAll = UINT64_MAX };

// Returns the mark of a tenant. A tenant whose hash is one of the two reserved values gets the
// neighboring value.
inline KnownBy known_by(uint64_t tenant) {
  if (tenant == 0) return KnownBy{1};
  return tenant == UINT64_MAX ? KnownBy{UINT64_MAX - 1} : KnownBy{tenant};
}

// Returns the mark of a page that was computed twice, once with each mark.
inline KnownBy joined(KnownBy a, KnownBy b) {
  if (a == KnownBy::kNobody || a == b) return b;
  return b == KnownBy::kNobody ? a : KnownBy::kAll;
}

// Returns whether a reader hits a page. A kAll reader hits every page, a kNobody reader only pages
// that all tenants know.
inline bool may_find(KnownBy reader, KnownBy page) {
  if (reader == KnownBy::kAll || page == KnownBy::kAll) return true;
  return page == reader && page != KnownBy::kNobody;
}

// The tenant for which the index is searched.
struct PageReader {
  uint64_t tenant = 0;
  KnownBy as = KnownBy::kAll;  // hits pages marked kAll and pages with this mark
};

}  // namespace kvik
