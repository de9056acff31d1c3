#include "tier/redis_address.h"

#include <gtest/gtest.h>

namespace kvik {
namespace {

TEST(RedisAddress, names_host_port_and_database) {
  const auto address = parse_redis_address("redis://cache.local:6380/3");
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->transport, RedisAddress::Transport::kTcp);
  EXPECT_EQ(address->host, "cache.local");
  EXPECT_EQ(address->port, 6380);
  EXPECT_EQ(address->database, 3u);
  EXPECT_TRUE(address->password.empty());
}

TEST(RedisAddress, has_defaults) {
  const auto address = parse_redis_address("redis://10.0.0.1");
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->port, 6379);
  EXPECT_EQ(address->database, 0u);
}

TEST(RedisAddress, accepts_credentials_and_hides_them_in_messages) {
  const auto address = parse_redis_address("rediss://kvik:s3cr@et@[::1]:7000");
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->transport, RedisAddress::Transport::kTls);
  EXPECT_EQ(address->user, "kvik");
  EXPECT_EQ(address->password, "s3cr@et");
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->printable(), "rediss://::1:7000/0");
  const auto other = parse_redis_address("redis://:secret@host");
  ASSERT_TRUE(other.has_value());
  EXPECT_TRUE(other->user.empty());
  EXPECT_EQ(other->password, "secret");
}

TEST(RedisAddress, may_be_a_socket_of_this_machine) {
  const auto address = parse_redis_address("unix:///run/redis.sock?db=2");
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->transport, RedisAddress::Transport::kUnix);
  EXPECT_EQ(address->host, "/run/redis.sock");
  EXPECT_EQ(address->database, 2u);
}

TEST(RedisAddress, reports_what_is_wrong_with_an_address) {
  for (const char* url :
       {"", "localhost:6379", "http://host", "redis://", "redis://:6379", "redis://host:0",
        "redis://host:70000", "redis://host:x", "redis://host/one", "redis://[::1",
        "redis://[::1]7", "unix://relative", "unix:///path?x=1", "unix:///path?db=x"}) {
    const auto address = parse_redis_address(url);
    ASSERT_FALSE(address.has_value()) << url;
    EXPECT_EQ(address.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(address.error().message.find("expected redis://"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvik
