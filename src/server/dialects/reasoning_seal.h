#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvik {

// Returns the signature of a model's reasoning, by which returned reasoning is distinguished from
// that of another server. Equal in all processes that serve this model, so that sessions survive a
// restart. Not a secret: a client that could forge it could also write the reasoning into a
// message.
std::string reasoning_signature(std::string_view model, std::string_view reasoning);

// Encode reasoning as an opaque word, and decode it; std::nullopt if the word is not ours.
std::string encode_reasoning(std::string_view model, std::string_view reasoning);
std::optional<std::string> decode_reasoning(std::string_view model, std::string_view word);

}  // namespace kvik
