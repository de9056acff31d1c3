#include "cli/chat_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <variant>

#include "base/text/nearest_name.h"
#include "service/check_request.h"
#include "service/sampling/sampling_fields.h"

namespace kvik {
namespace {

constexpr std::string_view kSwitch = "on or off";
constexpr std::string_view kShortTemperature = "temp";  // llama.cpp's name

struct Setting {
  std::string_view name;
  std::string_view expected;
  // Parses a value into the settings; returns false if it has the wrong type.
  std::function<bool(ChatSettings& settings, std::string_view value)> assign;
  std::function<std::string(const ChatSettings& settings)> show;
  std::function<void(ChatSettings& settings, const ChatSettings& initial)> reset;
};

template <class Number>
bool read(std::string_view text, Number& out) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && rest == end;
}

bool read_switch(std::string_view text, bool& out) {
  out = text == "on" || text.empty();
  return out || text == "off";
}

std::string_view name_of(bool value) { return value ? "on" : "off"; }

Setting sampling_setting(const SamplingField& field) {
  const bool is_whole = std::holds_alternative<SamplingNumber<uint32_t>>(field.number);
  return {field.name, is_whole ? "an integer" : "a number",
          [&field](ChatSettings& s, std::string_view value) {
            return read_field(field, value, s.request.engine.sampling);
          },
          [&field](const ChatSettings& s) {
            return std::visit([](auto value) { return fmt::format("{}", value); },
                              value_of(field, s.request.engine.sampling));
          },
          [&field](ChatSettings& s, const ChatSettings& initial) {
            std::visit(
                [&](const auto& number) {
                  number.in(s.request.engine.sampling) = number.of(initial.request.engine.sampling);
                },
                field.number);
          }};
}

// Returns a setting that is a number or the word for no value. number_of(settings) returns a
// reference to it.
template <class NumberOf>
Setting count_setting(std::string_view name, std::string_view none, NumberOf number_of) {
  return {name, none == "none" ? "an integer, or none" : "an integer, or random",
          [=](ChatSettings& s, std::string_view value) {
            number_of(s).reset();
            return value == none || read(value, number_of(s).emplace());
          },
          [=](const ChatSettings& s) {
            return number_of(s) ? fmt::format("{}", *number_of(s)) : std::string(none);
          },
          [=](ChatSettings& s, const ChatSettings& initial) { number_of(s) = number_of(initial); }};
}

std::vector<Setting> make_settings() {
  std::vector<Setting> settings;
  for (const SamplingField& field : sampling_fields()) settings.push_back(sampling_setting(field));
  settings.push_back(count_setting(
      "seed", "random", [](auto& s) -> auto& { return s.request.seed; }));
  settings.push_back(count_setting(
      "max_tokens", "none", [](auto& s) -> auto& { return s.request.max_tokens; }));
  settings.push_back({"stop", "a text, or none",
                      [](ChatSettings& s, std::string_view value) {
                        s.request.output.stop.clear();
                        if (value != "none") s.request.output.stop.emplace_back(value);
                        return true;
                      },
                      [](const ChatSettings& s) {
                        const std::vector<std::string>& stop = s.request.output.stop;
                        return stop.empty() ? std::string("none")
                                            : fmt::format("{}", fmt::join(stop, ", "));
                      },
                      [](ChatSettings& s, const ChatSettings& initial) {
                        s.request.output.stop = initial.request.output.stop;
                      }});
  settings.push_back(
      {"thinking", kSwitch,
       [](ChatSettings& s, std::string_view value) {
         return read_switch(value, s.thinking.emplace());
       },
       [](const ChatSettings& s) {
         return std::string(s.thinking ? name_of(*s.thinking) : "default");
       },
       [](ChatSettings& s, const ChatSettings& initial) { s.thinking = initial.thinking; }});
  settings.push_back(count_setting(
      "reasoning_budget", "none", [](auto& s) -> auto& { return s.reasoning_budget; }));
  settings.push_back(
      {"stats", kSwitch,
       [](ChatSettings& s, std::string_view value) { return read_switch(value, s.stats); },
       [](const ChatSettings& s) { return std::string(name_of(s.stats)); },
       [](ChatSettings& s, const ChatSettings& initial) { s.stats = initial.stats; }});
  return settings;
}

const std::vector<Setting>& settings_table() {
  static const std::vector<Setting> table = make_settings();
  return table;
}

std::unexpected<Error> refuse(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

Result<ChatSettings> with(const ChatSettings& settings, const Assignment& assignment,
                          const ChatSettings& initial, const ModelCard& card) {
  const std::string name = setting_name(assignment.name);
  for (const Setting& setting : settings_table()) {
    if (setting.name != name) continue;
    ChatSettings changed = settings;
    if (assignment.value == "default") {
      setting.reset(changed, initial);
      return changed;
    }
    if (assignment.value.empty() && setting.expected != kSwitch) return changed;
    if (!setting.assign(changed, assignment.value)) {
      return refuse(
          fmt::format("{} is '{}', expected {}", setting.name, assignment.value, setting.expected));
    }
    TRY(check_request(changed.request, card));
    return changed;
  }
  if (name == "system") return refuse("the system prompt is not a setting; /system TEXT sets it");
  std::vector<std::string> known = setting_names();
  known.emplace_back(kShortTemperature);
  const std::string question = did_you_mean(name, known);
  if (!question.empty()) {
    return refuse(fmt::format("there is not a setting '{}'{}", assignment.name, question));
  }
  return refuse(fmt::format("there is not a setting '{}'; expected one of {}", assignment.name,
                            fmt::join(setting_names(), ", ")));
}

std::vector<std::pair<std::string, std::string>> list(const ChatSettings& settings) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Setting& setting : settings_table())
    out.emplace_back(setting.name, setting.show(settings));
  return out;
}

std::string setting_name(std::string_view name) {
  std::string underscored(name);
  std::ranges::replace(underscored, '-', '_');
  return underscored == kShortTemperature ? "temperature" : underscored;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Setting& setting : settings_table()) names.emplace_back(setting.name);
  return names;
}

}  // namespace kvik
