#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/token_id.h"
#include "server/dialects/sessions/session_name.h"
#include "service/service_api.h"

namespace kvik {

// The sum of the finished requests of one session.
struct SessionSummary {
  std::string id;
  uint64_t n_requests = 0;
  uint64_t prompt_tokens = 0;
  uint64_t reused_tokens = 0;    // of the prompts, from the cache
  uint64_t restored_tokens = 0;  // Usage::restored_tokens
  uint64_t generated_tokens = 0;
  // Tokens with K and V of the request before in the same conversation that the prompt is long
  // enough for, but did not reuse, and their causes: a part that clients change (changing_part()),
  // or "tool_order" if that is a tool and the request has the same tools in another order,
  // else "reasoning" if the answer's reasoning is not in the prompt any more, else the MissReason.
  // At most so many were computed again: text that the client has left out counts as well.
  uint64_t lost_tokens = 0;
  std::map<std::string, uint64_t, std::less<>> lost_to = {};
  int64_t first_s = 0, last_s = 0;  // Unix time of the first and the last request
};

// The tokens of a session's last prompt, of the conversation that is longest, with its answer.
struct SessionTokens {
  std::string salt;          // of the request: only requests with it may read them
  std::vector<TokenId> all;  // prompt and answer
  uint32_t prompt_tokens = 0;
};

// The recent sessions of one API key. The one that was used least recently is dropped. Any thread.
class SessionBook {
 public:
  static constexpr size_t kSessions = 64;
  static constexpr size_t kConversations = 16;  // of a session, for their lost tokens

  // max_tokens: of all SessionTokens together; those of the sessions used last are kept.
  explicit SessionBook(size_t max_tokens) : max_tokens_(max_tokens) {}

  // Returns how many tokens were lost.
  uint64_t lost_tokens(const SessionName& name, const Usage& usage) const;

  // Adds a finished request with that many choices. `part`: the changing part at which its prompt
  // left the cached prefix; empty: unknown.
  void add(const SessionName& name, const Usage& usage, uint32_t n_choices, std::string_view part,
           int64_t now_s);

  // Keeps the tokens of a finished request that was added.
  void keep(const SessionName& name, SessionTokens tokens);
  // Returns the tokens of a session; null if none with this salt are kept.
  std::shared_ptr<const SessionTokens> tokens(std::string_view id, std::string_view salt) const;

  // Returns all sessions, the last used first.
  std::vector<SessionSummary> all() const;

 private:
  // The last request of a conversation.
  struct Conversation {
    SessionName name;
    uint64_t n_known = 0;  // tokens with K and V
    uint32_t prompt_tokens = 0;
    bool has_reasoning = false;
  };
  struct Session {
    SessionSummary sum;
    std::list<Conversation> conversations;        // last used first
    std::string longest;                          // conversation of the tokens
    std::shared_ptr<const SessionTokens> tokens;  // null: none
  };

  const Conversation* find(const SessionName& name) const REQUIRES(mutex_);
  Session& use(const std::string& id, int64_t now_s) REQUIRES(mutex_);
  static uint64_t lost_of(const Conversation* before, const Usage& usage);
  static std::string cause_of(const Conversation& before, const SessionName& name,
                              const Usage& usage, std::string_view part);

  const size_t max_tokens_;
  mutable Mutex mutex_;
  std::list<Session> sessions_ GUARDED_BY(mutex_);  // last used first
};

}  // namespace kvik
