#include "service/tools/call_spelling.h"

#include <algorithm>

namespace kvik {
namespace {

using Arguments = CallSpelling::Arguments;

// <parameter=KEY>\nVALUE\n</parameter>\n
constexpr CallSpelling xml_spelling(std::string_view format, std::string_view begin,
                                    std::string_view end) {
  return {.format = format,
          .begin = begin,
          .open = "<function=",
          .behind_name = ">\n",
          .close = "</function>\n",
          .end = end,
          .arguments = Arguments::kTexts,
          .key = "<parameter=",
          .behind_key = ">\n",
          .behind_value = "\n</parameter>\n"};
}

constexpr CallSpelling dsml_spelling(std::string_view format, std::string_view begin,
                                     std::string_view end) {
  return {.format = format,
          .begin = begin,
          .open = "<｜DSML｜invoke name=\"",
          .behind_name = "\">\n",
          .close = "</｜DSML｜invoke>\n",
          .end = end,
          .arguments = Arguments::kTexts,
          .key = "<｜DSML｜parameter name=\"",
          .behind_key = "\" string=\"true\">",
          .behind_value = "</｜DSML｜parameter>\n",
          .behind_key_of_json = "\" string=\"false\">"};
}

constexpr CallSpelling xml_calls() {
  CallSpelling spelling = xml_spelling("xml", "", "");
  spelling.open = "<tool_call>\n<function=";
  spelling.close = "</function>\n</tool_call>";
  spelling.between = "\n";
  return spelling;
}

// Of a format's several, those with telltales come first.
constexpr CallSpelling kSpellings[] = {
    {.format = "hermes",
     .open = "<tool_call>\n{\"name\": ",
     .behind_name = ", \"arguments\": ",
     .close = "}\n</tool_call>",
     .between = "\n",
     .quotes_name = true},
    xml_calls(),
    xml_spelling("seed", "<seed:tool_call>\n", "</seed:tool_call>"),
    {.format = "llama3",
     .open = "{\"name\": ",
     .behind_name = ", \"parameters\": ",
     .close = "}",
     .quotes_name = true},
    {.format = "mistral", .telltale = "[ARGS]", .open = "[TOOL_CALLS]", .behind_name = "[ARGS]"},
    {.format = "mistral",
     .begin = "[TOOL_CALLS][",
     .open = "{\"name\": ",
     .behind_name = ", \"arguments\": ",
     .close = "}",
     .between = ", ",
     .end = "]",
     .quotes_name = true},
    {.format = "deepseek-v3",
     .telltale = "```json",
     .begin = "<｜tool▁calls▁begin｜>",
     .open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .behind_name = "\n```json\n",
     .close = "\n```<｜tool▁call▁end｜>",
     .between = "\n",
     .end = "<｜tool▁calls▁end｜>"},
    {.format = "deepseek-v3",
     .begin = "<｜tool▁calls▁begin｜>",
     .open = "<｜tool▁call▁begin｜>",
     .behind_name = "<｜tool▁sep｜>",
     .close = "<｜tool▁call▁end｜>",
     .end = "<｜tool▁calls▁end｜>"},
    dsml_spelling("deepseek-v3.2", "<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"),
    dsml_spelling("deepseek-v4", "<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>"),
    {.format = "kimi",
     .begin = "<|tool_calls_section_begin|>",
     .open = "<|tool_call_begin|>functions.",
     .behind_name = "<|tool_call_argument_begin|>",
     .close = "<|tool_call_end|>",
     .end = "<|tool_calls_section_end|>",
     .numbers_calls = true},
    {.format = "glm",
     .open = "<tool_call>",
     .behind_name = "\n",
     .close = "</tool_call>",
     .between = "\n",
     .arguments = Arguments::kTexts,
     .key = "<arg_key>",
     .behind_key = "</arg_key>\n<arg_value>",
     .behind_value = "</arg_value>\n"},
    {.format = "gemma4",
     .open = "<|tool_call>call:",
     .behind_name = "{",
     .close = "}<tool_call|>",
     .arguments = Arguments::kGemma},
    {.format = "granite3",
     .begin = "<|tool_call|>[",
     .open = "{\"name\": ",
     .behind_name = ", \"arguments\": ",
     .close = "}",
     .between = ", ",
     .end = "]",
     .quotes_name = true},
    {.format = "cohere",
     .begin = "<|START_ACTION|>[\n    ",
     .open = "{\"tool_call_id\": \"0\", \"tool_name\": ",
     .behind_name = ", \"parameters\": ",
     .close = "}",
     .between = ",\n    ",
     .end = "\n]<|END_ACTION|>",
     .quotes_name = true},
    {.format = "lfm2",
     .begin = "<|tool_call_start|>[",
     .behind_name = "(",
     .close = ")",
     .between = ", ",
     .end = "]<|tool_call_end|>",
     .arguments = Arguments::kPython},
    {.format = "minimax",
     .begin = "<minimax:tool_call>\n",
     .open = "<invoke name=\"",
     .behind_name = "\">\n",
     .close = "</invoke>\n",
     .end = "</minimax:tool_call>",
     .arguments = Arguments::kTexts,
     .key = "<parameter name=\"",
     .behind_key = "\">",
     .behind_value = "</parameter>\n"},
    {.format = "harmony",
     .open = "<|channel|>commentary to=functions.",
     .behind_name = " <|constrain|>json<|message|>"},
};

}  // namespace

const CallSpelling* find_spelling(const ToolFormat& format, std::string_view chat_template) {
  const auto found = std::ranges::find_if(kSpellings, [&](const CallSpelling& spelling) {
    return spelling.format == format.name && chat_template.contains(spelling.telltale);
  });
  return found == std::end(kSpellings) ? nullptr : &*found;
}

}  // namespace kvik
