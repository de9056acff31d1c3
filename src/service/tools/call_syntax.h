#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvik {

// The text before each tag of MiniMax M3, a part of the mark.
inline constexpr std::string_view kTagNamespace = "]<]minimax[>[";

// The syntax of tool calls, as the texts of which a call consists. An answer with two calls is
//
//   list_begin  begin name NAME between ARGUMENTS end  separator
//               begin name NAME between ARGUMENTS end  list_end
//
// The reader (call_steps.h), the grammar of forced calls (tool_call_grammar.h) and the writer of
// earlier calls (call_writer.h) are all derived from it. The reader accepts any number of blanks
// between marks.
struct CallSyntax {
  enum class Values : uint8_t {
    kJson,  // ARGUMENTS are one JSON object
    // the whole call is one JSON object: `name` and `between` are parts of it, `end` begins with
    // its closing brace, and NAME is a JSON string
    kJsonCall,
    kParameters,  // for each parameter: key KEY after_key VALUE after_value; strings are unquoted
    // for each parameter <KEY>VALUE</KEY>, where VALUE may consist of such elements: those of a
    // list are called item. kTagNamespace precedes each tag.
    kElements,
    kPython,  // KEY=VALUE, …; `between` and `end` contain the parentheses
    kGemma,   // KEY:VALUE,…, strings between <|"|>; `between` and `end` contain the braces
  };
  enum class Unlisted : uint8_t {
    kNever,  // list_begin is required
    kAlso,   // the reader also accepts `begin` without list_begin
    // the reader does so at the beginning of an answer, where calls are written without list_begin;
    // only calls of declared tools count
    kAtAnswerBegin
  };

  // If a format has several syntaxes, a template uses the first one whose marker it contains.
  std::string_view marker = {};
  std::string_view list_begin = {}, begin = {}, name = {}, between = {};
  Values values = Values::kJson;
  std::string_view key = {}, after_key = {}, after_value = {};
  std::string_view after_json_key = {};  // if the value is not a string; empty: after_key
  // texts around a parameter's value that contains one of the bytes `quoted`; empty: never
  std::string_view quote = {}, end_quote = {}, quoted = {};
  std::string_view end = {}, separator = {}, list_end = {};
  std::string_view id = {};         // text between NAME and the call's id, if the format has ids
  bool has_one_call_lists = false;  // each call has its own list_begin and list_end
  bool has_numbered_names = false;  // NAME is "functions.NAME:0"
  bool skips_blanks = false;        // the reader skips blanks before the name and before ARGUMENTS
  Unlisted unlisted = Unlisted::kNever;

  bool has_json_arguments() const { return values == Values::kJson || has_quoted_name(); }
  bool has_quoted_name() const { return values == Values::kJsonCall; }
  bool needs_quotes(std::string_view value) const {
    return !quote.empty() && value.find_first_of(quoted) != value.npos;
  }
  // Return the texts before and after all calls of an answer, and before and after NAME … ARGUMENTS
  // of each call.
  std::string_view answer_begin() const { return has_one_call_lists ? "" : written_list_begin(); }
  std::string_view answer_end() const { return has_one_call_lists ? "" : list_end; }
  std::string call_begin() const {
    std::string text(has_one_call_lists ? written_list_begin() : "");
    return text.append(begin).append(name);
  }
  std::string call_end() const {
    return std::string(end).append(has_one_call_lists ? list_end : "");
  }

 private:
  std::string_view written_list_begin() const {
    return unlisted == Unlisted::kAtAnswerBegin ? "" : list_begin;
  }
};

}  // namespace kvik
