#include "server/dialects/sessions/session_book.h"

#include <algorithm>
#include <utility>

namespace kvik {

namespace {

constexpr auto id_of = [](const auto& session) -> const std::string& { return session.sum.id; };

constexpr auto conversation_of = [](const auto& conversation) -> const std::string& {
  return conversation.name.conversation;
};

}  // namespace

const SessionBook::Conversation* SessionBook::find(const SessionName& name) const {
  const auto session = std::ranges::find(sessions_, name.id, id_of);
  if (session == sessions_.end()) return nullptr;
  const auto found = std::ranges::find(session->conversations, name.conversation, conversation_of);
  return found == session->conversations.end() ? nullptr : &*found;
}

// The last token of a prompt is always computed.
uint64_t SessionBook::lost_of(const Conversation* before, const Usage& usage) {
  if (!before || usage.prompt_tokens == 0) return 0;
  const uint64_t n_expected = std::min<uint64_t>(before->n_known, usage.prompt_tokens - 1);
  return n_expected > usage.cached_tokens ? n_expected - usage.cached_tokens : 0;
}

// Templates leave out the reasoning of earlier turns, so that the prompt differs from the end of
// the earlier prompt on. That end may be the mark that opens the reasoning.
std::string SessionBook::cause_of(const Conversation& before, const SessionName& name,
                                  const Usage& usage, std::string_view part) {
  constexpr uint32_t kOpening = 8;
  const auto position = usage.cache.position;
  if (before.has_reasoning && usage.cache.miss == MissReason::kDiverged && position &&
      *position + kOpening >= before.prompt_tokens &&
      *position <= before.prompt_tokens + kOpening) {
    return "reasoning";
  }
  const bool is_reordered =
      before.name.tools != name.tools && before.name.tool_set == name.tool_set;
  if (part == "tool" && is_reordered) return "tool_order";
  return std::string(part.empty() ? name_of(usage.cache.miss) : part);
}

uint64_t SessionBook::lost_tokens(const SessionName& name, const Usage& usage) const {
  const MutexLock lock(mutex_);
  return lost_of(find(name), usage);
}

// Returns the session as the last used one.
SessionBook::Session& SessionBook::use(const std::string& id, int64_t now_s) {
  const auto found = std::ranges::find(sessions_, id, id_of);
  if (found != sessions_.end()) {
    sessions_.splice(sessions_.begin(), sessions_, found);
    return sessions_.front();
  }
  if (sessions_.size() == kSessions) sessions_.pop_back();
  Session& session = sessions_.emplace_front();
  session.sum.id = id;
  session.sum.first_s = now_s;
  return session;
}

void SessionBook::add(const SessionName& name, const Usage& usage, uint32_t n_choices,
                      std::string_view part, int64_t now_s) {
  const MutexLock lock(mutex_);
  Session& session = use(name.id, now_s);
  SessionSummary& sum = session.sum;
  ++sum.n_requests;
  sum.prompt_tokens += usage.prompt_tokens;
  sum.reused_tokens += usage.cached_tokens;
  sum.restored_tokens += usage.restored_tokens;
  sum.generated_tokens += usage.completion_tokens;
  sum.last_s = now_s;
  std::list<Conversation>& all = session.conversations;
  const auto before = std::ranges::find(all, name.conversation, conversation_of);
  if (before != all.end()) {
    if (const uint64_t n_lost = lost_of(&*before, usage)) {
      sum.lost_tokens += n_lost;
      sum.lost_to[cause_of(*before, name, usage, part)] += n_lost;
    }
    all.erase(before);
  } else if (all.size() == kConversations) {
    all.pop_back();
  }
  // K and V of the last token of an answer are not computed. The next request contains only one of
  // several choices.
  const bool has_answer = n_choices == 1 && usage.completion_tokens > 0;
  const uint64_t n_answer = has_answer ? usage.completion_tokens - 1 : 0;
  all.push_front({.name = name,
                  .n_known = usage.prompt_tokens + n_answer,
                  .prompt_tokens = usage.prompt_tokens,
                  .has_reasoning = usage.reasoning_tokens > 0});
}

// A short conversation, such as one that finds a title, does not replace the agent's own.
void SessionBook::keep(const SessionName& name, SessionTokens tokens) {
  const MutexLock lock(mutex_);
  const auto session = std::ranges::find(sessions_, name.id, id_of);
  if (session == sessions_.end()) return;
  const bool is_other = session->tokens && (session->longest != name.conversation ||
                                            session->tokens->salt != tokens.salt);
  if (is_other && session->tokens->all.size() > tokens.all.size()) return;
  tokens.all.shrink_to_fit();
  session->longest = name.conversation;
  session->tokens = std::make_shared<const SessionTokens>(std::move(tokens));
  size_t n_kept = 0;
  for (Session& each : sessions_) {
    if (!each.tokens) continue;
    if (n_kept + each.tokens->all.size() > max_tokens_)
      each.tokens = nullptr;
    else
      n_kept += each.tokens->all.size();
  }
}

std::shared_ptr<const SessionTokens> SessionBook::tokens(std::string_view id,
                                                         std::string_view salt) const {
  const MutexLock lock(mutex_);
  const auto session = std::ranges::find(sessions_, id, id_of);
  const bool is_there = session != sessions_.end() && session->tokens;
  return is_there && session->tokens->salt == salt ? session->tokens : nullptr;
}

std::vector<SessionSummary> SessionBook::all() const {
  const MutexLock lock(mutex_);
  std::vector<SessionSummary> out;
  for (const Session& session : sessions_) out.push_back(session.sum);
  return out;
}

}  // namespace kvik
