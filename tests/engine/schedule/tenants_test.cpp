#include "engine/schedule/tenants.h"

#include <gtest/gtest.h>

namespace kvik {
namespace {

TEST(TenantLedger, has_company_only_while_several_tenants_have_requests) {
  TenantLedger ledger;
  Tenant& a = ledger.enter("a");
  ledger.enter("a");
  EXPECT_FALSE(ledger.has_several_tenants());
  Tenant& b = ledger.enter("b");
  EXPECT_TRUE(ledger.has_several_tenants());
  ledger.leave(a);
  EXPECT_TRUE(ledger.has_several_tenants()) << "one request of a's is left";
  ledger.leave(b);
  EXPECT_FALSE(ledger.has_several_tenants());
  EXPECT_TRUE(ledger.is_shared()) << "b may come back";
  ledger.enter("b");
  EXPECT_TRUE(ledger.has_several_tenants());
}

TEST(TenantLedger, configured_tenants_share_before_they_are_seen) {
  EXPECT_FALSE(TenantLedger(1).is_shared());
  EXPECT_TRUE(TenantLedger(2).is_shared());
}

}  // namespace
}  // namespace kvik
