#include "cli/agents/coding_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace kvik {
namespace {

namespace json = boost::json;

constexpr uint64_t kOpencodeOutput = 8192;  // reserved for an answer, as its other providers have

// Agents ask for a login unless there is some key.
std::string key_of(const AgentServer& server) {
  return server.api_key.empty() ? "none" : server.api_key;
}

// Returns the text as a string of JSON, which is also one of TOML.
std::string quoted(std::string_view text) { return json::serialize(json::value(text)); }

// Claude Code asks for models of several sizes; all of them are the one model.
AgentSetup setup_claude(const AgentServer& server) {
  return {.program = "claude",
          .arguments = {},
          .asks = {"-p"},
          .variables = {{"ANTHROPIC_BASE_URL", server.url},
                        {"ANTHROPIC_AUTH_TOKEN", key_of(server)},
                        {"ANTHROPIC_MODEL", server.model},
                        {"ANTHROPIC_DEFAULT_OPUS_MODEL", server.model},
                        {"ANTHROPIC_DEFAULT_SONNET_MODEL", server.model},
                        {"ANTHROPIC_DEFAULT_HAIKU_MODEL", server.model},
                        {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"}},
          .files = {}};
}

// Settings on the command line leave Codex' own folder, with the sessions of the user, in use.
AgentSetup setup_codex(const AgentServer& server) {
  AgentSetup setup{.program = "codex",
                   .arguments = {},
                   .asks = {"exec", "--skip-git-repo-check"},
                   .variables = {},
                   .files = {}};
  const auto set = [&](std::string_view key, std::string value) {
    setup.arguments.emplace_back("-c");
    setup.arguments.push_back(fmt::format("{}={}", key, value));
  };
  set("model", quoted(server.model));
  set("model_provider", quoted("kvik"));
  set("model_context_window", std::to_string(server.n_ctx));
  set("model_providers.kvik.name", quoted("Kvik"));
  set("model_providers.kvik.base_url", quoted(server.url + "/v1"));
  set("model_providers.kvik.wire_api", quoted("responses"));
  if (!server.api_key.empty()) {
    set("model_providers.kvik.env_key", quoted("KVIK_API_KEY"));
    setup.variables.emplace_back("KVIK_API_KEY", server.api_key);
  }
  return setup;
}

AgentSetup setup_opencode(const AgentServer& server) {
  const std::string text = fmt::format(
      R"({{
  "$schema": "https://opencode.ai/config.json",
  "model": {},
  "provider": {{
    "kvik": {{
      "npm": "@ai-sdk/openai-compatible",
      "name": "Kvik",
      "options": {{ "baseURL": {}, "apiKey": {} }},
      "models": {{ {}: {{ "name": {}, "limit": {{ "context": {}, "output": {} }} }} }}
    }}
  }}
}}
)",
      quoted("kvik/" + server.model), quoted(server.url + "/v1"), quoted(key_of(server)),
      quoted(server.model), quoted(server.model), server.n_ctx,
      std::min(kOpencodeOutput, server.n_ctx / 4));
  return {.program = "opencode",
          .arguments = {},
          .asks = {"run"},
          .variables = {},
          .files = {{.name = "opencode.json", .text = text, .variable = "OPENCODE_CONFIG"}}};
}

AgentSetup setup_qwen(const AgentServer& server) {
  return {.program = "qwen",
          .arguments = {"--auth-type", "openai"},
          .asks = {"-p"},
          .variables = {{"OPENAI_BASE_URL", server.url + "/v1"},
                        {"OPENAI_API_KEY", key_of(server)},
                        {"OPENAI_MODEL", server.model}},
          .files = {}};
}

constexpr CodingAgent kAgents[] = {
    {"claude", "Claude Code", "@anthropic-ai/claude-code", setup_claude},
    {"codex", "Codex", "@openai/codex", setup_codex},
    {"opencode", "opencode", "opencode-ai", setup_opencode},
    {"qwen", "Qwen Code", "@qwen-code/qwen-code", setup_qwen},
};

bool is_plain(std::string_view text) {
  constexpr std::string_view kMarks = "-_./:@%+,";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter || (c >= '0' && c <= '9') || kMarks.find(c) != kMarks.npos;
  });
}

}  // namespace

std::span<const CodingAgent> coding_agents() { return kAgents; }

const CodingAgent* find_agent(std::string_view name) {
  const auto found = std::ranges::find(kAgents, name, &CodingAgent::name);
  return found == std::end(kAgents) ? nullptr : found;
}

std::string shell_word(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string script_of(const AgentSetup& setup, const std::vector<std::string>& arguments) {
  std::string script;
  if (!setup.files.empty()) script += "folder=$(mktemp -d)\n";
  for (const AgentSetup::File& file : setup.files) {
    script += fmt::format("cat > \"$folder/{}\" <<'END'\n{}END\n", file.name, file.text);
    script += fmt::format("export {}=\"$folder/{}\"\n", file.variable, file.name);
  }
  for (const auto& [name, value] : setup.variables) {
    script += fmt::format("export {}={}\n", name, shell_word(value));
  }
  script += setup.program;
  for (const auto* words : {&setup.arguments, &arguments}) {
    for (const std::string& word : *words) script += " " + shell_word(word);
  }
  return script + "\n";
}

}  // namespace kvik
