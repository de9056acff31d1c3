#include "engine/encode/encode_queue.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace kvik {
namespace {

using Scope = Request::PriorityScope;

struct JobOptions {
  std::string tenant = "";
  uint32_t n_tokens = 10;
  int32_t priority = 0;
  Scope ranks = Scope::kOwnTenant;
};

QueuedRequest job(uint64_t id, const JobOptions& options = {}) {
  QueuedRequest made;
  made.id = RequestId{id};
  made.request.prompt.resize(options.n_tokens);
  made.request.tenant = options.tenant;
  made.request.priority = options.priority;
  made.request.ranks = options.ranks;
  return made;
}

std::vector<uint64_t> ids_of(const std::vector<QueuedRequest>& jobs) {
  std::vector<uint64_t> ids;
  for (const QueuedRequest& one : jobs) ids.push_back(static_cast<uint64_t>(one.id));
  return ids;
}

using Ids = std::vector<uint64_t>;

TEST(EncodeQueue, requests_of_one_tenant_come_in_the_order_of_arrival) {
  EncodeQueue queue;
  for (uint64_t id = 1; id <= 4; ++id) queue.add(job(id));
  EXPECT_EQ(queue.n_tokens(), 40u);
  EXPECT_EQ(ids_of(queue.take_batch(100, 3)), (Ids{1, 2, 3}));
  EXPECT_EQ(queue.n_jobs(), 1u);
  EXPECT_EQ(ids_of(queue.take_batch(100, 3)), (Ids{4}));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.n_tokens(), 0u);
}

TEST(EncodeQueue, a_batch_has_at_most_n_rows_and_nothing_overtakes_a_long_text) {
  EncodeQueue queue;
  queue.add(job(1, {.n_tokens = 30}));
  queue.add(job(2, {.n_tokens = 90}));
  queue.add(job(3, {.n_tokens = 10}));
  EXPECT_EQ(ids_of(queue.take_batch(100, 8)), (Ids{1}));
  EXPECT_EQ(ids_of(queue.take_batch(100, 8)), (Ids{2, 3}));
}

TEST(EncodeQueue, tenants_share_the_rows_of_a_batch) {
  EncodeQueue queue;
  for (uint64_t id = 1; id <= 6; ++id) queue.add(job(id, {.tenant = "busy"}));
  queue.add(job(7, {.tenant = "other"}));
  queue.add(job(8, {.tenant = "other"}));
  EXPECT_EQ(ids_of(queue.take_batch(40, 8)), (Ids{1, 7, 2, 8}));
}

TEST(EncodeQueue, a_tenant_that_comes_back_has_saved_up_nothing) {
  EncodeQueue queue;
  for (uint64_t id = 1; id <= 6; ++id) queue.add(job(id, {.tenant = "busy"}));
  queue.take_batch(30, 8);
  for (uint64_t id = 7; id <= 9; ++id) queue.add(job(id, {.tenant = "idle"}));
  EXPECT_EQ(ids_of(queue.take_batch(40, 8)), (Ids{4, 7, 5, 8}));
}

TEST(EncodeQueue, priorities_count_within_a_tenant_or_among_all) {
  EncodeQueue own;
  own.add(job(1, {.tenant = "a"}));
  own.add(job(2, {.tenant = "a", .priority = -1}));
  own.add(job(3, {.tenant = "b", .priority = 5}));
  EXPECT_EQ(ids_of(own.take_batch(100, 8)), (Ids{2, 3, 1}));
  EncodeQueue all;
  all.add(job(1, {.tenant = "a", .priority = 5, .ranks = Scope::kAllTenants}));
  all.add(job(2, {.tenant = "b", .priority = 6, .ranks = Scope::kAllTenants}));
  all.add(job(3, {.tenant = "a", .priority = 5, .ranks = Scope::kAllTenants}));
  EXPECT_EQ(ids_of(all.take_batch(100, 8)), (Ids{1, 3, 2}));
}

TEST(EncodeQueue, a_removed_request_is_in_no_batch) {
  EncodeQueue queue;
  queue.add(job(1));
  queue.add(job(2));
  EXPECT_EQ(queue.remove(RequestId{1})->id, RequestId{1});
  EXPECT_FALSE(queue.remove(RequestId{1}).has_value());
  EXPECT_EQ(queue.n_tokens(), 10u);
  EXPECT_EQ(ids_of(queue.take_all()), (Ids{2}));
}

}  // namespace
}  // namespace kvik
