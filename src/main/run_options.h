#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/chat_settings.h"
#include "main/model_flags.h"
#include "main/speculation_flags.h"
#include "main/tier_options.h"
#include "service/service_api.h"

namespace kvik {

// The flags of `kvik run`.
struct RunOptions {
  static constexpr uint64_t kNoLimit = UINT64_MAX;  // of max_tokens, where none is asked for

  ModelOptions model;
  TierOptions tiers;
  SpeculationFlags speculation;
  std::optional<std::string> prompt;  // of --prompt
  std::optional<std::string> tokens;
  std::string file;               // its content is a prompt
  std::vector<std::string> text;  // words behind the model: one turn of a chat
  std::string system;
  std::optional<uint64_t> max_tokens;
  std::string stop;
  std::string json_schema;           // a file
  std::optional<std::string> regex;  // of --regex
  std::string grammar;               // a file
  std::string whitespace = "spaced", schema_language = "canonical";
  bool ids = false;
  bool no_cache = false;
  // Flags that are settings as they stand, and the form that read_form() makes of the three.
  ChatSettings given;

  // All settings that the flags make.
  ChatSettings settings() const;
};

// What is to be answered.
struct RunTask {
  enum class Kind {
    kContinue,  // `prompt` or `tokens`, as they stand
    kTurn,      // `prompt` as one message of a chat
    kChat,      // what is typed in the terminal
  };
  Kind kind = Kind::kChat;
  std::string prompt = {};
  std::optional<std::vector<TokenId>> tokens = {};
};

// Reads files and pipes. Words are a turn; where a file or a pipe comes with them, it stands above
// them in the message. Else a file or a pipe is a text to continue, and a terminal a chat.
Result<RunTask> read_task(const RunOptions& options);

// The form that answers are to have; nothing where they may be any text.
Result<std::optional<AnswerForm>> read_form(const RunOptions& options);

// One answer on stdout, the rest on stderr; the exit code.
Result<int> run_once(ServiceApi& service, const RunOptions& options, const RunTask& task);

// A chat in the terminal, until the user leaves; the exit code.
Result<int> run_chat(ServiceApi& service, const RunOptions& options);

}  // namespace kvik
