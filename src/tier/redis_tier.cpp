#include "tier/redis_tier.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/hash.h"
#include "tensor/kv_type.h"
#include "tier/page_record.h"

namespace kvik {
namespace {

constexpr size_t kMaxInfoReply = 64 * 1024;
constexpr size_t kMaxMember = sizeof(PageKey) + kPageTokens * sizeof(TokenId);
constexpr std::chrono::seconds kSizeEvery{10};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view text_of(const redisReply& reply) { return {reply.str, reply.len}; }

// Returns the entry of a child in its parent's set: its key, then its token ids in little endian.
std::string member_of(const PageKey& key, std::span<const TokenId> tokens) {
  std::string member(as_text(key.bytes));
  for (const TokenId token : tokens) {
    for (size_t i = 0; i < sizeof(TokenId); ++i)
      member.push_back(static_cast<char>(token >> (8 * i)));
  }
  return member;
}

std::optional<Tier::Child> child_of(std::string_view member) {
  if (member.size() <= sizeof(PageKey) || member.size() > kMaxMember) return std::nullopt;
  Tier::Child child;
  std::memcpy(child.key.bytes.data(), member.data(), sizeof(PageKey));
  member.remove_prefix(sizeof(PageKey));
  if (member.size() % sizeof(TokenId) != 0) return std::nullopt;
  for (size_t at = 0; at < member.size(); at += sizeof(TokenId)) {
    TokenId token = 0;
    for (size_t i = 0; i < sizeof(TokenId); ++i) {
      token |= static_cast<TokenId>(static_cast<unsigned char>(member[at + i])) << (8 * i);
    }
    child.tokens.push_back(token);
  }
  return child;
}

// Returns the number that follows `name:` in the output of INFO; 0 if there is none.
uint64_t number_in(std::string_view info, std::string_view name) {
  const size_t at = info.find(fmt::format("\n{}:", name));
  if (at == std::string_view::npos) return 0;
  uint64_t value = 0;
  const char* begin = info.data() + at + name.size() + 2;
  std::from_chars(begin, info.data() + info.size(), value);
  return value;
}

}  // namespace

RedisTier::RedisTier(RedisTierOptions options) : options_(std::move(options)) {}
RedisTier::~RedisTier() = default;

size_t RedisTier::head_bytes() const { return kRecordHeadBytes; }
size_t RedisTier::slot_bytes(size_t n_page_bytes) const { return kRecordHeadBytes + n_page_bytes; }

std::string RedisTier::page_name(const PageKey& key, uint32_t group) const {
  return fmt::format("{}:page:{}:{}", options_.name_space, to_hex(key.bytes), group);
}
std::string RedisTier::next_name(const PageKey& parent, uint32_t group) const {
  return fmt::format("{}:next:{}:{}", options_.name_space, to_hex(parent.bytes), group);
}

Result<RedisConnection*> RedisTier::connected(Line& line) const {
  if (line.connection) return line.connection.get();
  if (std::chrono::steady_clock::now() < line.closed_until) {
    return fail(ErrorCode::kIo, fmt::format("{} is unreachable", options_.address.printable()));
  }
  auto connection = RedisConnection::open(options_.address, options_.timeout);
  if (!connection) return std::unexpected<Error>(lost(line, connection.error()));
  line.connection = std::move(*connection);
  return line.connection.get();
}

// Closes a connection after an incomplete exchange: its next reply would belong to another command.
// Failures during the pause do not make it longer.
Error RedisTier::lost(Line& line, const Error& error) const {
  if (!line.connection && std::chrono::steady_clock::now() < line.closed_until) return error;
  line.connection.reset();
  line.closed_until = std::chrono::steady_clock::now() + options_.retry_after;
  return error;
}

// --- reading ---

Tier::Get RedisTier::get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot,
                         size_t n_bytes) {
  const MutexLock lock(read_mutex_);
  const auto got = try_get(wanted, reader, slot, n_bytes);
  if (got) return *got;
  lost(reading_, got.error());
  return Get::kFailed;
}

// Returns whether the reader may hit a page, by the mark in its head. A value that is not a page
// counts as visible, and is found out when it is read.
Result<bool> RedisTier::is_for(const std::string& name, SharingMark reader) {
  if (reader == SharingMark::kAll) return true;
  static const std::string end = std::to_string(kRecordHeadBytes - 1);
  TRY_ASSIGN(const RedisReply reply, reading_.connection->ask({"GETRANGE", name, "0", end},
                                                              kMaxShortReply, options_.timeout));
  if (reply->type != REDIS_REPLY_STRING) return true;
  const auto head =
      read_record_head(std::as_bytes(std::span(reply->str, reply->len)), options_.mark_key);
  return !head || may_hit(reader, head->page.known);
}

