#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "service/service_api.h"

namespace kvik {

// Settings of `/set`, and of the flags of `kvik run`.
struct ChatSettings {
  CompletionRequest request;     // of each answer, without a prompt
  std::optional<bool> thinking;  // the template's enable_thinking; absent: as it likes
  bool stats = false;            // shown after each answer
};

// The settings with one of them changed, "default" taken from `initial`. kInvalidArgument for an
// unknown name, or a value that the API would refuse, in its words.
struct Assignment {
  std::string_view name;
  std::string_view value;
};
Result<ChatSettings> with(const ChatSettings& settings, const Assignment& assignment,
                          const ChatSettings& initial, const ModelCard& card);

// (name, value) of every setting, for `/show` and `/set`.
std::vector<std::pair<std::string, std::string>> list(const ChatSettings& settings);

std::vector<std::string> setting_names();

// Returns the setting's name as the table has it: "max-tokens" means max_tokens, "temp"
// temperature.
std::string setting_name(std::string_view name);

}  // namespace kvik
