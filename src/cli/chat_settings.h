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

// Settings of `/set` and of the flags of `kvik run`.
struct ChatSettings {
  CompletionRequest request;                 // request for each answer, without a prompt
  std::optional<bool> thinking;              // enable_thinking of the template; absent: its default
  std::optional<uint64_t> reasoning_budget;  // maximum number of reasoning tokens; absent: any
  bool stats = false;                        // statistics are printed after each answer
};

// Returns the settings with one of them changed; the value "default" restores that of `initial`.
// Errors: kInvalidArgument for an unknown name, or for a value that the API rejects, with the same
// message.
struct Assignment {
  std::string_view name;
  std::string_view value;
};
Result<ChatSettings> with(const ChatSettings& settings, const Assignment& assignment,
                          const ChatSettings& initial, const ModelCard& card);

// Returns the name and value of every setting, for `/show` and `/set`.
std::vector<std::pair<std::string, std::string>> list(const ChatSettings& settings);

std::vector<std::string> setting_names();

// Returns the canonical name of a setting: "max-tokens" means max_tokens, "temp" means temperature.
std::string setting_name(std::string_view name);

}  // namespace kvik
