#include "main/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

#include "base/quantity.h"
#include "base/text/nearest_name.h"

namespace kvik {
namespace {

template <class Target, class Value>
Words words(const char* type, Target& target, Result<Value> (*parse)(std::string_view)) {
  return {.type = type, .read = [&target, parse](const std::string& text) {
            const auto value = parse(text);
            if (value) target = *value;
            return value ? std::string() : value.error().message;
          }};
}

template <class T>
struct Unwrapped {
  using Type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using Type = T;
};

// Returns the flag's bounds; the range of the type if the flag has none.
template <class Number>
Between<Number> bounds_of(const Flag::Bounds& bounds) {
  return std::visit(
      [](const auto& b) -> Between<Number> {
        if constexpr (std::is_same_v<std::decay_t<decltype(b)>, std::monostate>) {
          return {std::numeric_limits<Number>::lowest(), std::numeric_limits<Number>::max()};
        } else {
          return {static_cast<Number>(b.least), static_cast<Number>(b.most)};
        }
      },
      bounds);
}

// Returns a parser for plain numbers, with an error message that names the expected range.
template <class Target>
Words as_number(Target& target, const Flag::Bounds& bounds) {
  using Number = typename Unwrapped<Target>::Type;
  constexpr bool kIsWhole = std::is_integral_v<Number>;
  return {.type = kIsWhole ? "N" : "NUMBER",
          .read = [&target, range = bounds_of<Number>(bounds),
                   is_bounded = bounds.index() != 0](const std::string& text) -> std::string {
            Number number{};
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            const bool is_number = error == std::errc() && rest == end;
            if (is_number && number >= range.least && number <= range.most) {
              target = number;
              return "";
            }
            const char* const what = kIsWhole ? "an integer" : "a number";
            if (!kIsWhole && !is_bounded) return fmt::format("'{}' is not {}", text, what);
            return fmt::format("'{}' is not {} from {} to {}", text, what, range.least, range.most);
          }};
}

CLI::Option* add_words(CLI::App& app, const Flag& flag, const Words& words) {
  const auto set = [read = words.read](const std::string& text) { read(text); };
  return app.add_option_function<std::string>(flag.name, set, flag.help)
      ->check(words.read)
      ->type_name(words.type);
}

CLI::Option* add_target(CLI::App& app, const Flag& flag) {
  return std::visit(
      [&](const auto& to) -> CLI::Option* {
        using To = std::decay_t<decltype(to)>;
        if constexpr (std::is_same_v<To, Words>) {
          return add_words(app, flag, to);
        } else if constexpr (std::is_same_v<To, bool*>) {
          return app.add_flag(flag.name, *to, flag.help);
        } else if constexpr (std::is_arithmetic_v<
                                 typename Unwrapped<std::remove_pointer_t<To>>::Type>) {
          CLI::Option* const option = add_words(app, flag, as_number(*to, flag.bounds));
          if constexpr (std::is_arithmetic_v<std::remove_pointer_t<To>>) {
            if (flag.shows_default) option->default_str(fmt::format("{}", *to));
          }
          return option;
        } else if constexpr (std::is_same_v<To, std::vector<std::string>*>) {
          CLI::Option* option = app.add_option(flag.name, *to, flag.help);
          // A flag takes one value or a comma-separated list, and may be repeated. A positional
          // argument takes all remaining words.
          if (flag.name.starts_with('-')) option->allow_extra_args(false)->delimiter(',');
          return option;
        } else {
          CLI::Option* const option = app.add_option(flag.name, *to, flag.help);
          if (flag.shows_default) option->capture_default_str();
          return option;
        }
      },
      flag.to);
}

// Breaks a help text into lines, which the library indents.
std::string wrapped(const std::string& help) {
  constexpr size_t kColumns = 76;
  std::string lines;
  size_t n_columns = 0;
  std::istringstream words(help);
  for (std::string word; words >> word;) {
    const bool is_first = lines.empty(), is_full = n_columns + 1 + word.size() > kColumns;
    if (!is_first) lines += is_full ? '\n' : ' ';
    n_columns = is_first || is_full ? word.size() : n_columns + 1 + word.size();
    lines += word;
  }
  return lines;
}

}  // namespace

Words as_count(uint64_t& value) { return words("N", value, parse_count); }
Words as_count(std::optional<uint64_t>& value) { return words("N", value, parse_count); }
Words as_counts(std::vector<uint64_t>& values) { return words("N,…", values, parse_counts); }
Words as_bytes(uint64_t& value) { return words("SIZE", value, parse_bytes); }

Words not_zero(Words words) {
  words.read = [read = std::move(words.read)](const std::string& text) {
    const bool is_zero = !text.empty() && text.find_first_of("123456789") == std::string::npos;
    const std::string wrong = read(text);
    return wrong.empty() && is_zero ? fmt::format("'{}' is zero, expected more", text) : wrong;
  };
  return words;
}

Words or_auto(Words words) {
  words.type += "|auto";
  words.read = [read = std::move(words.read)](const std::string& text) {
    return text == "auto" ? std::string() : read(text);
  };
  return words;
}

Words as_path(std::string& path) {
  return {.type = "PATH", .read = [&path](const std::string& text) -> std::string {
            path = text;
            return text.empty() ? "expected the name of a file or folder, found an empty one" : "";
          }};
}
Words as_bytes(std::optional<uint64_t>& value) { return words("SIZE", value, parse_bytes); }
Words as_duration(Duration& value) { return words("TIME", value, parse_duration); }

Words as_text(std::optional<std::string>& value) {
  return {.type = "TEXT", .read = [&value](const std::string& text) {
            value = text;
            return std::string();
          }};
}

void Flags::add(const Flag& flag) {
  CLI::Option& option = *add_target(*app_, flag);
  if (!flag.choices.empty()) option.check(CLI::IsMember(flag.choices));
  if (!flag.called_type.empty()) option.type_name(flag.called_type);
  if (flag.names_model) {
    models_->push_back({app_, std::get<std::string*>(flag.to), flag.stored_name});
  }
  option.required(flag.is_required);
  option.description(wrapped(flag.help));
}

void Flags::add(std::initializer_list<Flag> flags) {
  for (const Flag& flag : flags) add(flag);
}

void Flags::add(const std::string& group, std::initializer_list<Flag> flags) {
  const std::string outer = app_->option_defaults()->get_group();
  app_->option_defaults()->group(group);
  add(flags);
  app_->option_defaults()->group(outer);
}

void Flags::keep_unstored(const std::string* model) {
  for (ModelArgument& argument : *models_) {
    if (argument.model == model) argument.downloads = false;
  }
}

void Flags::describe(const std::string& name, const std::string& help) {
  app_->get_option(name)->description(wrapped(help));
}

void Flags::make_optional(const std::string& name) { app_->get_option(name)->required(false); }

void Flags::exclude(const std::string& name, std::initializer_list<std::string> others) {
  for (const std::string& other : others) {
    app_->get_option(name)->excludes(app_->get_option(other));
  }
}

std::vector<GivenFlag> Flags::given() const {
  std::vector<GivenFlag> flags;
  for (const CLI::Option* option : app_->get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const bool takes_value = option->get_expected_max() > 0;
    flags.emplace_back(option->get_lnames().front(),
                       takes_value ? option->results() : std::vector<std::string>());
  }
  return flags;
}

Result<std::string> Flags::long_name(const std::string& name) const {
  std::vector<std::string> known;
  for (const CLI::Option* option : app_->get_options()) {
    const auto& names = option->get_lnames();
    if (std::ranges::count(names, name) > 0) return names.front();
    known.insert(known.end(), names.begin(), names.end());
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("unknown flag '{}'{}", name, did_you_mean(name, known)));
}

void Flags::examples(std::initializer_list<const char*> lines) {
  app_->footer(fmt::format("Examples:\n  {}", fmt::join(lines, "\n  ")));
}

}  // namespace kvik
