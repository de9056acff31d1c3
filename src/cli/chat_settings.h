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

// What `/set` changes.
struct ChatSettings {
  SamplingParams sampling;
  std::optional<uint64_t> seed;        // absent: another one for each answer
  std::optional<uint64_t> max_tokens;  // absent: what the context holds
  std::vector<std::string> stop;
  std::optional<bool> thinking;  // the template's enable_thinking; absent: as it likes
  bool stats = false;            // shown after each answer
  // Of the program's flags alone.
  std::optional<AnswerForm> form;  // of each answer
  bool ignore_eos = false;
  Request::Cache cache = Request::Cache::kUse;
};

// A completion that these settings ask for; its prompt is empty.
CompletionRequest completion_request(const ChatSettings& settings);

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
