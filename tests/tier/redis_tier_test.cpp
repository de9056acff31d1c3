#include "tier/redis_tier.h"

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "support/redis_process.h"
#include "tier/page_record.h"
#include "tier/stored_pages.h"

namespace kvik {
namespace {

constexpr size_t kPageBytes = 5000;
const PageKey kRoot = root_key("a model", "");

RedisTierOptions options_of(const RedisAddress& address) {
  return {.address = address,
          .name_space = "kvik:test",
          .timeout = std::chrono::seconds(5),
          .retry_after = std::chrono::milliseconds(1)};
}

std::string page_name(const TierPage& page) {
  return "kvik:test:page:" + to_hex(page.key.bytes) + ":" + std::to_string(page.group);
}
std::string next_name(const TierPage& page) {
  return "kvik:test:next:" + to_hex(page.parent.bytes) + ":" + std::to_string(page.group);
}

// Sends a command to Redis without the tier.
void tell(const RedisProcess& redis, std::initializer_list<std::string_view> words) {
  auto connection = RedisConnection::open(redis.address(), std::chrono::seconds(5));
  ASSERT_TRUE(connection.has_value());
  const auto reply = (*connection)->ask(words, 1 << 20, std::chrono::seconds(5));
  ASSERT_TRUE(reply.has_value());
  ASSERT_NE((*reply)->type, REDIS_REPLY_ERROR) << (*reply)->str;
}

TEST(RedisTier, gives_one_server_what_another_one_put) {
  const RedisProcess redis;
  RedisTier one(options_of(redis.address()));
  RedisTier other(options_of(redis.address()));
  const auto pages = chain_of_pages(kRoot, 330, 1, kPageBytes);
  EXPECT_EQ(n_found(other, pages), 0u);
  ASSERT_TRUE(store(one, pages).has_value());
  ASSERT_TRUE(store(other, pages).has_value());
  EXPECT_EQ(n_found(other, pages), 11u);
  ASSERT_TRUE(other.tidy_up().has_value());
  EXPECT_EQ(other.size().n_pages, 22u) << "a page, and its entry in the parent's list";
  EXPECT_GT(other.size().n_bytes, 11 * kPageBytes);
}

TEST(RedisTier, a_child_that_redis_evicted_is_forgotten) {
  const RedisProcess redis;
  RedisTier tier(options_of(redis.address()));
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  tell(redis, {"DEL", page_name(pages[0].page)});
  EXPECT_EQ(tier.children(kRoot, 0, SharingMark::kAll, 10).size(), 1u);
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kAbsent);
  EXPECT_EQ(tier.children(kRoot, 0, SharingMark::kAll, 10).size(), 0u);
}

TEST(RedisTier, a_foreign_value_is_a_miss_and_is_replaced) {
  const RedisProcess redis;
  RedisTier tier(options_of(redis.address()));
  const auto pages = chain_of_pages(kRoot, 64, 1, kPageBytes);
  const std::string name = page_name(pages[0].page);
  const auto with = [&](std::initializer_list<std::string_view> words) {
    tell(redis, {"FLUSHALL"});
    ASSERT_TRUE(store(tier, pages).has_value());
    if (words.begin()[0] == "RPUSH" || words.begin()[0] == "COPY") tell(redis, {"DEL", name});
    tell(redis, words);
    EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kDamaged);
    EXPECT_EQ(look_up(tier, pages[1]), Tier::Get::kFound) << "the connection is in order";
    ASSERT_TRUE(store(tier, pages).has_value());
    EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kFound);
  };
  with({"SET", name, "garbage"});
  with({"RPUSH", name, "a list"});
  with({"APPEND", name, "one byte more"});
  with({"SETRANGE", name, "2000", "torn"});
  with({"SETRANGE", name, "100000000", "long"});
  with({"COPY", page_name(pages[1].page), name});
}

