#include "tool_dialects.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace kvik {
namespace {

namespace json = boost::json;
using Calls = std::vector<ExpectedCall>;

std::string joined(const Calls& calls, std::string_view between,
                   std::string (*write)(const ExpectedCall&)) {
  std::string text;
  for (const ExpectedCall& call : calls)
    text.append(text.empty() ? "" : between).append(write(call));
  return text;
}

// Returns the text of a string, and any other value as JSON, like templates with `value if value is
// string else value | tojson`.
std::string plain(const std::string& value) {
  const json::value parsed = json::parse(value);
  return parsed.is_string() ? std::string(parsed.get_string().c_str()) : value;
}

bool is_text(const std::string& value) { return value.starts_with('"'); }

std::string named(const ExpectedCall& call, std::string_view name, std::string_view arguments) {
  return std::string("{\"")
      .append(name)
      .append("\": \"")
      .append(call.name)
      .append("\", \"")
      .append(arguments)
      .append("\": ")
      .append(json_of(call))
      .append("}");
}

std::string hermes(const Calls& calls) {
  return "<tool_call>\n" +
         joined(calls, "\n</tool_call>\n<tool_call>\n",
                [](const ExpectedCall& call) { return named(call, "name", "arguments"); }) +
         "\n</tool_call>";
}

std::string xml_function(const ExpectedCall& call) {
  std::string text = "<function=" + call.name + ">\n";
  for (const auto& [key, value] : call.arguments) {
    text += "<parameter=" + key + ">\n" + plain(value) + "\n</parameter>\n";
  }
  return text + "</function>\n";
}

std::string xml(const Calls& calls) {
  return joined(calls, "\n", [](const ExpectedCall& call) {
    return "<tool_call>\n" + xml_function(call) + "</tool_call>";
  });
}

std::string seed(const Calls& calls) {
  return "<seed:tool_call>\n" + joined(calls, "", xml_function) + "</seed:tool_call>";
}

std::string llama(const Calls& calls) {
  return joined(calls, "; ",
                [](const ExpectedCall& call) { return named(call, "name", "parameters"); });
}

std::string python_value(const json::value& value) {
  if (value.is_string()) {
    std::string text = "'";
    for (const char c : value.get_string()) {
      if (c == '\'' || c == '\\') text += '\\';
      if (c == '\n') {
        text += "\\n";
      } else {
        text += c;
      }
    }
    return text + "'";
  }
  if (value.is_bool()) return value.get_bool() ? "True" : "False";
  if (value.is_null()) return "None";
  std::string text;
  if (const auto* list = value.if_array()) {
    for (const json::value& item : *list) {
      text += (text.empty() ? "" : ", ") + python_value(item);
    }
    return "[" + text + "]";
  }
  if (const auto* object = value.if_object()) {
    for (const auto& item : *object) {
      text += (text.empty() ? "" : ", ") + python_value(json::value(item.key())) + ": " +
              python_value(item.value());
    }
    return "{" + text + "}";
  }
  return json::serialize(value);
}

std::string python_call(const ExpectedCall& call, std::string_view open) {
  std::string text;
  for (const auto& [key, value] : call.arguments) {
    text += (text.empty() ? "" : ", ") + key + "=" + python_value(json::parse(value));
  }
  return call.name + std::string(open) + text + ")";
}

std::string python_tag(const Calls& calls) {
  return "<|python_tag|>" + python_call(calls.front(), ".call(");
}

std::string lfm(const Calls& calls) {
  return "<|tool_call_start|>[" +
         joined(calls, ", ", [](const ExpectedCall& call) { return python_call(call, "("); }) +
         "]<|tool_call_end|>";
}

std::string mistral_list(const Calls& calls) {
  return "[TOOL_CALLS][" +
         joined(calls, ", ",
                [](const ExpectedCall& call) {
                  std::string text = named(call, "name", "arguments");
                  text.pop_back();
                  return text + ", \"id\": \"abc123XYZ\"}";
                }) +
         "]";
}

std::string mistral_names(const Calls& calls) {
  return joined(calls, "", [](const ExpectedCall& call) {
    return "[TOOL_CALLS]" + call.name + "[CALL_ID]abc123XYZ[ARGS]" + json_of(call);
  });
}

std::string deepseek_v31(const Calls& calls) {
  return "<｜tool▁calls▁begin｜>" +
         joined(calls, "",
                [](const ExpectedCall& call) {
                  return "<｜tool▁call▁begin｜>" + call.name + "<｜tool▁sep｜>" + json_of(call) +
                         "<｜tool▁call▁end｜>";
                }) +
         "<｜tool▁calls▁end｜>";
}

std::string deepseek_r1(const Calls& calls) {
  return "<｜tool▁calls▁begin｜>" +
         joined(calls, "\n",
                [](const ExpectedCall& call) {
                  return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + call.name + "\n```json\n" +
                         json_of(call) + "\n```<｜tool▁call▁end｜>";
                }) +
         "<｜tool▁calls▁end｜>";
}

std::string dsml(const Calls& calls, const std::string& section) {
  std::string text = "<｜DSML｜" + section + ">\n";
  for (const ExpectedCall& call : calls) {
    text += "<｜DSML｜invoke name=\"" + call.name + "\">\n";
    for (const auto& [key, value] : call.arguments) {
      text += "<｜DSML｜parameter name=\"" + key + "\" string=\"" +
              (is_text(value) ? "true" : "false") + "\">" + plain(value) + "</｜DSML｜parameter>\n";
    }
    text += "</｜DSML｜invoke>\n";
  }
  return text + "</｜DSML｜" + section + ">";
}

std::string kimi(const Calls& calls) {
  std::string text = "<|tool_calls_section_begin|>";
  for (size_t i = 0; i < calls.size(); ++i) {
    text += "<|tool_call_begin|>functions." + calls[i].name + ":" + std::to_string(i) +
            "<|tool_call_argument_begin|>" + json_of(calls[i]) + "<|tool_call_end|>";
  }
  return text + "<|tool_calls_section_end|>";
}

std::string glm(const Calls& calls) {
  return joined(calls, "\n", [](const ExpectedCall& call) {
    std::string text = "<tool_call>" + call.name + "\n";
    for (const auto& [key, value] : call.arguments) {
      text += "<arg_key>" + key + "</arg_key>\n<arg_value>" + plain(value) + "</arg_value>\n";
    }
    return text + "</tool_call>";
  });
}

std::string glm_dense(const Calls& calls) {
  return joined(calls, "", [](const ExpectedCall& call) {
    std::string text = "<tool_call>" + call.name;
    for (const auto& [key, value] : call.arguments) {
      text += "<arg_key>" + key + "</arg_key><arg_value>" + plain(value) + "</arg_value>";
    }
    return text + "</tool_call>";
  });
}

std::string gemma_value(const json::value& value) {
  if (value.is_string()) return "<|\"|>" + std::string(value.get_string().c_str()) + "<|\"|>";
  std::string text;
  if (const auto* list = value.if_array()) {
    for (const json::value& item : *list) text += (text.empty() ? "" : ",") + gemma_value(item);
    return "[" + text + "]";
  }
  if (const auto* object = value.if_object()) {
    for (const auto& item : *object) {
      text += (text.empty() ? "" : ",") + std::string(item.key()) + ":" + gemma_value(item.value());
    }
    return "{" + text + "}";
  }
  return value.is_null() ? "None" : json::serialize(value);
}

std::string gemma(const Calls& calls) {
  return joined(calls, "", [](const ExpectedCall& call) {
    std::string text;
    for (const auto& [key, value] : call.arguments) {
      text += (text.empty() ? "" : ",") + key + ":" + gemma_value(json::parse(value));
    }
    return "<|tool_call>call:" + call.name + "{" + text + "}<tool_call|>";
  });
}

std::string granite(const Calls& calls) {
  return "<|tool_call|>[" +
         joined(calls, ", ",
                [](const ExpectedCall& call) { return named(call, "name", "arguments"); }) +
         "]";
}

std::string cohere(const Calls& calls) {
  return "<|START_ACTION|>[\n    " +
         joined(calls, ",\n    ",
                [](const ExpectedCall& call) {
                  return "{\"tool_call_id\": \"0\", " +
                         named(call, "tool_name", "parameters").substr(1);
                }) +
         "\n]<|END_ACTION|>";
}

std::string minimax(const Calls& calls) {
  std::string text = "<minimax:tool_call>\n";
  for (const ExpectedCall& call : calls) {
    text += "<invoke name=\"" + call.name + "\">\n";
    for (const auto& [key, value] : call.arguments) {
      text += "<parameter name=\"" + key + "\">" + plain(value) + "</parameter>\n";
    }
    text += "</invoke>\n";
  }
  return text + "</minimax:tool_call>";
}

std::string minimax_element(std::string_view name, const json::value& value) {
  const std::string_view prefix = "]<]minimax[>[";
  std::string text = std::string(prefix).append("<").append(name).append(">");
  if (const auto* list = value.if_array()) {
    for (const json::value& item : *list) text += minimax_element("item", item);
  } else if (const auto* object = value.if_object()) {
    for (const auto& item : *object) text += minimax_element(item.key(), item.value());
  } else {
    text += plain(json::serialize(value));
  }
  return text.append(prefix).append("</").append(name).append(">");
}

std::string minimax_m3(const Calls& calls) {
  std::string text = "]<]minimax[>[<tool_call>\n";
  for (const ExpectedCall& call : calls) {
    text += "]<]minimax[>[<invoke name=\"" + call.name + "\">";
    for (const auto& [key, value] : call.arguments) {
      text += minimax_element(key, json::parse(value));
    }
    text += "]<]minimax[>[</invoke>\n";
  }
  return text + "]<]minimax[>[</tool_call>";
}

std::string minicpm5_value(const std::string& value) {
  const json::value parsed = json::parse(value);
  if (!parsed.is_string()) return python_value(parsed);
  const std::string text = plain(value);
  return text.find_first_of("<&\n") != text.npos ? "<![CDATA[" + text + "]]>" : text;
}

std::string minicpm5(const Calls& calls) {
  return joined(calls, "\n", [](const ExpectedCall& call) {
    std::string text = "<function name=\"" + call.name + "\">";
    for (const auto& [key, value] : call.arguments) {
      text += "<param name=\"" + key + "\">" + minicpm5_value(value) + "</param>";
    }
    return text + "</function>";
  });
}

std::string harmony(const Calls& calls) {
  return joined(calls, "<|call|><|start|>assistant", [](const ExpectedCall& call) {
    return "<|channel|>commentary to=functions." + call.name + " <|constrain|>json<|message|>" +
           json_of(call);
  });
}

std::string harmony_early(const Calls& calls) {
  return joined(calls, "<|call|><|start|>assistant", [](const ExpectedCall& call) {
    return " to=functions." + call.name + "<|channel|>commentary json<|message|>" + json_of(call);
  });
}

constexpr std::string_view kThink = "<think>%</think>\n\n";

}  // namespace

