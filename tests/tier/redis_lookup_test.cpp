#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "tier/redis_address.h"
#include "tier/redis_connection.h"

namespace {

constexpr std::string_view kSlowHost = "slow.invalid";
constexpr std::chrono::seconds kSlow{3};

}  // namespace

// Replaces the C library's function in this program: a name server that takes its time for one
// name.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** list) {
  const bool is_numeric = hints && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (!is_numeric && node && node == kSlowHost) {
    std::this_thread::sleep_for(kSlow);
    return EAI_AGAIN;
  }
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(node, service, hints, list);
}

namespace kvik {
namespace {

TEST(RedisConnection, a_slow_name_server_is_not_awaited_beyond_the_timeout) {
  const auto address = parse_redis_address("redis://" + std::string(kSlowHost) + ":6379");
  ASSERT_TRUE(address.has_value());
  for (int i = 0; i < 12; ++i) {
    const TimePoint begin = std::chrono::steady_clock::now();
    const auto connection = RedisConnection::open(*address, std::chrono::milliseconds(50));
    ASSERT_FALSE(connection.has_value());
    EXPECT_NE(connection.error().message.find(kSlowHost), std::string::npos);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kSlow / 2);
  }
}

}  // namespace
}  // namespace kvik