TEST(RedisTier, a_forged_mark_gives_no_access_in_redis) {
  const RedisProcess redis;
  RedisTierOptions options = options_of(redis.address());
  options.mark_key = "secret";
  RedisTier tier(options);
  auto pages = chain_of_pages(kRoot, 64, 1, kPageBytes);
  for (StoredPage& page : pages) page.page.known = SharingMark{7};
  ASSERT_TRUE(store(tier, pages).has_value());
  EXPECT_EQ(look_up(tier, pages[0], SharingMark{7}), Tier::Get::kFound);
  auto forged = pages;
  for (StoredPage& page : forged) page.page.known = SharingMark::kAll;
  tell(redis, {"FLUSHALL"});
  RedisTier attacker(options_of(redis.address()));  // writes correct checksums without the key
  ASSERT_TRUE(store(attacker, forged).has_value());
  EXPECT_EQ(look_up(tier, pages[0], SharingMark{8}), Tier::Get::kAbsent);
  EXPECT_TRUE(tier.children(kRoot, 0, SharingMark{8}, 10).empty());
  EXPECT_EQ(look_up(tier, pages[0], SharingMark::kAll), Tier::Get::kFound) << "where all share";
  ASSERT_TRUE(store(tier, pages).has_value());
  EXPECT_EQ(look_up(tier, pages[0], SharingMark{7}), Tier::Get::kFound) << "it was written again";
  EXPECT_EQ(look_up(tier, pages[0], SharingMark{8}), Tier::Get::kAbsent);
}

TEST(RedisTier, servers_of_one_key_file_join_their_marks) {
  const RedisProcess redis;
  RedisTierOptions options = options_of(redis.address());
  options.mark_key = "secret";
  RedisTier one(options), other(options);
  auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  pages[0].page.known = SharingMark{7};
  ASSERT_TRUE(store(one, pages).has_value());
  pages[0].page.known = SharingMark{8};
  ASSERT_TRUE(store(other, pages).has_value());
  EXPECT_EQ(look_up(one, pages[0], SharingMark{9}), Tier::Get::kFound) << "two computed it";
}

TEST(RedisTier, children_that_make_no_sense_are_none) {
  const RedisProcess redis;
  RedisTier tier(options_of(redis.address()));
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  const std::string name = next_name(pages[0].page);
  tell(redis, {"SADD", name, "x", std::string(100, 'x'), std::string(200, 'y')});
  EXPECT_EQ(tier.children(kRoot, 0, SharingMark::kAll, 10).size(), 1u);
  tell(redis, {"DEL", name});
  tell(redis, {"SET", name, "no set"});
  EXPECT_TRUE(tier.children(kRoot, 0, SharingMark::kAll, 10).empty());
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kFound);
  tell(redis, {"SADD", name, std::string(50000, 'z')});
  EXPECT_TRUE(tier.children(kRoot, 0, SharingMark::kAll, 10).empty());
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kFound) << "it goes on at once";
  ASSERT_TRUE(store(tier, pages).has_value());
  EXPECT_EQ(tier.children(kRoot, 0, SharingMark::kAll, 10).size(), 1u) << "in a set of its own";
}

