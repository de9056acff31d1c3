#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvik {

// What stands with a thought that a model of ours had, so that what comes back can be told from
// another server's. The same in every process that serves this model: a session goes on after a
// restart. No secret: who could forge it could as well write the thought into a message.
std::string thought_signature(std::string_view model, std::string_view thought);

// A thought as one word that a client need not understand, and what was in it; nullopt where the
// word is none of ours.
std::string sealed_thought(std::string_view model, std::string_view thought);
std::optional<std::string> opened_thought(std::string_view model, std::string_view word);

}  // namespace kvik
