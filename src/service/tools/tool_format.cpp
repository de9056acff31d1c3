#include "service/tools/tool_format.h"

#include <algorithm>

namespace kvik {
namespace {

using Kind = CallStep::Kind;
using StepStyle = CallStep::Style;
using Way = CallStep::Way;
using Ways = std::array<Way, 3>;
using Begin = ValueReader::Begin;
using Writing = ToolFormat::Writing;

constexpr CallStep mark(std::string_view text, uint8_t to = 0) {
  return {.kind = Kind::kMark, .mark = text, .to = to};
}
constexpr CallStep blanks() { return {.kind = Kind::kBlanks}; }
constexpr CallStep one_of(Ways ways, uint8_t otherwise = CallStep::kNowhere) {
  return {.kind = Kind::kOneOf, .ways = ways, .otherwise = otherwise};
}
constexpr CallStep name(Ways ways) { return {.kind = Kind::kName, .ways = ways}; }
constexpr CallStep id(Ways ways) { return {.kind = Kind::kId, .ways = ways}; }
constexpr CallStep key(Ways ways) { return {.kind = Kind::kKey, .ways = ways}; }
constexpr CallStep text(std::string_view end, uint8_t to, StepStyle style = StepStyle::kBySchema) {
  return {.kind = Kind::kText, .mark = end, .to = to, .style = style};
}
constexpr CallStep lines(std::string_view end, uint8_t to) {
  return {.kind = Kind::kText, .mark = end, .to = to, .trims_lines = true};
}
constexpr CallStep arguments(Begin begin = Begin::kHere, const ValueDialect* dialect = &kJson) {
  return {.kind = Kind::kArguments, .begin = begin, .dialect = dialect};
}
constexpr CallStep json_call() { return {.kind = Kind::kJsonCall}; }
constexpr CallStep call() { return {.kind = Kind::kCall}; }
constexpr CallStep end() { return {.kind = Kind::kEnd}; }

// <tool_call>{"name": …, "arguments": {…}}</tool_call>
constexpr CallStep kHermes[] = {
    blanks(), json_call(), call(), blanks(), mark("</tool_call>"), end(),
};

// <tool_call><function=NAME><parameter=KEY>\nVALUE\n</parameter></function></tool_call>
constexpr auto xml_steps(std::string_view close) {
  return std::array{
      /*0*/ blanks(),
      /*1*/ mark("<function="),
      /*2*/ name({{{">", 3}}}),
      /*3*/ blanks(),
      /*4*/ one_of({{{"<parameter=", 5}, {"</function>", 9}}}),
      /*5*/ key({{{">", 6}}}),
      /*6*/ lines("</parameter>", 7),
      /*7*/ blanks(),
      /*8*/ one_of({{{"<parameter=", 5}, {"</function>", 9}}}, 6),
      /*9*/ call(),
      /*10*/ blanks(),
      /*11*/ one_of({{{close, 12}, {"<function=", 2}}}),
      /*12*/ end(),
  };
}
constexpr auto kXml = xml_steps("</tool_call>");
constexpr auto kSeed = xml_steps("</seed:tool_call>");

// {"name": …, "parameters": {…}}; {…}  or  NAME.call(KEY="VALUE", …)
constexpr CallStep kLlama[] = {
    /*0*/ blanks(),
    /*1*/ one_of({{{"{", 2}}}, 8),
    /*2*/ {.kind = Kind::kJsonCall, .begin = Begin::kObject, .is_sure = false},
    /*3*/ call(),
    /*4*/ blanks(),
    /*5*/ mark(";"),
    /*6*/ blanks(),
    /*7*/ mark("{", 2),
    /*8*/ name({{{".call(", 9}}}),
    /*9*/ arguments(Begin::kCall, &kPython),
    /*10*/ call(),
    /*11*/ end(),
};

// [TOOL_CALLS] [{"name": …, "arguments": {…}}, …]  or  [TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{…}
constexpr CallStep kMistral[] = {
    /*0*/ blanks(),
    /*1*/ one_of({{{"[", 2}}}, 8),
    /*2*/ blanks(),
    /*3*/ json_call(),
    /*4*/ call(),
    /*5*/ blanks(),
    /*6*/ one_of({{{",", 2}, {"]", 7}}}),
    /*7*/ end(),
    /*8*/ name({{{"[CALL_ID]", 9}, {"[ARGS]", 10}}}),
    /*9*/ id({{{"[ARGS]", 10}}}),
    /*10*/ blanks(),
    /*11*/ arguments(),
    /*12*/ call(),
    /*13*/ end(),
};

// A list of JSON objects of names and arguments, and perhaps a mark behind it.
constexpr auto list_steps(std::string_view close) {
  return std::array{
      /*0*/ blanks(),
      /*1*/ mark("["),
      /*2*/ blanks(),
      /*3*/ json_call(),
      /*4*/ call(),
      /*5*/ blanks(),
      /*6*/ one_of({{{",", 2}, {"]", 7}}}),
      /*7*/ close.empty() ? end() : blanks(),
      /*8*/ close.empty() ? end() : mark(close),
      /*9*/ end(),
  };
}
constexpr auto kGranite = list_steps("");
constexpr auto kCohere = list_steps("<|END_ACTION|>");

// V3.1: NAME<sep>{…}; V3 and R1: function<sep>NAME\n```json\n{…}\n```
constexpr CallStep kDeepSeek[] = {
    /*0*/ blanks(),
    /*1*/ mark("<｜tool▁call▁begin｜>"),
    /*2*/ name({{{"<｜tool▁sep｜>", 3}}}),
    /*3*/ one_of({{{"{", 4}}}, 9),
    /*4*/ arguments(Begin::kObject),
    /*5*/ call(),
    /*6*/ blanks(),
    /*7*/ mark("<｜tool▁call▁end｜>", 14),
    /*8*/ end(),
    /*9*/ name({{{"\n```json\n", 10}}}),
    /*10*/ arguments(),
    /*11*/ call(),
    /*12*/ blanks(),
    /*13*/ mark("```", 6),
    /*14*/ blanks(),
    /*15*/ one_of({{{"<｜tool▁call▁begin｜>", 2}, {"<｜tool▁calls▁end｜>", 16}}}),
    /*16*/ end(),
};

// <invoke name="NAME"><parameter name="KEY" string="true|false">VALUE</parameter></invoke>
constexpr auto dsml_steps(std::string_view close) {
  return std::array{
      /*0*/ blanks(),
      /*1*/ mark("<｜DSML｜invoke name=\""),
      /*2*/ name({{{"\">", 3}}}),
      /*3*/ blanks(),
      /*4*/ one_of({{{"<｜DSML｜parameter name=\"", 5}, {"</｜DSML｜invoke>", 11}}}),
      /*5*/ key({{{"\" string=\"true\">", 6}, {"\" string=\"false\">", 7}}}),
      /*6*/ text("</｜DSML｜parameter>", 8, StepStyle::kString),
      /*7*/ text("</｜DSML｜parameter>", 8, StepStyle::kJson),
      /*8*/ blanks(),
      /*9*/ one_of({{{"<｜DSML｜parameter name=\"", 5}, {"</｜DSML｜invoke>", 11}}}, 10),
      /*10*/ text("</｜DSML｜parameter>", 8, StepStyle::kString),
      /*11*/ call(),
      /*12*/ blanks(),
      /*13*/ one_of({{{"<｜DSML｜invoke name=\"", 2}, {close, 14}}}),
      /*14*/ end(),
  };
}
constexpr auto kDsml32 = dsml_steps("</｜DSML｜function_calls>");
constexpr auto kDsml4 = dsml_steps("</｜DSML｜tool_calls>");

// functions.NAME:0<|tool_call_argument_begin|>{…}
constexpr CallStep kKimi[] = {
    /*0*/ blanks(),
    /*1*/ mark("<|tool_call_begin|>"),
    /*2*/ blanks(),
    /*3*/ name({{{"<|tool_call_argument_begin|>", 4}}}),
    /*4*/ blanks(),
    /*5*/ arguments(),
    /*6*/ call(),
    /*7*/ blanks(),
    /*8*/ mark("<|tool_call_end|>"),
    /*9*/ blanks(),
    /*10*/ one_of({{{"<|tool_call_begin|>", 2}, {"<|tool_calls_section_end|>", 11}}}),
    /*11*/ end(),
};

// <tool_call>NAME\n<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n</tool_call>
constexpr CallStep kGlm[] = {
    /*0*/ name({{{"\n", 1}, {"<arg_key>", 3}, {"</tool_call>", 10}}}),
    /*1*/ blanks(),
    /*2*/ one_of({{{"<arg_key>", 3}, {"</tool_call>", 10}}}),
    /*3*/ key({{{"</arg_key>", 4}}}),
    /*4*/ blanks(),
    /*5*/ mark("<arg_value>"),
    /*6*/ text("</arg_value>", 7),
    /*7*/ blanks(),
    /*8*/ one_of({{{"<arg_key>", 3}, {"</tool_call>", 10}}}, 6),
    /*9*/ end(),
    /*10*/ call(),
    /*11*/ end(),
};

// <|tool_call>call:NAME{KEY:VALUE,…}<tool_call|>
constexpr CallStep kGemma[] = {
    mark("call:"), name({{{"{", 2}}}), arguments(Begin::kObject, &kGemmaValues),
    call(),        blanks(),           mark("<tool_call|>"),
    end(),
};

// <|tool_call_start|>[NAME(KEY="VALUE"), …]<|tool_call_end|>
constexpr CallStep kLfm[] = {
    /*0*/ blanks(),
    /*1*/ mark("["),
    /*2*/ blanks(),
    /*3*/ name({{{"(", 4}}}),
    /*4*/ arguments(Begin::kCall, &kPython),
    /*5*/ call(),
    /*6*/ blanks(),
    /*7*/ one_of({{{",", 2}, {"]", 8}}}),
    /*8*/ blanks(),
    /*9*/ mark("<|tool_call_end|>"),
    /*10*/ end(),
};

// <invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>
constexpr CallStep kMiniMax[] = {
    /*0*/ blanks(),
    /*1*/ mark("<invoke name=\""),
    /*2*/ name({{{"\">", 3}}}),
    /*3*/ blanks(),
    /*4*/ one_of({{{"<parameter name=\"", 5}, {"</invoke>", 9}}}),
    /*5*/ key({{{"\">", 6}}}),
    /*6*/ text("</parameter>", 7),
    /*7*/ blanks(),
    /*8*/ one_of({{{"<parameter name=\"", 5}, {"</invoke>", 9}}}, 6),
    /*9*/ call(),
    /*10*/ blanks(),
    /*11*/ one_of({{{"<invoke name=\"", 2}, {"</minimax:tool_call>", 12}}}),
    /*12*/ end(),
};

// {…} behind "to=functions.NAME<|message|>"
constexpr CallStep kHarmony[] = {blanks(), arguments(), call(), end()};

// What several templates write comes behind what only one does.
constexpr ToolFormat kFormats[] = {
    {.name = "harmony",
     .telltales = {"<|channel|>analysis", "<|start|>"},
     .steps = kHarmony,
     .has_one_call = true,
     .has_channels = true},
    {.name = "gemma4",
     .telltales = {"<|tool_call>call:"},
     .begins = {{{"<|tool_call>", 0}}},
     .steps = kGemma,
     .end_token = "<|tool_response>"},
    {.name = "kimi",
     .telltales = {"<|tool_calls_section_begin|>"},
     .begins = {{{"<|tool_calls_section_begin|>", 0}}},
     .steps = kKimi,
     .writing = {Writing::Style::kNumbered, "<|tool_calls_section_begin|><|tool_call_begin|>",
                 "<|tool_call_end|><|tool_call_begin|>",
                 "<|tool_call_end|><|tool_calls_section_end|>", "<|tool_call_argument_begin|>"},
     .numbers_names = true},
    {.name = "deepseek-v4",
     .telltales = {"｜DSML｜", "'tool_calls>"},
     .begins = {{{"<｜DSML｜tool_calls>", 0}}},
     .steps = kDsml4},
    {.name = "deepseek-v3.2",
     .telltales = {"｜DSML｜"},
     .begins = {{{"<｜DSML｜function_calls>", 0}}},
     .steps = kDsml32},
    {.name = "deepseek-v3",
     .telltales = {"<｜tool▁calls▁begin｜>"},
     .begins = {{{"<｜tool▁calls▁begin｜>", 0}}},
     .steps = kDeepSeek},
    {.name = "glm", .telltales = {"<arg_key>"}, .begins = {{{"<tool_call>", 0}}}, .steps = kGlm},
    {.name = "minimax",
     .telltales = {"<minimax:tool_call>"},
     .begins = {{{"<minimax:tool_call>", 0}}},
     .steps = kMiniMax},
    {.name = "seed",
     .telltales = {"<seed:tool_call>"},
     .begins = {{{"<seed:tool_call>", 0}}},
     .steps = kSeed},
    {.name = "xml",
     .telltales = {"<function="},
     .begins = {{{"<tool_call>", 0}, {"<function=", 2}}},
     .steps = kXml},
    {.name = "mistral",
     .telltales = {"[TOOL_CALLS]"},
     .begins = {{{"[TOOL_CALLS]", 0}}},
     .steps = kMistral,
     .has_nine_letter_ids = true},
    {.name = "cohere",
     .telltales = {"<|START_ACTION|>"},
     .begins = {{{"<|START_ACTION|>", 0}}},
     .steps = kCohere},
    {.name = "granite3",
     .telltales = {"<|tool_call|>"},
     .begins = {{{"<|tool_call|>", 0}}},
     .steps = kGranite,
     .writing = {Writing::Style::kJson, "<|tool_call|>[", ", ", "]"}},
    {.name = "lfm2",
     .telltales = {"List of tools: "},
     .begins = {{{"<|tool_call_start|>", 0}}},
     .steps = kLfm,
     .writing = {Writing::Style::kPython, "<|tool_call_start|>[", ", ", "]<|tool_call_end|>"}},
    {.name = "hermes",
     .telltales = {"<tool_call>"},
     .begins = {{{"<tool_call>", 0}}},
     .steps = kHermes,
     .writing = {Writing::Style::kJson, "<tool_call>\n", "\n</tool_call>\n<tool_call>\n",
                 "\n</tool_call>"}},
    {.name = "llama3",
     .telltales = {"<|python_tag|>"},
     .begins = {{{"<|python_tag|>", 0}, {"{", 2, true}}},
     .steps = kLlama,
     .has_one_call = true},
};

}  // namespace

std::span<const ToolFormat> tool_formats() { return kFormats; }

const ToolFormat* find_tool_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &ToolFormat::name);
  return found == std::end(kFormats) ? nullptr : &*found;
}

const ToolFormat* find_format_of_template(std::string_view chat_template) {
  const auto found = std::ranges::find_if(kFormats, [&](const ToolFormat& format) {
    return std::ranges::all_of(format.telltales, [&](std::string_view telltale) {
      return chat_template.contains(telltale);
    });
  });
  return found == std::end(kFormats) ? nullptr : &*found;
}

const ToolFormat& hermes_format() { return *find_tool_format("hermes"); }

std::vector<std::string_view> marks_of(const ToolFormat& format) {
  std::vector<std::string_view> marks;
  const auto add = [&](std::string_view text) {
    if (!text.empty()) marks.push_back(text);
  };
  for (const ToolFormat::Begin& begin : format.begins) add(begin.mark);
  for (const CallStep& step : format.steps) {
    add(step.mark);
    for (const CallStep::Way& way : step.ways) add(way.mark);
    if (step.kind == Kind::kArguments) add(step.dialect->quotes[0]);
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
