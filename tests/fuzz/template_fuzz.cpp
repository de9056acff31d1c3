// Any bytes as a chat template, parsed and rendered with a conversation: it renders or says why
// not, within its budget, and knows of each byte who wrote it.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "template/chat_template.h"

namespace kvik {
namespace {

using jinja::Origin;
using jinja::Value;

Value given(std::string text) { return jinja::make_text(std::move(text), Origin::kGiven); }

Value dict(std::vector<std::pair<std::string, Value>> entries) {
  jinja::Dict made;
  for (auto& [name, value] : entries) made.entries.emplace_back(given(name), std::move(value));
  return made;
}

ChatTemplate::Variables conversation() {
  const Value call = dict(
      {{"id", given("call12345")},
       {"function", dict({{"name", given("f")},
                          {"arguments", dict({{"x", Value(int64_t{1})}, {"y", Value(0.5)}})}})}});
  return {
      {"messages",
       jinja::make_list({
           dict({{"role", given("system")}, {"content", given("Be brief. <|im_end|>")}}),
           dict({{"role", given("user")}, {"content", given("  h\u00e9llo \U0001F389\n")}}),
           dict({{"role", given("assistant")},
                 {"content", Value(jinja::None{})},
                 {"tool_calls", jinja::make_list({call})}}),
           dict({{"role", given("tool")}, {"content", given("{\"a\": [1, 2]}")}}),
           dict({{"role", given("assistant")}, {"content", given("<think>so</think>that \xff")}}),
       })},
      {"tools", jinja::make_list({dict({{"type", given("function")}, {"function", call}})})},
      {"add_generation_prompt", Value(true)},
      {"bos_token", jinja::make_text("<s>")},
      {"eos_token", jinja::make_text("</s>")},
  };
}

void check_origins(const jinja::Text& text) {
  size_t end = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    CHECK(run.end > end);
    end = run.end;
  }
  CHECK(end == text.size());
}

}  // namespace
}  // namespace kvik

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  static const kvik::ChatTemplate::Variables variables = kvik::conversation();
  const auto parsed =
      kvik::ChatTemplate::parse(std::string_view(reinterpret_cast<const char*>(data), n_bytes));
  if (!parsed) return 0;
  // Less than a server gives, so that a run tries many.
  constexpr kvik::jinja::Limits kLimits{.max_steps = 20'000, .max_bytes = 1 << 20};
  const auto text = parsed->render(variables, kLimits, 1'750'000'000);
  if (!text) return 0;
  CHECK(text->size() <= kLimits.max_bytes);
  kvik::check_origins(*text);
  return 0;
}