TEST(RedisTier, a_full_redis_is_an_error_that_passes) {
  const RedisProcess redis;
  RedisTier tier(options_of(redis.address()));
  const auto pages = chain_of_pages(kRoot, 64, 1, kPageBytes);
  tell(redis, {"CONFIG", "SET", "maxmemory", "1"});
  const auto done = store(tier, pages);
  ASSERT_FALSE(done.has_value());
  EXPECT_NE(done.error().message.find("OOM"), std::string::npos) << done.error().message;
  tell(redis, {"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_TRUE(tier.recover().has_value());
  EXPECT_TRUE(store(tier, pages).has_value());
  EXPECT_EQ(n_found(tier, pages), 2u);
}

TEST(RedisTier, a_redis_that_hangs_times_out) {
  RedisProcess redis;
  auto options = options_of(redis.address());
  options.timeout = std::chrono::milliseconds(50);
  RedisTier tier(options);
  const auto pages = chain_of_pages(kRoot, 64, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  redis.suspend();
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kFailed);
  EXPECT_TRUE(tier.children(kRoot, 0, SharingMark::kAll, 10).empty());
  EXPECT_FALSE(store(tier, pages).has_value());
  redis.go_on();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(tier.recover().has_value());
  EXPECT_EQ(n_found(tier, pages), 2u) << "and no late answer is taken for another's";
}

TEST(RedisTier, is_read_again_although_readers_do_not_pause) {
  RedisProcess redis;
  auto options = options_of(redis.address());
  options.timeout = std::chrono::milliseconds(50);
  options.retry_after = std::chrono::milliseconds(200);
  RedisTier tier(options);
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  redis.suspend();
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kFailed);
  redis.go_on();
  Tier::Get got = Tier::Get::kFailed;
  for (int i = 0; i < 1000 && got != Tier::Get::kFound; ++i) {
    got = look_up(tier, pages[0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(got, Tier::Get::kFound);
}

TEST(RedisTier, a_redis_that_died_and_came_back_empty_is_filled_again) {
  auto redis = std::make_unique<RedisProcess>();
  RedisTier tier(options_of(redis->address()));
  const auto pages = chain_of_pages(kRoot, 64, 1, kPageBytes);
  ASSERT_TRUE(store(tier, pages).has_value());
  redis->stop();
  EXPECT_EQ(look_up(tier, pages[0]), Tier::Get::kFailed);
  EXPECT_FALSE(store(tier, pages).has_value());
  EXPECT_FALSE(tier.recover().has_value());
}

TEST(RedisTier, authenticates_with_the_password) {
  const RedisProcess redis;
  tell(redis, {"CONFIG", "SET", "requirepass", "secret"});
  RedisTier without_password(options_of(redis.address()));
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  const auto done = store(without_password, pages);
  ASSERT_FALSE(done.has_value());
  EXPECT_NE(done.error().message.find("NOAUTH"), std::string::npos) << done.error().message;
  auto options = options_of(redis.address());
  options.address.password = "secret";
  RedisTier with_password(options);
  EXPECT_TRUE(store(with_password, pages).has_value());
  EXPECT_EQ(n_found(with_password, pages), 1u);
}

// A server on a socket that sends these answers, one for each command, and then the last one again.
class FixedAnswerServer {
 public:
  explicit FixedAnswerServer(std::vector<std::string> answers) : answers_(std::move(answers)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    fd_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    CHECK(::listen(fd_, 8) == 0);
    thread_ = std::thread([this] { send_answers(); });
  }
  ~FixedAnswerServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  RedisAddress address() const {
    return {
        .transport = RedisAddress::Transport::kUnix, .host = path(), .user = {}, .password = {}};
  }

 private:
  std::string path() const { return folder_.path() + "/socket"; }
  void send_answers() {
    for (size_t i = 0; true;) {
      const int fd = ::accept(fd_, nullptr, nullptr);
      if (fd < 0) return;
      char received[4096];
      // The selection of the database succeeds; the tier must handle all later answers.
      if (::recv(fd, received, sizeof(received), 0) > 0) ::send(fd, "+OK\r\n", 5, MSG_NOSIGNAL);
      while (::recv(fd, received, sizeof(received), 0) > 0) {
        const std::string& answer = answers_[std::min(i++, answers_.size() - 1)];
        if (::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) <= 0) break;
      }
      ::close(fd);
    }
  }
  TemporaryFolder folder_;
  std::vector<std::string> answers_;
  int fd_ = -1;
  std::thread thread_;
};

TEST(RedisTier, a_page_that_was_damaged_on_the_way_is_read_again) {
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  const StoredPage& page = pages[0];
  std::vector<std::byte> record(kRecordHeadBytes + kPageBytes);
  std::ranges::copy(page.bytes, record.begin() + kRecordHeadBytes);
  write_record_head(page.page, kPageBytes, record, "");
  std::string intact(reinterpret_cast<const char*>(record.data()), record.size());
  std::string damaged = intact;
  damaged.back() ^= 1;
  for (std::string* value : {&intact, &damaged})
    *value = "$" + std::to_string(value->size()) + "\r\n" + *value + "\r\n";
  const FixedAnswerServer server({damaged, intact});
  RedisTier tier(options_of(server.address()));
  EXPECT_EQ(look_up(tier, page), Tier::Get::kFound);
}

TEST(RedisTier, malicious_answers_are_rejected_in_bounded_memory) {
  const auto pages = chain_of_pages(kRoot, 32, 1, kPageBytes);
  for (const std::string& answer :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("*2147483647\r\n"),
        std::string("$-2\r\n"), std::string("$99999999999\r\n"),
        std::string("$5000000\r\n") + std::string(1 << 20, 'x'), std::string("+OK\r\n"),
        std::string(":7\r\n"), std::string("*1\r\n*1\r\n*99999999\r\n"),
        std::string("*2\r\n:1\r\n$1\r\nx\r\n"), std::string("-ERR no\r\n"),
        std::string("-LOADING\r\n"), std::string("\0\0\0\r\n", 5), std::string("$-1\r\n")}) {
    const FixedAnswerServer server({answer});
    auto options = options_of(server.address());
    options.timeout = std::chrono::milliseconds(100);
    RedisTier tier(options);
    EXPECT_NE(look_up(tier, pages[0]), Tier::Get::kFound);
    EXPECT_TRUE(tier.children(kRoot, 0, SharingMark::kAll, 10).empty());
    static_cast<void>(store(tier, pages));
    static_cast<void>(tier.recover());
    static_cast<void>(tier.tidy_up());
  }
}

}  // namespace
}  // namespace kvik
