#pragma once

#include <string>
#include <string_view>

namespace kvik {

// Text of a prompt around one of its tokens, in UTF-8.
struct TextAround {
  std::string before;
  std::string after;    // begins with the token's own text
  std::string earlier;  // a longer piece, which ends where `before` begins
};

// Returns the name of the part to which the token seems to belong, if it is one that clients change
// from request to request; otherwise an empty view:
//   "working_directory"  the folder in which an agent works: "<cwd>/srv/story</cwd>"
//   "git_status"         branch, changed files and last commits: "Current branch: main"
//   "date"               a date or a time of day: "Today's date: 2026-11-22"
//   "token_count"        "Token usage: 41230/200000"
//   "id"                 a random number, as in "cch=3f9a1" or a UUID
//   "instructions"       the text of AGENTS.md, CLAUDE.md or QWEN.md
//   "environment"        other lines of <env>, <environment_context> and the like
//   "reminder"           between <system-reminder> and </system-reminder>
//   "tool"               the definition of a tool: others, or in another order
std::string_view changing_part(const TextAround& text);

}  // namespace kvik
