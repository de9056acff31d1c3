#pragma once

#include <cstdint>

namespace kvik {

// Sharing of pages among tenants. kAll: every tenant hits every page. kTwo: a page is private to
// the tenant that computed it until a second tenant has computed the same page; then all tenants
// hit it.
enum class Sharing : uint8_t { kAll, kTwo };

// Sharing mark of a page: the tenants that have computed it with the same tokens before it. The
// mark is kNoTenant (no tenant is known), the hash of one tenant, or kAll (several tenants, so that
// all may hit the page).
//
//   kNoTenant ──computed by a tenant──▶ that tenant ──computed by another──▶ kAll
//
// The mark is stored with the page in the tiers.
enum class SharingMark : uint64_t { kNoTenant = 0, kAll = UINT64_MAX };

// Returns the mark of a tenant. A tenant whose hash is one of the two reserved values gets the
// neighboring value.
inline SharingMark mark_of_tenant(uint64_t tenant) {
  if (tenant == 0) return SharingMark{1};
  return tenant == UINT64_MAX ? SharingMark{UINT64_MAX - 1} : SharingMark{tenant};
}

// Returns the mark of a page that was computed twice, once with each mark.
inline SharingMark joined(SharingMark a, SharingMark b) {
  if (a == SharingMark::kNoTenant || a == b) return b;
  return b == SharingMark::kNoTenant ? a : SharingMark::kAll;
}

// Returns whether a reader hits a page. A kAll reader hits every page, a kNoTenant reader only
// pages that all tenants know.
inline bool may_hit(SharingMark reader, SharingMark page) {
  if (reader == SharingMark::kAll || page == SharingMark::kAll) return true;
  return page == reader && page != SharingMark::kNoTenant;
}

// The tenant for which the index is searched.
struct PageReader {
  uint64_t tenant = 0;
  SharingMark as = SharingMark::kAll;  // hits pages marked kAll and pages with this mark
};

}  // namespace kvik
