#pragma once

#include <string>
#include <string_view>

#include "service/chat_request.h"

namespace kvik {

// The session and the conversation of a request. An agent may hold several conversations in one
// session: its own, those of sub-agents, and short ones that find a title.
struct SessionName {
  std::string id;            // empty: the request belongs to none
  std::string conversation;  // digest of how it begins
};

// Names the session of a chat: by the id that the client gave, else by its conversation. A
// conversation is identified by its first message of the user, without reminders that agents put
// there, and by whether it has tools and a system prompt. The system prompt itself does not count:
// it may change from turn to turn.
SessionName session_name(std::string_view given_id, const ChatRequest& chat);

// Returns the session in Anthropic's metadata.user_id as Claude Code writes it: the UUID after
// "session"; empty if there is none.
std::string_view session_of_user_id(std::string_view user_id);

}  // namespace kvik
