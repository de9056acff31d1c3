#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/chat_settings.h"
#include "cli/generator.h"
#include "main/model_flags.h"
#include "main/running/server_flags.h"
#include "main/speculation_flags.h"
#include "main/tier_options.h"

namespace kvik {

// The flags of `kvik run`.
struct RunOptions {
  static constexpr uint64_t kNoLimit = UINT64_MAX;  // value of max_tokens for -1

  ModelOptions model;
  ServerFlags server;
  bool local = false;  // the model is loaded here, whatever servers run
  TierOptions tiers;
  SpeculationFlags speculation;
  std::optional<std::string> prompt;  // --prompt
  std::optional<std::string> tokens;
  std::string file;               // path of a file that contains the prompt
  std::vector<std::string> text;  // positional TEXT: one chat message
  std::string system;
  std::optional<uint64_t> max_tokens;
  std::string stop;
  std::string json_schema;           // path of a file
  std::optional<std::string> regex;  // --regex
  std::string grammar;               // path of a file
  std::string whitespace = "spaced", schema_language = "canonical";
  bool ids = false;
  bool no_cache = false;
  // Settings that flags set directly, and the form that read_structured_output() returns.
  ChatSettings given;

  // Returns the settings from all flags.
  ChatSettings settings() const;
};

// The input of `kvik run`.
struct RunTask {
  enum class Kind {
    kContinue,  // continue `prompt` or `tokens` without a chat template
    kTurn,      // answer `prompt` as one chat message
    kChat,      // interactive chat in the terminal
  };
  Kind kind = Kind::kChat;
  std::string prompt = {};
  std::optional<std::vector<TokenId>> tokens = {};
};

// Determines the input, reading files and pipes. Positional text is one chat message; the content
// of a file or pipe is placed above it in the message. Without positional text, a file or pipe is a
// text to continue, and a terminal starts a chat.
Result<RunTask> read_task(const RunOptions& options);

// Returns the form that constrains answers; nullopt if they are unconstrained.
Result<std::optional<StructuredOutput>> read_structured_output(const RunOptions& options);

// Writes one answer to stdout and everything else to stderr. Returns the exit code.
Result<int> run_once(Generator& generator, const RunOptions& options, const RunTask& task);

// Runs a chat in the terminal until the user leaves. Returns the exit code.
Result<int> run_chat(Generator& generator, const RunOptions& options);

}  // namespace kvik
