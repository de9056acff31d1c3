#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/token_id.h"
#include "service/message.h"

namespace kvik {

// The owner of answers. Requests share answers only if both members are equal.
struct AnswerOwner {
  std::string client;  // has a share of the memory; empty: nothing is remembered
  std::string scope;   // what else distinguishes the client's requests
};

// Identifies a conversation up to a message, and so the answer that is its last message.
using ConversationKey = Sha256Digest;

// Returns the key of an owner's conversations before the first message.
ConversationKey conversation_key(const AnswerOwner& owner);
// Returns the key of a conversation with one more message. It depends on the role and the text. Of
// an assistant message, which clients send back in another form than they got it, it depends on the
// text without blanks at both ends, the names and arguments of the tool calls, and fields that are
// unknown to Kvik. Arguments are compared as JSON values: 1 is 1.0, and members have no order. Ids
// of calls and reasoning are no part of the key.
ConversationKey with_message(const ConversationKey& before, const Message& message);

// An answer as the model generated it.
struct RememberedAnswer {
  std::vector<TokenId> ids;  // without the token that ended it
  // End of the prompt after the header of the message: "<think>\n" if the template opened the
  // reasoning, mostly empty.
  std::string opening;
  std::string reasoning;
};

// Keeps the exact tokens of recent answers, so that a conversation that a client sends back without
// the reasoning, or with tool calls in another format, continues the cached prefix. If it is full,
// the client that uses most of it loses the answer that it has used least recently. Any thread.
class AnswerMemory {
 public:
  explicit AnswerMemory(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  bool is_on() const { return max_bytes_ > 0; }
  uint64_t max_bytes() const { return max_bytes_; }

  // Replaces an answer with the same key. An answer larger than a quarter of the memory is ignored.
  void remember(std::string_view client, const ConversationKey& key, RememberedAnswer answer);
  // Returns null if the answer is unknown.
  std::shared_ptr<const RememberedAnswer> find(const ConversationKey& key);

  struct Stored {
    std::string client;
    ConversationKey key;
    std::shared_ptr<const RememberedAnswer> answer;
  };
  // Returns all answers; those of a client in the order of their last use.
  std::vector<Stored> all() const;
  // Returns how often an answer was remembered.
  uint64_t n_changes() const;

  uint64_t n_bytes() const;

 private:
  struct Entry {
    ConversationKey key;
    std::shared_ptr<const RememberedAnswer> answer;
    uint64_t n_bytes = 0;
  };
  struct Client {
    std::list<Entry> entries;  // most recently used first
    uint64_t n_bytes = 0;
  };
  using Clients = std::map<std::string, Client, std::less<>>;
  struct Place {
    Clients::iterator client;
    std::list<Entry>::iterator entry;
  };

  void resize(Clients::iterator client, uint64_t n_bytes) REQUIRES(mutex_);
  void erase(const Place& place) REQUIRES(mutex_);

  const uint64_t max_bytes_;
  mutable Mutex mutex_;
  Clients clients_ GUARDED_BY(mutex_);
  std::map<ConversationKey, Place> places_ GUARDED_BY(mutex_);
  std::set<std::pair<uint64_t, std::string>> by_size_ GUARDED_BY(mutex_);  // bytes and client
  uint64_t n_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t n_changes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvik
