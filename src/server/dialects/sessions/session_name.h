#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/dialects/sessions/session_book.h"
#include "service/message.h"

namespace kvik {

// Names the session of a chat: by the id that the client gave, else by its conversation. A
// conversation is identified by its first message of the user, without reminders that agents put
// there, because system prompts and reminders change from turn to turn.
SessionName session_name(std::string_view given_id, std::span<const Message> messages);

// Returns the session in Anthropic's metadata.user_id as Claude Code writes it: the UUID after
// "session"; empty if there is none.
std::string_view session_of_user_id(std::string_view user_id);

}  // namespace kvik
