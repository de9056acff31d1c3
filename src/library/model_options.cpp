#include "library/model_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/text/nearest_name.h"
#include "server/dialects/json_fields.h"
#include "service/tools/tool_format.h"
#include "template/chat_template.h"

namespace kvik {

namespace json = boost::json;

namespace {

using Read = Result<void> (*)(const JsonFields& fields, LibraryOptions& options);

Result<void> wrong(std::string_view name, std::string_view value, std::string_view expected) {
  return refuse(name, fmt::format("{} is '{}', expected {}", name, printable(value), expected));
}

// Reads a member of the given type into `to`, if it is present.
Result<void> read_to(const JsonFields& fields, std::string_view name, std::string& to) {
  TRY_ASSIGN(const auto value, fields.text(name));
  if (value) to = *value;
  return {};
}
Result<void> read_to(const JsonFields& fields, std::string_view name, bool& to) {
  TRY_ASSIGN(const auto value, fields.flag(name));
  if (value) to = *value;
  return {};
}
template <std::unsigned_integral T>
Result<void> read_to(const JsonFields& fields, std::string_view name, T& to) {
  TRY_ASSIGN(const auto value, fields.count<T>(name));
  if (value) to = *value;
  return {};
}

Result<void> read_context(const JsonFields& fields, LibraryOptions& options) {
  TRY_ASSIGN(const auto n_ctx, fields.count<uint32_t>("ctx"));
  if (!n_ctx) return {};
  if (*n_ctx == 0) return wrong("ctx", "0", "a number of tokens");
  options.model.n_ctx = *n_ctx;
  options.model.chooses_ctx = false;
  return {};
}

Result<void> read_kv_type(const JsonFields& fields, LibraryOptions& options) {
  TRY_ASSIGN(const auto name, fields.text("kv_type"));
  if (!name) return {};
  const auto type = kv_type_from_name(*name);
  if (!type) return wrong("kv_type", *name, kKvTypeNames);
  options.model.kv_type = *type;
  return {};
}

Result<void> read_device(const JsonFields& fields, LibraryOptions& options) {
  TRY_ASSIGN(const auto name, fields.text("device"));
  if (!name) return {};
  TRY_ASSIGN(options.model.gpu, gpu_from_name(*name));
  return {};
}

Result<void> read_huge_pages(const JsonFields& fields, LibraryOptions& options) {
  TRY_ASSIGN(const auto is_on, fields.flag("huge_pages"));
  if (is_on) options.model.huge_pages = *is_on ? HugePages::kOn : HugePages::kOff;
  return {};
}

Result<void> read_table_place(const JsonFields& fields, LibraryOptions& options) {
  TRY_ASSIGN(const auto place, fields.text("per_layer_embeddings"));
  if (!place) return {};
  if (*place != "memory" && *place != "file") {
    return wrong("per_layer_embeddings", *place, "memory or file");
  }
  options.model.leaves_tables_in_file = *place == "file";
  return {};
}

Result<void> read_adapters(const JsonFields& fields, LibraryOptions& options) {
  TRY_ASSIGN(const auto adapters, fields.object("adapters"));
  if (!adapters) return {};
  for (const auto& [name, path] : adapters->all()) {
    TRY_ASSIGN(const auto text, adapters->text(name));
    if (name.contains('=')) {  // what would follow it counts as the path
      return wrong("the name of an adapter", name, "no '='");
    }
    if (text) {
      options.serving.adapters.named.push_back(fmt::format("{}={}", std::string_view(name), *text));
    }
  }
  return {};
}

Result<void> read_chat_template(const JsonFields& fields, LibraryOptions& options) {
  TRY_ASSIGN(const auto source, fields.text("chat_template"));
  if (!source) return {};
  const auto parsed = ChatTemplate::parse(*source);
  if (!parsed) return refuse("chat_template", "chat_template: " + parsed.error().message);
  options.serving.chat.chat_template = *source;
  return {};
}

Result<void> read_disk(const JsonFields& fields, LibraryOptions& options) {
  TRY_ASSIGN(const auto folder, fields.text("disk"));
  TRY_ASSIGN(const auto max_bytes, fields.count<uint64_t>("disk_bytes"));
  if (!folder && max_bytes)
    return refuse("disk_bytes", "disk_bytes needs the option disk, a folder");
  if (!folder) return {};
  options.disk = DiskTierOptions{.folder = *folder};
  if (max_bytes) options.disk->max_bytes = *max_bytes;
  options.serving.chat.answer_folder = *folder;
  return {};
}

Result<void> read_tool_format(const JsonFields& fields, LibraryOptions& options) {
  TRY_ASSIGN(const auto name, fields.text("tool_format"));
  if (!name) return {};
  if (*name != "none" && !find_tool_format(*name)) {
    std::string names = "none";
    for (const ToolFormat& format : tool_formats()) names += fmt::format(", {}", format.name);
    return wrong("tool_format", *name, names);
  }
  options.serving.chat.tool_format = *name;
  return {};
}

struct Option {
  std::string_view name;
  std::string_view flag;  // of the program
  Read read;
};

// Each member has an entry; "disk_bytes" is read with "disk".
constexpr Option kOptions[] = {
    {"name", "--served-model-name",
     [](const auto& f, auto& o) { return read_to(f, "name", o.model.name); }},
    {"ctx", "--ctx", read_context},
    {"threads", "--threads",
     [](const auto& f, auto& o) { return read_to(f, "threads", o.model.n_threads); }},
    {"kv_type", "--kv-type", read_kv_type},
    {"kv_bytes", "--kv-memory",
     [](const auto& f, auto& o) -> Result<void> {
       TRY_ASSIGN(o.kv_bytes, f.template count<uint64_t>("kv_bytes"));
       return {};
     }},
    {"huge_pages", "--huge-pages", read_huge_pages},
    {"per_layer_embeddings", "--per-layer-embeddings", read_table_place},
    {"isa", "--isa", [](const auto& f, auto& o) { return read_to(f, "isa", o.model.isa); }},
    {"device", "--device", read_device},
    {"overcommit", "--overcommit",
     [](const auto& f, auto& o) { return read_to(f, "overcommit", o.model.overcommits); }},
    {"adapter", "--adapter",
     [](const auto& f, auto& o) { return read_to(f, "adapter", o.model.adapter); }},
    {"adapters", "--adapter", read_adapters},
    {"adapter_folder", "--adapter-folder",
     [](const auto& f, auto& o) {
       return read_to(f, "adapter_folder", o.serving.adapters.folder);
     }},
    {"adapter_bytes", "--adapter-memory",
     [](const auto& f, auto& o) {
       return read_to(f, "adapter_bytes", o.serving.adapters.budget_bytes);
     }},
    {"draft", "--draft", [](const auto& f, auto& o) { return read_to(f, "draft", o.draft); }},
    {"speculate", "--speculate",
     [](const auto& f, auto& o) -> Result<void> {
       TRY_ASSIGN(const auto is_on, f.flag("speculate"));
       if (is_on && !*is_on) o.engine.speculation.mode = SpeculationOptions::Mode::kOff;
       return {};
     }},
    {"chat_template", "--chat-template", read_chat_template},
    {"tool_format", "--tool-format", read_tool_format},
    {"disk", "--disk", read_disk},
    {"disk_bytes", "--disk-size", [](const auto&, auto&) { return Result<void>(); }},
    {"max_running", "--max-running",
     [](const auto& f, auto& o) { return read_to(f, "max_running", o.engine.max_running); }},
    {"max_queue", "--max-queue",
     [](const auto& f, auto& o) { return read_to(f, "max_queue", o.engine.max_queue); }},
};

Result<void> check_names(const json::object& object) {
  std::vector<std::string> known;
  for (const Option& option : kOptions) known.emplace_back(option.name);
  for (const auto& member : object) {
    const std::string_view name = member.key();
    if (std::ranges::find(known, name) != known.end()) continue;
    return refuse(
        name, fmt::format("there is no option '{}'{}", printable(name), did_you_mean(name, known)));
  }
  return {};
}

}  // namespace

Result<json::object> parse_options(std::string_view text) {
  if (text.empty()) return json::object();
  boost::system::error_code failed;
  json::value value = json::parse(text, failed);
  if (failed) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the options are not valid JSON: {}", failed.message()));
  }
  if (!value.is_object()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the options are {}, expected a JSON object", kind_name(value)));
  }
  return std::move(value.get_object());
}

Result<LibraryOptions> read_library_options(std::string_view text) {
  LibraryOptions options;
  options.model.shows_progress = false;
  TRY_ASSIGN(const json::object object, parse_options(text));
  TRY(check_names(object));
  const JsonFields fields(object);
  for (const Option& option : kOptions) TRY(option.read(fields, options));
  return options;
}

std::string in_library_terms(std::string_view message) {
  const auto is_of_flag = [](char c) { return c == '-' || (c >= 'a' && c <= 'z'); };
  std::string text;
  while (!message.empty()) {
    const size_t at = std::min(message.find("--"), message.size());
    text += message.substr(0, at);
    message.remove_prefix(at);
    const auto end = std::ranges::find_if_not(message, is_of_flag);
    const std::string_view flag(message.begin(), end);
    const auto option = std::ranges::find(kOptions, flag, &Option::flag);
    text += option == std::end(kOptions) ? flag : option->name;
    message.remove_prefix(flag.size());
  }
  return text;
}

}  // namespace kvik