// The contents are requested only if the reader may hit the page, so that the time taken reveals
// nothing. A value that fails a check is read twice before it is removed for all servers: it may
// have been damaged on the way.
Result<Tier::Get> RedisTier::try_get(TierPage& wanted, SharingMark reader,
                                     std::span<std::byte> slot, size_t n_bytes) {
  TRY_ASSIGN(RedisConnection* const redis, connected(reading_));
  const std::string name = page_name(wanted.key, wanted.group);
  TRY_ASSIGN(const bool is_ours, is_for(name, reader));
  if (!is_ours) return Get::kAbsent;
  TRY_ASSIGN(Get got, read_value(*redis, name, wanted, reader, slot, n_bytes));
  if (got == Get::kDamaged) {
    TRY_ASSIGN(got, read_value(*redis, name, wanted, reader, slot, n_bytes));
  }
  if (got == Get::kDamaged) {
    TRY(redis->ask({"UNLINK", name}, kMaxShortReply, options_.timeout));
  }
  return got;
}

Result<Tier::Get> RedisTier::read_value(RedisConnection& redis, const std::string& name,
                                        TierPage& wanted, SharingMark reader,
                                        std::span<std::byte> slot, size_t n_bytes) {
  const size_t record_bytes = slot_bytes(n_bytes);
  // Requesting one byte more than expected detects a value that is too long.
  TRY_ASSIGN(const RedisReply reply,
             redis.ask({"GETRANGE", name, "0", std::to_string(record_bytes)}, record_bytes + 1,
                       options_.timeout));
  if (reply->type == REDIS_REPLY_STRING && reply->len == 0) {
    const std::string member = member_of(wanted.key, wanted.tokens);
    if (listed_children_.erase(member) == 0) return Get::kAbsent;
    TRY(redis.ask({"SREM", next_name(wanted.parent, wanted.group), member}, kMaxShortReply,
                  options_.timeout));
    return Get::kAbsent;
  }
  const bool is_wrong_type =
      reply->type == REDIS_REPLY_ERROR && text_of(*reply).starts_with("WRONGTYPE");
  if (reply->type != REDIS_REPLY_STRING && !is_wrong_type) {
    return fail(ErrorCode::kIo, "unexpected reply from Redis, expected a page");
  }
  if (is_wrong_type || reply->len != record_bytes) return Get::kDamaged;
  std::memcpy(slot.data(), reply->str, record_bytes);
  const auto record = read_record(slot.first(record_bytes), options_.mark_key);
  if (!record || record->page != wanted || record->n_bytes != n_bytes) return Get::kDamaged;
  wanted.known = record->page.known;
  return may_hit(reader, wanted.known) ? Get::kFound : Get::kAbsent;
}

std::vector<Tier::Child> RedisTier::children(const PageKey& parent, uint32_t group,
                                             SharingMark reader, size_t limit) {
  const MutexLock lock(read_mutex_);
  auto found = try_children(parent, group, limit);
  if (found) {
    const Result<void> done = drop_private(*found, group, reader);
    if (done) return std::move(*found);
    lost(reading_, done.error());
    return {};
  }
  lost(reading_, found.error());
  if (found.error().code == ErrorCode::kCorrupt) delete_children(parent, group);
  return {};
}

Result<void> RedisTier::drop_private(std::vector<Child>& children, uint32_t group,
                                     SharingMark reader) {
  std::vector<Child> ours;
  for (Child& child : children) {
    TRY_ASSIGN(const bool is_ours, is_for(page_name(child.key, group), reader));
    if (is_ours) ours.push_back(std::move(child));
  }
  children = std::move(ours);
  return {};
}

// Removes a set that has foreign members or is too long; the next stored page creates a new one.
void RedisTier::delete_children(const PageKey& parent, uint32_t group) {
  reading_.closed_until = {};
  const auto redis = connected(reading_);
  if (!redis) return;
  const auto done =
      (*redis)->ask({"UNLINK", next_name(parent, group)}, kMaxShortReply, options_.timeout);
  if (!done) lost(reading_, done.error());
}

Result<std::vector<Tier::Child>> RedisTier::try_children(const PageKey& parent, uint32_t group,
                                                         size_t limit) {
  TRY_ASSIGN(RedisConnection* const redis, connected(reading_));
  const std::string name = next_name(parent, group);
  TRY_ASSIGN(const RedisReply reply, redis->ask({"SRANDMEMBER", name, std::to_string(limit)},
                                                limit * (kMaxMember + 64), options_.timeout));
  std::vector<Child> found;
  listed_children_.clear();
  if (reply->type == REDIS_REPLY_ERROR && text_of(*reply).starts_with("WRONGTYPE")) {
    TRY(redis->ask({"UNLINK", name}, kMaxShortReply, options_.timeout));
    return found;
  }
  if (reply->type != REDIS_REPLY_ARRAY)
    return fail(ErrorCode::kIo, "unexpected reply from Redis, expected an array");
  for (size_t i = 0; i < reply->elements && found.size() < limit; ++i) {
    const redisReply& member = *reply->element[i];
    if (member.type != REDIS_REPLY_STRING) continue;
    auto child = child_of(text_of(member));
    if (!child || child->key != child_key(parent, child->tokens)) continue;
    listed_children_.emplace(text_of(member));
    found.push_back(std::move(*child));
  }
  return found;
}

