#include "service/template_traits.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace kvik {
namespace {

constexpr std::string_view kTool = "kvik_probe_tool", kCalled = "kvik_probe_call",
                           kProbeWords = "kvik probe words", kResult = "kvik probe result";
constexpr std::string_view kId = "kvikprobe";  // nine letters, which some templates require

Json text(std::string_view words) { return {std::string(words)}; }

std::vector<Json> tools() {
  Json::Fields parameters = {{"type", text("object")}, {"properties", {Json::Fields{}}}};
  Json::Fields function = {{"name", text(kTool)},
                           {"description", text("Looks.")},
                           {"parameters", {std::move(parameters)}}};
  return {{Json::Fields{{"type", text("function")}, {"function", {std::move(function)}}}}};
}

class TenantIsolation {
 public:
  explicit TenantIsolation(const RenderTemplate& render) : render_(render) {}

  // Returns the rendered text; empty if the template raises an error.
  std::string rendered(std::vector<Message> messages, std::vector<Json> given_tools = {}) const {
    ChatRequest request;
    request.messages = std::move(messages);
    request.tools = std::move(given_tools);
    const auto text = render_(request);
    return text ? text->bytes() : "";
  }

 private:
  const RenderTemplate& render_;
};

bool is_between(std::string_view all, std::string_view words, std::string_view before,
                std::string_view after) {
  const size_t at = all.find(words);
  return at != all.npos && all.find(before) < at && all.find(after, at) != all.npos;
}

}  // namespace

bool names_role(std::string_view source, std::string_view role) {
  return source.contains(fmt::format("'{}'", role)) || source.contains(fmt::format("\"{}\"", role));
}

TemplateTraits traits_of(std::string_view source, const RenderTemplate& render) {
  const TenantIsolation prober(render);
  const Message user = text_message("user", "Hello.");
  const Message words = text_message("system", std::string(kProbeWords));
  TemplateTraits traits;
  traits.writes_tools = prober.rendered({user}, tools()).contains(kTool);
  ToolCall call{.id = std::string(kId),
                .name = std::string(kCalled),
                .arguments = {Json::Fields{{"key", text("kvik_probe_value")}}}};
  Message result = text_message("tool", std::string(kResult));
  result.tool_call_id = kId;
  result.name = kCalled;
  const auto rendered_call = [&] {
    const Message calling{.role = "assistant", .parts = {TextPart{}, call}};
    return prober.rendered({user, calling, result}, tools());
  };
  std::string called = rendered_call();
  if (called.empty()) {  // the template concatenates arguments as a string
    call.arguments = text(R"({"key": "kvik_probe_value"})");
    called = rendered_call();
  }
  // A template that fails on calls may still support results.
  const Message words_alone = text_message("assistant", "Two.");
  const std::string answered =
      called.empty() ? prober.rendered({user, words_alone, result}, tools()) : called;
  traits.writes_calls = called.contains(kCalled) && called.contains("kvik_probe_value");
  traits.writes_results = answered.contains(kResult);
  traits.takes_system = prober.rendered({words, user}).contains(kProbeWords);
  const std::string later =
      prober.rendered({text_message("user", "One."), text_message("assistant", "Two."), words,
                       text_message("user", "Three.")});
  traits.takes_system_between = is_between(later, kProbeWords, "Two.", "Three.");
  traits.knows_developer = names_role(source, "developer");
  traits.reads_thinking = source.contains("message.thinking");
  return traits;
}

}  // namespace kvik
