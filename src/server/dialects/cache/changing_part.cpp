#include "server/dialects/cache/changing_part.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "server/dialects/cache/ascii.h"
#include "server/dialects/cache/written_date.h"

namespace kvik {
namespace {

// The characters around the token that belong to one word of these characters.
struct Word {
  std::string_view text;
  std::string_view before;
};
template <typename IsPart>
Word word_around(const std::string& all, size_t at, IsPart is_part) {
  size_t begin = at, end = at;
  while (begin > 0 && is_part(all[begin - 1])) --begin;
  while (end < all.size() && is_part(all[end])) ++end;
  const std::string_view view = all;
  return {view.substr(begin, end - begin), view.substr(0, begin)};
}

// Matches hexadecimal words with digits and letters, words that are named as ids, and long words
// with many digits.
bool is_in_id(const TextAround& text) {
  constexpr size_t kShortestHex = 8, kLongWord = 20, kManyDigits = 4;
  constexpr std::array<std::string_view, 4> kNames = {"cch=", "id=", "_id\": \"", "_id\":\""};
  const std::string all = text.before + text.after;
  const auto [word, before] = word_around(all, text.before.size(), [](char c) {
    return is_digit(c) || is_letter(c) || c == '-' || c == '_';
  });
  const auto n_digits = static_cast<size_t>(std::ranges::count_if(word, is_digit));
  const bool has_letters = std::ranges::any_of(word, is_letter);
  const bool is_hex = std::ranges::all_of(
      word, [](char c) { return is_digit(c) || c == '-' || (c >= 'a' && c <= 'f'); });
  if (n_digits > 0 && has_letters && is_hex && word.size() >= kShortestHex) return true;
  if (n_digits >= kManyDigits && has_letters && word.size() >= kLongWord) return true;
  return !word.empty() &&
         std::ranges::any_of(kNames, [&](std::string_view name) { return before.ends_with(name); });
}

// Matches a number beside words for what is used or left of a context or budget.
bool is_in_token_count(const TextAround& text) {
  constexpr size_t kBeside = 32;
  constexpr std::array<std::string_view, 6> kWords = {
      "oken usage", "okens left", "okens remaining", "okens used", "oken budget", "oken count"};
  const std::string all = text.before + text.after;
  const auto [word, before] = word_around(all, text.before.size(), [](char c) {
    return is_digit(c) || c == ',' || c == '.' || c == '/' || c == '_';
  });
  if (!std::ranges::any_of(word, is_digit)) return false;
  const size_t begin = before.size() - std::min(before.size(), kBeside);
  const size_t n_bytes = before.size() - begin + word.size() + kBeside;
  const std::string_view near = std::string_view(all).substr(begin, n_bytes);
  return std::ranges::any_of(kWords, [&](std::string_view words) { return near.contains(words); });
}

// Marks that end a message in the templates of several families.
constexpr std::array<std::string_view, 5> kMessageEnds = {"[/", "<|", "<｜", "</s>",
                                                          "<end_of_turn>"};

// A part of a prompt that begins with a mark.
struct MarkedPart {
  std::string_view begin_mark;
  std::string_view end_mark;  // empty: the part ends with its message
};

// Returns whether the token is in that part, or in its first mark.
bool is_in(const MarkedPart& part, const TextAround& text) {
  const std::string all_before = text.earlier + text.before;
  const std::string_view before = all_before;
  const size_t begin = before.rfind(part.begin_mark);
  if (begin != before.npos) {
    const std::string_view inside = before.substr(begin + part.begin_mark.size());
    const bool has_ended =
        part.end_mark.empty()
            ? std::ranges::any_of(kMessageEnds,
                                  [&](std::string_view end) { return inside.contains(end); })
            : inside.contains(part.end_mark);
    if (!has_ended) return true;
  }
  for (size_t n = 0; n < part.begin_mark.size(); ++n) {
    const bool is_split_here = before.ends_with(part.begin_mark.substr(0, n)) &&
                               std::string_view(text.after).starts_with(part.begin_mark.substr(n));
    if (is_split_here) return true;
  }
  return false;
}

bool is_in_any(std::span<const MarkedPart> parts, const TextAround& text) {
  return std::ranges::any_of(parts, [&](const MarkedPart& part) { return is_in(part, text); });
}

// Matches the header that Claude Code puts before its system prompt: "cc_version=2.1.330.42c;
// cch=889ef; cc_prompt_id=…".
bool is_in_billing_header(const TextAround& text) {
  return is_in({"x-anthropic-billing-header:", "\n"}, text);
}

// Matches the state of a git repository, as Claude Code and Qwen Code write it.
bool is_in_git_status(const TextAround& text) {
  constexpr std::array<MarkedPart, 3> kParts = {{{"# gitStatus\n", "</system-reminder>"},
                                                 {"\nCurrent branch:", "</system-reminder>"},
                                                 {"\ngit: Current branch:", "```"}}};
  return std::ranges::any_of(kParts, [&](const MarkedPart& part) {
    return is_in(part, text) && is_in({part.begin_mark, ""}, text);
  });
}

// Matches a path after words that agents write before the folder in which they work, and a path
// in an agent's own folder of a project or user.
bool is_in_working_directory(const TextAround& text) {
  constexpr std::array<std::string_view, 7> kBefore = {
      "orking directory:",    "in the directory:", "root folder:", "<cwd>", "<root>",
      ".md instructions for", "Instructions from:"};
  constexpr std::array<std::string_view, 4> kAgentFolders = {"/.claude/", "/.codex/", "/.qwen/",
                                                             "/.config/opencode/"};
  constexpr std::string_view kNoPath = "\n\t <>\"'`()";
  // All that is known: a path may be longer than `before`.
  const std::string all = text.earlier + text.before + text.after;
  const size_t at =
      text.earlier.size() + text.before.size() + (text.after.starts_with(" /") ? 1 : 0);
  const auto [path, before] = word_around(all, at, [&](char c) { return !kNoPath.contains(c); });
  if (!path.starts_with('/') && !path.contains(":\\")) return false;
  const std::string_view words = before.substr(0, before.find_last_not_of(' ') + 1);
  return std::ranges::any_of(kBefore, [&](std::string_view b) { return words.ends_with(b); }) ||
         (words.ends_with("Contents of") && path.ends_with(".md")) ||
         std::ranges::any_of(kAgentFolders,
                             [&](std::string_view folder) { return path.contains(folder); });
}

// Matches what agents tell about the machine, the session and the files of the folder.
bool is_in_environment(const TextAround& text) {
  constexpr std::array<MarkedPart, 4> kParts = {
      {{"<env>\n", "</env>"},
       {"<environment_context>\n", "</environment_context>"},
       {"You have been invoked in the following environment:", "\n\n"},
       {"Here is the folder structure of", "</system-reminder>"}}};
  return is_in_any(kParts, text);
}

// Matches the text of files of instructions (AGENTS.md, CLAUDE.md, QWEN.md).
bool is_in_instructions(const TextAround& text) {
  constexpr std::array<MarkedPart, 4> kParts = {
      {{"# AGENTS.md instructions", "</INSTRUCTIONS>"},
       {"Codebase and user instructions are shown below.", "</system-reminder>"},
       {"Instructions from: /", ""},
       {"--- Context from: ", "--- End of Context from:"}}};
  return is_in_any(kParts, text) && !is_in({"<available_skills>", ""}, text);
}

// Matches a place in or between the definitions of tools, as JSON objects or as harmony's list.
bool is_in_tool(const TextAround& text) {
  if (is_in({"namespace functions {", "} // namespace functions"}, text)) return true;
  const std::string all_before = text.earlier + text.before;
  const std::string_view before = all_before;
  const size_t begin =
      std::max(before.rfind("\"function\"") + 1, before.rfind("\"input_schema\"") + 1);
  if (begin == 0) return false;
  const std::string_view inside = before.substr(begin);
  return !inside.contains("}\n\n") && !inside.contains("</tools>") &&
         std::ranges::none_of(kMessageEnds,
                              [&](std::string_view end) { return inside.contains(end); });
}

}  // namespace

std::string_view changing_part(const TextAround& text) {
  if (is_in_working_directory(text)) return "working_directory";
  if (is_in_git_status(text)) return "git_status";
  if (is_in_date(text.before, text.after)) return "date";
  if (is_in_token_count(text)) return "token_count";
  if (is_in_id(text) || is_in_billing_header(text)) return "id";
  if (is_in_instructions(text) && !is_in_tool(text)) return "instructions";
  if (is_in_environment(text)) return "environment";
  if (is_in({"<system-reminder>", "</system-reminder>"}, text)) return "reminder";
  if (is_in_tool(text)) return "tool";
  return {};
}

}  // namespace kvik