std::string framed(std::string_view frame, std::string_view words) {
  const size_t at = frame.find('%');
  return std::string(frame.substr(0, at)).append(words).append(frame.substr(at + 1));
}

std::string json_of(const ExpectedCall& call) {
  std::string text = "{";
  for (const auto& [key, value] : call.arguments) {
    text += (text.size() > 1 ? ", \"" : "\"") + key + "\": " + value;
  }
  return text + "}";
}

const std::vector<ToolDialect>& tool_dialects() {
  constexpr std::string_view kHarmonyReasoning =
      "<|channel|>analysis<|message|>%<|end|><|start|>assistant";
  constexpr std::string_view kHarmonyText =
      "<|channel|>commentary<|message|>%<|end|><|start|>assistant";
  static const std::vector<ToolDialect> all = {
      {"hermes", kThink, hermes, "<tool_call>\n{\"name\": 7, \"arguments\": {}}"},
      {"xml", kThink, xml, "<tool_call>\n<function=f>\nno parameter"},
      {"seed", "<seed:think>%</seed:think>", seed, "<seed:tool_call>\n<function=f>\nnone"},
      {"llama3", kThink, llama, "{\"name\": \"nobody\", \"parameters\": {}}", true},
      {"llama3", kThink, python_tag, "<|python_tag|>print(1)", false},
      {"mistral", "[THINK]%[/THINK]", mistral_list, "[TOOL_CALLS][1, 2]"},
      {"mistral", "[THINK]%[/THINK]", mistral_names, "[TOOL_CALLS]no such thing"},
      {"deepseek-v3", kThink, deepseek_v31, "<｜tool▁calls▁begin｜>nothing"},
      {"deepseek-v3", kThink, deepseek_r1, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a b"},
      {"deepseek-v3.2", kThink, [](const Calls& calls) { return dsml(calls, "function_calls"); },
       "<｜DSML｜function_calls>\nnothing"},
      {"deepseek-v4", kThink, [](const Calls& calls) { return dsml(calls, "tool_calls"); },
       "<｜DSML｜tool_calls>\n<｜DSML｜invoke nme="},
      {"kimi", kThink, kimi, "<|tool_calls_section_begin|>nothing"},
      {"glm", kThink, glm, "<tool_call>not a name"},
      {"glm", kThink, glm_dense, "<tool_call>f<arg_key>k</arg_key>nothing"},
      {"gemma4", "<|channel>thought\n%<channel|>", gemma, "<|tool_call>f{}"},
      {"granite3", kThink, granite, "<|tool_call|>{}"},
      {"cohere", "<|START_THINKING|>%<|END_THINKING|>", cohere, "<|START_ACTION|>[{\"a\": 1}]"},
      {"lfm2", kThink, lfm, "<|tool_call_start|>[f(1)]"},
      {"minimax", kThink, minimax, "<minimax:tool_call>\n<invoke>"},
      {"minimax-m3", kThink, minimax_m3, "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke>"},
      {"minicpm5", kThink, minicpm5, "<function name=\"f\">no parameter"},
      {"harmony", kHarmonyReasoning, harmony, "<|channel|>commentary to=functions.f<|message|>[1]",
       true, kHarmonyText},
      {"harmony", kHarmonyReasoning, harmony_early,
       " to=functions.f<|channel|>commentary<|message|>x", true, kHarmonyText},
  };
  return all;
}

}  // namespace kvik
