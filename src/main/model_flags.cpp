#include "main/model_flags.h"

#include <fmt/format.h>

#include <charconv>

#include "base/quantity.h"
#include "main/environment.h"

namespace kvik {
namespace {

template <class Value>
using Parse = Result<Value> (*)(std::string_view);

template <class Value, class Target>
CLI::Option* add_quantity(CLI::App& command, const std::string& name, Target& value,
                          const std::string& help, Parse<Value> parse) {
  return command
      .add_option_function<std::string>(
          name, [&value, parse](const std::string& text) { value = parse(text).value_or(Value()); },
          help)
      ->check([parse](const std::string& text) {
        const auto parsed = parse(text);
        return parsed ? std::string() : parsed.error().message;
      });
}

}  // namespace

CLI::Option* add_count(CLI::App& command, const std::string& name, uint64_t& value,
                       const std::string& help) {
  return add_quantity(command, name, value, help, parse_count)->type_name("N");
}

CLI::Option* add_count(CLI::App& command, const std::string& name, std::optional<uint64_t>& value,
                       const std::string& help) {
  return add_quantity(command, name, value, help, parse_count)->type_name("N");
}

CLI::Option* add_counts(CLI::App& command, const std::string& name, std::vector<uint64_t>& values,
                        const std::string& help) {
  return add_quantity(command, name, values, help, parse_counts)->type_name("N,…");
}

CLI::Option* add_bytes(CLI::App& command, const std::string& name, uint64_t& value,
                       const std::string& help) {
  return add_quantity(command, name, value, help, parse_bytes)->type_name("SIZE");
}

CLI::Option* add_duration(CLI::App& command, const std::string& name, Duration& value,
                          const std::string& help) {
  return command
      .add_option_function<std::string>(
          name,
          [&value](const std::string& text) {
            value = parse_duration(text).value_or(Duration::zero());
          },
          help)
      ->check([](const std::string& text) {
        const auto parsed = parse_duration(text);
        return parsed ? std::string() : parsed.error().message;
      })
      ->type_name("TIME");
}

void add_model_flags(CLI::App& command, ModelOptions& options) {
  options.isa = environment("KVIK_ISA");
  command
      .add_option("MODEL", options.model,
                  "a .gguf file, a Hugging Face folder, 'demo' (the embedded model) or "
                  "synthetic:PRESET[:TYPE]")
      ->required();
  command
      .add_option("--threads", options.n_threads,
                  "threads that compute (default: one per processor)")
      ->check(CLI::Range(1u, 1024u));
  command
      .add_option_function<std::string>(
          "--kv-type",
          [&options](const std::string& name) { options.kv_type = *kv_type_from_name(name); },
          fmt::format("what K and V are stored as: {} (default: {})", kKvTypeNames,
                      name_of(options.kv_type)))
      ->check([](const std::string& name) {
        return kv_type_from_name(name)
                   ? std::string()
                   : fmt::format("'{}' is no KV type; expected {}", name, kKvTypeNames);
      })
      ->type_name("TYPE");
  command
      .add_option_function<std::string>(
          "--huge-pages",
          [&options](const std::string& text) {
            options.huge_pages = text == "on" ? cpu::HugePages::kOn : cpu::HugePages::kOff;
          },
          "ask the system for pages of 2 MiB (default: on)")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("on|off");
  add_count(command, "--ctx", options.n_ctx, "tokens of context (default: as trained)");
}

Result<std::vector<TokenId>> parse_token_list(const std::string& text) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    TokenId id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (rest != end && *rest != ',')) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("--tokens is '{}', expected ids with commas between, such as 1,2,3", text));
    }
    ids.push_back(id);
    if (rest == end) return ids;
    at = rest + 1;
  }
}

}  // namespace kvik
