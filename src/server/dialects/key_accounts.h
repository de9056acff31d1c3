#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/dialects/sessions/session_book.h"
#include "server/server_options.h"
#include "service/service_api.h"

namespace kvik {

// Total usage of one API key since the start, including canceled answers, and its recent sessions.
// Any thread.
class KeyAccount {
 public:
  // max_session_tokens: those that SessionBook keeps.
  explicit KeyAccount(size_t max_session_tokens) : sessions_(max_session_tokens) {}

  void add(const Usage& usage) {
    computed_ += usage.prompt_tokens - usage.cached_tokens;
    cached_ += usage.cached_tokens;
    output_ += usage.completion_tokens;
  }
  uint64_t computed_tokens() const { return computed_; }
  uint64_t cached_tokens() const { return cached_; }
  uint64_t output_tokens() const { return output_; }
  SessionBook& sessions() { return sessions_; }

 private:
  std::atomic<uint64_t> computed_ = 0, cached_ = 0, output_ = 0;
  SessionBook sessions_;
};

// One account per name in the key file; a single one without keys. Any thread.
class KeyAccounts {
 public:
  // Token ids of sessions that all accounts together keep (16 MiB).
  static constexpr size_t kSessionTokens = size_t{4} << 20;

  explicit KeyAccounts(const std::optional<std::vector<ApiKey>>& keys);

  // Shared with the sinks of running requests, which the engine may hold longer than the server
  // exists. Null: no key.
  std::shared_ptr<KeyAccount> of(const ApiKey* key) const;

  using Entry = std::pair<std::string, std::shared_ptr<KeyAccount>>;
  std::span<const Entry> all() const { return accounts_; }

 private:
  std::vector<Entry> accounts_;  // with the names of keys, never the keys
};

}  // namespace kvik