// --- writing ---

Result<void> RedisTier::put(std::span<Put> pages) {
  for (Put& put : pages) write_record_head(put.page, put.n_bytes, put.slot, options_.mark_key);
  const MutexLock lock(write_mutex_);
  const Result<void> done = try_put(pages);
  if (!done) return std::unexpected<Error>(lost(writing_, done.error()));
  return {};
}

// Sends the commands of all pages before it receives the replies.
Result<void> RedisTier::try_put(std::span<Put> pages) {
  TRY_ASSIGN(RedisConnection* const redis, connected(writing_));
  for (const Put& put : pages) {
    const auto record = as_text(put.slot.first(slot_bytes(put.n_bytes)));
    redis->add({"SET", page_name(put.page.key, put.page.group), record, "NX"});
    redis->add({"SADD", next_name(put.page.parent, put.page.group),
                member_of(put.page.key, put.page.tokens)});
    TRY(redis->send(options_.timeout));
  }
  std::optional<Error> refused;
  std::vector<Put*> known;
  for (size_t i = 0; i < 2 * pages.size(); ++i) {
    TRY_ASSIGN(const RedisReply reply, redis->receive(kMaxShortReply, options_.timeout));
    if (i % 2 == 0 && reply->type == REDIS_REPLY_NIL) known.push_back(&pages[i / 2]);
    if (reply->type != REDIS_REPLY_ERROR || refused) continue;
    if (text_of(*reply).starts_with("WRONGTYPE")) continue;  // removed by the next reader
    refused =
        Error{ErrorCode::kIo, fmt::format("{}: {}", options_.address.printable(), text_of(*reply))};
  }
  if (refused) return std::unexpected<Error>(*refused);
  return join_marks(known);
}

// Updates pages that were stored already: those that another tenant computed are written again with
// a mark for all.
Result<void> RedisTier::join_marks(std::span<Put*> pages) {
  static const std::string end = std::to_string(kRecordHeadBytes - 1);
  for (Put* put : pages) {
    const std::string name = page_name(put->page.key, put->page.group);
    TRY_ASSIGN(const RedisReply reply, writing_.connection->ask({"GETRANGE", name, "0", end},
                                                                kMaxShortReply, options_.timeout));
    if (reply->type != REDIS_REPLY_STRING) continue;
    const auto head =
        read_record_head(std::as_bytes(std::span(reply->str, reply->len)), options_.mark_key);
    const SharingMark both = head ? joined(head->page.known, put->page.known) : put->page.known;
    if (!head || both == head->page.known) continue;
    put->page.known = both;
    write_record_head(put->page, put->n_bytes, put->slot, options_.mark_key);
    const auto record = as_text(put->slot.first(slot_bytes(put->n_bytes)));
    TRY(writing_.connection->ask({"SET", name, record, "XX"}, kMaxShortReply, options_.timeout));
  }
  return {};
}

Result<void> RedisTier::recover() {
  const MutexLock lock(write_mutex_);
  writing_.closed_until = {};
  TRY_ASSIGN(RedisConnection* const redis, connected(writing_));
  const auto reply = redis->ask({"PING"}, kMaxShortReply, options_.timeout);
  if (!reply) return std::unexpected<Error>(lost(writing_, reply.error()));
  if ((*reply)->type == REDIS_REPLY_STATUS) return {};
  return fail(ErrorCode::kIo,
              fmt::format("{}: {}", options_.address.printable(), text_of(**reply)));
}

Result<void> RedisTier::tidy_up() {
  const MutexLock lock(write_mutex_);
  const TimePoint now = std::chrono::steady_clock::now();
  if (now < size_due_) return {};
  size_due_ = now + kSizeEvery;
  const Result<void> done = ask_size();
  if (!done) return std::unexpected<Error>(lost(writing_, done.error()));
  return {};
}

Result<void> RedisTier::ask_size() {
  TRY_ASSIGN(RedisConnection* const redis, connected(writing_));
  TRY_ASSIGN(const RedisReply keys, redis->ask({"DBSIZE"}, kMaxShortReply, options_.timeout));
  if (keys->type == REDIS_REPLY_INTEGER)
    n_keys_ = static_cast<uint64_t>(std::max(0LL, keys->integer));
  TRY_ASSIGN(const RedisReply info, redis->ask({"INFO"}, kMaxInfoReply, options_.timeout));
  if (info->type != REDIS_REPLY_STRING) return {};
  n_bytes_ = number_in(text_of(*info), "used_memory");
  n_evictions_ = number_in(text_of(*info), "evicted_keys");
  return {};
}

TierSize RedisTier::size() const {
  return {.n_pages = n_keys_, .n_bytes = n_bytes_, .n_evictions = n_evictions_};
}

}  // namespace kvik
