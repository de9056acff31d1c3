#include "service/tools/tool_format.h"

#include <algorithm>

namespace kvik {
namespace {

using Values = CallSyntax::Values;
using Unlisted = CallSyntax::Unlisted;

// <function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>
constexpr CallSyntax kXmlCall = {.begin = "<function=",
                                 .between = ">\n",
                                 .values = Values::kParameters,
                                 .key = "<parameter=",
                                 .after_key = ">\n",
                                 .after_value = "\n</parameter>\n",
                                 .end = "</function>\n"};

// <invoke name="NAME"><parameter name="KEY" string="true|false">VALUE</parameter></invoke>
constexpr CallSyntax kDsmlCall = {.begin = "<｜DSML｜invoke name=\"",
                                  .between = "\">\n",
                                  .values = Values::kParameters,
                                  .key = "<｜DSML｜parameter name=\"",
                                  .after_key = "\" string=\"true\">",
                                  .after_value = "</｜DSML｜parameter>\n",
                                  .after_json_key = "\" string=\"false\">",
                                  .end = "</｜DSML｜invoke>\n"};

// {"name": NAME, "arguments": ARGUMENTS}
constexpr CallSyntax kJsonCall = {
    .name = "{\"name\": ", .between = ", \"arguments\": ", .values = Values::kJsonCall, .end = "}"};

constexpr CallSyntax in_list(CallSyntax call, std::string_view begin, std::string_view separator,
                             std::string_view end) {
  call.list_begin = begin;
  call.separator = separator;
  call.list_end = end;
  return call;
}

// Returns the syntax with a separate list for each call.
constexpr CallSyntax in_own_list(CallSyntax call, std::string_view begin, std::string_view end) {
  call = in_list(call, begin, "\n", end);
  call.has_one_call_lists = true;
  return call;
}

// <tool_call>\n<function=…></function>\n</tool_call>, or only <function=…></function>
constexpr CallSyntax xml_call() {
  CallSyntax call = in_own_list(kXmlCall, "<tool_call>\n", "</tool_call>");
  call.unlisted = Unlisted::kAlso;
  return call;
}

// Returns the formats in order of detection: a marker that occurs in several templates must
// follow those that are unique.
std::vector<ToolFormat> make_formats() {
  std::vector<ToolFormat> formats = {
      {.name = "harmony",
       .markers = {"<|channel|>analysis", "<|start|>"},
       .syntaxes = {{.begin = "<|channel|>commentary to=functions.",
                     .between = " <|constrain|>json<|message|>"}},
       .has_one_call = true,
       .has_channels = true},
      {.name = "gemma4",
       .markers = {"<|tool_call>call:"},
       .syntaxes = {{.list_begin = "<|tool_call>",
                     .name = "call:",
                     .between = "{",
                     .values = Values::kGemma,
                     .end = "}",
                     .list_end = "<tool_call|>",
                     .has_one_call_lists = true}},
       .end_token = "<|tool_response>"},
      {.name = "kimi",
       .markers = {"<|tool_calls_section_begin|>"},
       .syntaxes = {{.list_begin = "<|tool_calls_section_begin|>",
                     .begin = "<|tool_call_begin|>",
                     .name = "functions.",
                     .between = "<|tool_call_argument_begin|>",
                     .end = "<|tool_call_end|>",
                     .list_end = "<|tool_calls_section_end|>",
                     .has_numbered_names = true,
                     .skips_blanks = true}},
       .writes_history = true},
      {.name = "deepseek-v4",
       .markers = {"｜DSML｜", "'tool_calls>"},
       .syntaxes = {in_list(kDsmlCall, "<｜DSML｜tool_calls>\n", "", "</｜DSML｜tool_calls>")}},
      {.name = "deepseek-v3.2",
       .markers = {"｜DSML｜"},
       .syntaxes = {in_list(kDsmlCall, "<｜DSML｜function_calls>\n", "",
                            "</｜DSML｜function_calls>")}},
      {.name = "deepseek-v3",
       .markers = {"<｜tool▁calls▁begin｜>"},
       .syntaxes = {{.marker = "```json",  // V3 and R1
                     .list_begin = "<｜tool▁calls▁begin｜>",
                     .begin = "<｜tool▁call▁begin｜>",
                     .name = "function<｜tool▁sep｜>",
                     .between = "\n```json\n",
                     .end = "\n```<｜tool▁call▁end｜>",
                     .separator = "\n",
                     .list_end = "<｜tool▁calls▁end｜>"},
                    {.list_begin = "<｜tool▁calls▁begin｜>",  // V3.1
                     .begin = "<｜tool▁call▁begin｜>",
                     .between = "<｜tool▁sep｜>",
                     .end = "<｜tool▁call▁end｜>",
                     .list_end = "<｜tool▁calls▁end｜>"}}},
      {.name = "glm",
       .markers = {"<arg_key>"},
       .syntaxes = {{.list_begin = "<tool_call>",
                     .between = "\n",
                     .values = Values::kParameters,
                     .key = "<arg_key>",
                     .after_key = "</arg_key>\n<arg_value>",
                     .after_value = "</arg_value>\n",
                     .end = "</tool_call>",
                     .separator = "\n",
                     .has_one_call_lists = true}}},
      {.name = "minimax-m3",
       .markers = {kTagNamespace},
       .syntaxes = {{.list_begin = "]<]minimax[>[<tool_call>\n",
                     .begin = "]<]minimax[>[<invoke name=\"",
                     .between = "\">",
                     .values = Values::kElements,
                     .end = "]<]minimax[>[</invoke>\n",
                     .list_end = "]<]minimax[>[</tool_call>"}}},
      {.name = "minimax",
       .markers = {"<minimax:tool_call>"},
       .syntaxes = {{.list_begin = "<minimax:tool_call>\n",
                     .begin = "<invoke name=\"",
                     .between = "\">\n",
                     .values = Values::kParameters,
                     .key = "<parameter name=\"",
                     .after_key = "\">",
                     .after_value = "</parameter>\n",
                     .end = "</invoke>\n",
                     .list_end = "</minimax:tool_call>"}}},
      {.name = "minicpm5",
       .markers = {"<param name=\""},
       .syntaxes = {{.list_begin = "<function name=\"",
                     .between = "\">",
                     .values = Values::kParameters,
                     .key = "<param name=\"",
                     .after_key = "\">",
                     .after_value = "</param>",
                     .quote = "<![CDATA[",
                     .end_quote = "]]>",
                     .quoted = "<&\n",
                     .end = "</function>",
                     .separator = "\n",
                     .has_one_call_lists = true}}},
      {.name = "seed",
       .markers = {"<seed:tool_call>"},
       .syntaxes = {in_list(kXmlCall, "<seed:tool_call>\n", "", "</seed:tool_call>")}},
      {.name = "xml", .markers = {"<function="}, .syntaxes = {xml_call()}},
      {.name = "mistral",
       .markers = {"[TOOL_CALLS]"},
       .syntaxes = {{.marker = "[ARGS]",
                     .list_begin = "[TOOL_CALLS]",
                     .between = "[ARGS]",
                     .id = "[CALL_ID]",
                     .has_one_call_lists = true,
                     .skips_blanks = true},
                    in_list(kJsonCall, "[TOOL_CALLS][", ", ", "]")},
       .has_nine_letter_ids = true},
      {.name = "cohere",
       .markers = {"<|START_ACTION|>"},
       .syntaxes = {{.list_begin = "<|START_ACTION|>[\n    ",
                     .name = "{\"tool_call_id\": \"0\", \"tool_name\": ",
                     .between = ", \"parameters\": ",
                     .values = Values::kJsonCall,
                     .end = "}",
                     .separator = ",\n    ",
                     .list_end = "\n]<|END_ACTION|>"}}},
      {.name = "granite3",
       .markers = {"<|tool_call|>"},
       .syntaxes = {in_list(kJsonCall, "<|tool_call|>[", ", ", "]")},
       .writes_history = true},
      {.name = "lfm2",
       .markers = {"List of tools: "},
       .syntaxes = {{.list_begin = "<|tool_call_start|>[",
                     .between = "(",
                     .values = Values::kPython,
                     .end = ")",
                     .separator = ", ",
                     .list_end = "]<|tool_call_end|>",
                     .skips_blanks = true}},
       .writes_history = true},
      {.name = "hermes",
       .markers = {"<tool_call>"},
       .syntaxes = {in_own_list(kJsonCall, "<tool_call>\n", "\n</tool_call>")},
       .writes_history = true},
      {.name = "llama3",
       .markers = {"<|python_tag|>"},
       .syntaxes = {{.list_begin = "<|python_tag|>",
                     .begin = "{",
                     .name = "\"name\": ",
                     .between = ", \"parameters\": ",
                     .values = Values::kJsonCall,
                     .end = "}",
                     .separator = "; ",
                     .unlisted = Unlisted::kAtAnswerBegin},
                    {.list_begin = "<|python_tag|>",
                     .between = ".call(",
                     .values = Values::kPython,
                     .end = ")",
                     .skips_blanks = true}},
       .has_one_call = true},
  };
  for (ToolFormat& format : formats) {
    format.reading = format.has_channels ? steps_after_header() : steps_of(format.syntaxes);
  }
  return formats;
}

}  // namespace

std::span<const ToolFormat> tool_formats() {
  static const std::vector<ToolFormat> formats = make_formats();
  return formats;
}

const ToolFormat* find_tool_format(std::string_view name) {
  const auto formats = tool_formats();
  const auto found = std::ranges::find(formats, name, &ToolFormat::name);
  return found == formats.end() ? nullptr : &*found;
}

const ToolFormat* find_format_of_template(std::string_view chat_template) {
  const auto formats = tool_formats();
  const auto found = std::ranges::find_if(formats, [&](const ToolFormat& format) {
    return std::ranges::all_of(
        format.markers, [&](std::string_view marker) { return chat_template.contains(marker); });
  });
  return found == formats.end() ? nullptr : &*found;
}

const ToolFormat& hermes_format() { return *find_tool_format("hermes"); }

const CallSyntax& find_syntax(const ToolFormat& format, std::string_view chat_template) {
  const auto found = std::ranges::find_if(format.syntaxes, [&](const CallSyntax& syntax) {
    return chat_template.contains(syntax.marker);
  });
  return found == format.syntaxes.end() ? format.syntaxes.back() : *found;
}

std::vector<std::string_view> marks_of(const ToolFormat& format) {
  std::vector<std::string_view> marks;
  const auto add = [&](std::string_view text) {
    if (!text.empty()) marks.push_back(text);
  };
  for (const CallSteps::Begin& begin : format.reading.begins) add(begin.mark);
  for (const CallStep& step : format.reading.steps) {
    add(step.mark);
    for (const CallStep::Way& way : step.ways) add(way.mark);
    if (step.kind == CallStep::Kind::kArguments) add(step.dialect->quotes[0]);
  }
  if (format.has_channels) {
    for (const auto text : {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>",
                            "<|call|>", "<|return|>"}) {
      add(text);
    }
  }
  return marks;
}

}  // namespace kvik
