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

// Where a number, a status or an error is expected.
inline constexpr size_t kMaxShortReply = 4096;

// Commands out, replies in, each before a deadline and none longer than what was expected: hiredis
// speaks the protocol, the bytes travel over a socket of ours. After an error it is of no use any
// more. Not for several threads.
class RedisConnection {
 public:
  // Connects, identifies itself and chooses the database. Errors: kIo.
  static Result<std::unique_ptr<RedisConnection>> open(const RedisAddress& address,
                                                       Duration timeout);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Puts a command behind those that wait to be sent.
  void add(std::initializer_list<std::string_view> words);
  // Sends what waits. Errors: kIo.
  Result<void> send(Duration timeout);
  // The next reply, of at most max_bytes; an error that Redis tells is a reply. Errors: kIo,
  // kCorrupt where it is longer.
  Result<RedisReply> receive(size_t max_bytes, Duration timeout);
  // add(), send(), receive().
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
  Result<void> introduce(const RedisAddress& address, Duration timeout);

  std::unique_ptr<Channel> channel_;
  std::string name_;  // for messages
  std::string waiting_;
  std::unique_ptr<redisReader, FreeReader> reader_;
};

}  // namespace kvik
