#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "tier/redis_address.h"

struct redisReader;
struct redisReply;

namespace kvik {

struct FreeRedisReply {
  void operator()(redisReply* reply) const;
};
using RedisReply = std::unique_ptr<redisReply, FreeRedisReply>;

// Maximum length where a number, a status or an error is expected.
inline constexpr size_t kMaxShortReply = 4096;

// Sends commands and receives replies, each before a deadline and with a bounded length. hiredis
// implements the protocol; the bytes are transferred over our own socket. Unusable after an error.
// Not thread-safe.
class RedisConnection {
 public:
  // Connects, authenticates and selects the database. The timeout does not bound the resolution of
  // the host name. Errors: kIo.
  static Result<std::unique_ptr<RedisConnection>> open(const RedisAddress& address,
                                                       Duration timeout);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Appends a command to those that wait to be sent.
  void add(std::initializer_list<std::string_view> words);
  // Sends the waiting commands. Errors: kIo.
  Result<void> send(Duration timeout);
  // Receives the next reply, of at most max_bytes. An error that Redis reports is a reply. Errors:
  // kIo, kCorrupt if the reply is longer.
  Result<RedisReply> receive(size_t max_bytes, Duration timeout);
  // Calls add(), send() and receive().
  Result<RedisReply> ask(std::initializer_list<std::string_view> words, size_t max_bytes,
                         Duration timeout);

 private:
  class Channel;
  class PlainChannel;
  class TlsChannel;
  struct FreeReader {
    void operator()(redisReader* reader) const;
  };

  RedisConnection(std::unique_ptr<Channel> channel, std::string name);
  static Result<std::unique_ptr<Channel>> connect(const RedisAddress& address, TimePoint deadline);
  Result<void> authenticate(const RedisAddress& address, Duration timeout);

  std::unique_ptr<Channel> channel_;
  std::string name_;  // for messages
  std::string waiting_;
  std::unique_ptr<redisReader, FreeReader> reader_;
};

}  // namespace kvik
