#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "main/model_flags.h"
#include "main/read_input.h"
#include "main/run_options.h"

namespace kvik {
namespace {

// Returns the text followed by the question, so several questions about one text share its cached
// pages.
std::string prepend_text(std::string text, const std::string& question) {
  while (text.ends_with('\n')) text.pop_back();
  return text.empty() ? question : text + "\n\n" + question;
}

}  // namespace

ChatSettings RunOptions::settings() const {
  ChatSettings settings = given;
  if (max_tokens != kNoLimit) settings.request.max_tokens = max_tokens;
  if (!stop.empty()) settings.request.output.stop = {stop};
  if (no_cache) settings.request.engine.cache = Request::Cache::kOff;
  return settings;
}

Result<std::optional<StructuredOutput>> read_structured_output(const RunOptions& options) {
  StructuredOutput form;
  form.style = {whitespace_named(options.whitespace).value_or(JsonStyle::Whitespace::kSpaced),
                schema_language_named(options.schema_language)};
  if (!options.json_schema.empty()) {
    form.kind = StructuredOutput::Kind::kJsonSchema;
    TRY_ASSIGN(form.text, read_input(options.json_schema));
    form.param = "--json-schema";
  } else if (options.regex) {
    form.kind = StructuredOutput::Kind::kRegex;
    form.text = *options.regex;
    form.param = "--regex";
  } else if (!options.grammar.empty()) {
    TRY_ASSIGN(form.text, read_input(options.grammar));
    form.kind = grammar_kind(form.text);
    form.param = "--grammar";
  } else {
    return std::optional<StructuredOutput>();
  }
  return std::optional<StructuredOutput>(std::move(form));
}

Result<RunTask> read_task(const RunOptions& options) {
  RunTask task{.kind = RunTask::Kind::kContinue};
  if (options.tokens) {
    TRY_ASSIGN(task.tokens, parse_token_list(*options.tokens));
    return task;
  }
  if (options.prompt) {
    task.prompt = *options.prompt;
    return task;
  }
  const bool is_piped = ::isatty(STDIN_FILENO) == 0;
  if (!options.file.empty()) {
    TRY_ASSIGN(task.prompt, read_input(options.file));
  } else if (is_piped) {
    TRY_ASSIGN(task.prompt, read_input("-"));
    if (task.prompt.empty() && options.text.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "there is nothing to do: stdin is empty; give TEXT or -p TEXT, or run in a "
                  "terminal for a chat");
    }
  }
  if (!options.text.empty()) {
    task.kind = RunTask::Kind::kTurn;
    task.prompt =
        prepend_text(std::move(task.prompt), fmt::format("{}", fmt::join(options.text, " ")));
  } else if (options.file.empty() && !is_piped) {
    task.kind = RunTask::Kind::kChat;
  }
  return task;
}

}  // namespace kvik
