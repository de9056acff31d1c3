#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "service/chat_request.h"

namespace kvik {

// The session and the conversation of a request. An agent may hold several conversations in one
// session: its own, those of sub-agents, and short ones that find a title.
struct SessionName {
  std::string id;            // empty: the request belongs to none
  std::string conversation;  // digest of how it begins
  uint64_t tools = 0;        // hash of the names of its tools in their order
  uint64_t tool_set = 0;     // and in alphabetical order; 0: no tools
};

// Names the session of a chat: by the id that the client gave, else by its conversation. A
// conversation is identified by its first message of the user that is more than reminders of the
// agent, without those, and by whether it has tools and a system prompt. The system prompt itself
// does not count: it may change from turn to turn.
SessionName session_name(std::string_view given_id, const ChatRequest& chat);

// Returns the name with the id of the request's header x-session-id (opencode) if it has the id of
// its conversation only.
SessionName with_session_header(SessionName name, std::optional<std::string_view> header);

// Returns the session in Anthropic's metadata.user_id as Claude Code writes it: the UUID after
// "session"; empty if there is none.
std::string_view session_of_user_id(std::string_view user_id);

}  // namespace kvik
