#include "cli/chat_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <limits>

#include "service/check_request.h"

namespace kvik {
namespace {

// Reads a value into the settings; false where it is none of its kind.
using Assign = bool (*)(ChatSettings& settings, std::string_view value);
using Show = std::string (*)(const ChatSettings& settings);
using Reset = void (*)(ChatSettings& settings, const ChatSettings& initial);

struct Setting {
  std::string_view name;
  std::string_view expected;
  Assign assign;
  Show show;
  Reset reset;
};

template <class Number>
bool read(std::string_view text, Number& out) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && rest == end;
}

template <class Number>
bool read(std::string_view text, std::optional<Number>& out) {
  Number number{};
  if (!read(text, number)) return false;
  out = number;
  return true;
}

bool read_switch(std::string_view text, bool& out) {
  out = text == "on" || text.empty();
  return out || text == "off";
}

std::string_view name_of(bool value) { return value ? "on" : "off"; }

template <auto member>
constexpr Setting sampling_setting(std::string_view name, std::string_view expected) {
  return {name, expected,
          [](ChatSettings& s, std::string_view value) { return read(value, s.sampling.*member); },
          [](const ChatSettings& s) { return fmt::format("{}", s.sampling.*member); },
          [](ChatSettings& s, const ChatSettings& initial) {
            s.sampling.*member = initial.sampling.*member;
          }};
}

constexpr std::string_view kNumber = "a number";

constexpr Setting kSettings[] = {
    sampling_setting<&SamplingParams::temperature>("temperature", kNumber),
    sampling_setting<&SamplingParams::top_k>("top_k", "a whole number"),
    sampling_setting<&SamplingParams::top_p>("top_p", kNumber),
    sampling_setting<&SamplingParams::min_p>("min_p", kNumber),
    sampling_setting<&SamplingParams::repetition_penalty>("repetition_penalty", kNumber),
    sampling_setting<&SamplingParams::presence_penalty>("presence_penalty", kNumber),
    sampling_setting<&SamplingParams::frequency_penalty>("frequency_penalty", kNumber),
    {"seed", "a whole number, or random",
     [](ChatSettings& s, std::string_view value) {
       if (value != "random") return read(value, s.seed);
       s.seed.reset();
       return true;
     },
     [](const ChatSettings& s) { return s.seed ? fmt::format("{}", *s.seed) : "random"; },
     [](ChatSettings& s, const ChatSettings& initial) { s.seed = initial.seed; }},
    {"max_tokens", "a whole number, or none",
     [](ChatSettings& s, std::string_view value) {
       if (value != "none") return read(value, s.max_tokens);
       s.max_tokens.reset();
       return true;
     },
     [](const ChatSettings& s) { return s.max_tokens ? fmt::format("{}", *s.max_tokens) : "none"; },
     [](ChatSettings& s, const ChatSettings& initial) { s.max_tokens = initial.max_tokens; }},
    {"stop", "a text, or none",
     [](ChatSettings& s, std::string_view value) {
       s.stop.clear();
       if (value != "none") s.stop.emplace_back(value);
       return true;
     },
     [](const ChatSettings& s) {
       return s.stop.empty() ? std::string("none") : fmt::format("{}", fmt::join(s.stop, ", "));
     },
     [](ChatSettings& s, const ChatSettings& initial) { s.stop = initial.stop; }},
    {"thinking", "on or off",
     [](ChatSettings& s, std::string_view value) {
       return read_switch(value, s.thinking.emplace());
     },
     [](const ChatSettings& s) {
       return std::string(s.thinking ? name_of(*s.thinking) : "default");
     },
     [](ChatSettings& s, const ChatSettings& initial) { s.thinking = initial.thinking; }},
    {"stats", "on or off",
     [](ChatSettings& s, std::string_view value) { return read_switch(value, s.stats); },
     [](const ChatSettings& s) { return std::string(name_of(s.stats)); },
     [](ChatSettings& s, const ChatSettings& initial) { s.stats = initial.stats; }},
};

std::unexpected<Error> refuse(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

CompletionRequest completion_request(const ChatSettings& settings) {
  CompletionRequest request;
  request.sampling = settings.sampling;
  request.seed = settings.seed;
  request.max_tokens = settings.max_tokens;
  request.stop = settings.stop;
  request.ignore_eos = settings.ignore_eos;
  request.cache = settings.cache;
  return request;
}

Result<ChatSettings> with(const ChatSettings& settings, const Assignment& assignment,
                          const ChatSettings& initial, const ModelCard& card) {
  for (const Setting& setting : kSettings) {
    if (setting.name != assignment.name) continue;
    ChatSettings changed = settings;
    if (assignment.value == "default") {
      setting.reset(changed, initial);
      return changed;
    }
    const bool is_switch = setting.expected == "on or off";
    if ((assignment.value.empty() && !is_switch) || !setting.assign(changed, assignment.value)) {
      return refuse(
          fmt::format("{} is '{}', expected {}", setting.name, assignment.value, setting.expected));
    }
    TRY(check_request(completion_request(changed), card));
    return changed;
  }
  return refuse(fmt::format("there is no setting '{}'; expected one of {}", assignment.name,
                            fmt::join(setting_names(), ", ")));
}

std::vector<std::pair<std::string, std::string>> list(const ChatSettings& settings) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Setting& setting : kSettings) out.emplace_back(setting.name, setting.show(settings));
  return out;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Setting& setting : kSettings) names.emplace_back(setting.name);
  return names;
}

}  // namespace kvik
