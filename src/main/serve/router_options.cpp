#include "main/serve/router_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/printable.h"
#include "base/quantity.h"
#include "host/load_model.h"
#include "hub/gguf_variants.h"
#include "main/models/model_argument.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kForever = "forever";

// Flags of the router itself, which the servers of its models do not get.
constexpr std::array kOwnFlags = {
    std::string_view("model"),
    std::string_view("models"),
    std::string_view("memory"),
    std::string_view("keep-alive"),
    std::string_view("warm-cache"),
    std::string_view("host"),
    std::string_view("port"),
    std::string_view("tls-cert"),
    std::string_view("tls-key"),
    std::string_view("access-log"),
    std::string_view("allow-host"),
    std::string_view("cors"),
    std::string_view("api-key"),
    std::string_view("allow-no-key"),
    std::string_view("disk"),
    std::string_view("disk-size"),
    std::string_view("disk-write"),
    std::string_view("alias"),
    std::string_view("served-model-name"),
};

// Returns the models in a folder and in its folders, sorted by path: folders with config.json, and
// GGUF files, of split ones the first piece.
Result<std::vector<std::string>> models_in(const std::string& folder) {
  constexpr int kDepth = 2;
  std::error_code error;
  std::vector<std::string> paths;
  std::vector<RepositoryFile> files;
  fs::recursive_directory_iterator at(folder, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    const bool is_model = fs::exists(at->path() / "config.json", error);
    if (is_model) paths.push_back(path);
    if (is_model || at.depth() >= kDepth) at.disable_recursion_pending();
    if (at->is_regular_file(error)) files.push_back({.path = path});
  }
  if (error)
    return fail(ErrorCode::kNotFound, fmt::format("--models {}: {}", folder, error.message()));
  for (const GgufVariant& variant : find_gguf_variants(files))
    paths.push_back(variant.pieces.front().path);
  std::ranges::sort(paths);
  return paths;
}

// Parses a duration or "forever", which is no duration. Errors: kInvalidArgument.
Result<std::optional<Duration>> keep_alive_of(const std::string& text) {
  if (text == kForever) return std::optional<Duration>();
  TRY_ASSIGN(const Duration duration, parse_duration(text));
  return std::optional(duration);
}

RouterModel* find_model(std::vector<RouterModel>& models, const std::string& name) {
  const auto it = std::ranges::find(models, name, [](const RouterModel& m) { return m.spec.name; });
  return it == models.end() ? nullptr : &*it;
}

std::unexpected<Error> wrong_section(const ModelSection& section, const std::string& message) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the config file: [models.{}]: {}", section.name, message));
}

Result<void> apply_section(const ModelSection& section, const Flags& flags, RouterModel& model) {
  for (const auto& [name, values] : section.flags) {
    if (name == "path") continue;
    if (name == "alias") {
      model.spec.aliases.insert(model.spec.aliases.end(), values.begin(), values.end());
      continue;
    }
    if (name == "keep-alive" && values.size() == 1) {
      auto keep_alive = keep_alive_of(values.front());
      if (!keep_alive) return wrong_section(section, keep_alive.error().message);
      model.spec.keep_alive = *keep_alive;
      continue;
    }
    const auto long_name = flags.long_name(name);
    if (!long_name) return wrong_section(section, long_name.error().message);
    if (std::ranges::count(kOwnFlags, *long_name) > 0)
      return wrong_section(section, fmt::format("{} belongs to the server, not to a model", name));
    model.flags.emplace_back(*long_name, values);
  }
  return {};
}

// Returns the path in a section; empty: it has none.
std::string path_in(const ModelSection& section) {
  for (const auto& [name, values] : section.flags)
    if (name == "path" && values.size() == 1) return values.front();
  return {};
}

// Checks that names are distinct, and short enough for the name of a folder.
Result<void> check_names(const std::vector<RouterModel>& models) {
  constexpr size_t kMaxBytes = 80;  // 240 when every byte is escaped
  std::vector<std::string> names;
  for (const RouterModel& model : models) {
    names.push_back(model.spec.name);
    names.insert(names.end(), model.spec.aliases.begin(), model.spec.aliases.end());
  }
  for (const std::string& name : names) {
    if (!name.empty() && name.size() <= kMaxBytes) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the name '{}' of a model has {} bytes, expected 1 to {}",
                            printable(name), name.size(), kMaxBytes));
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("two models are called '{}': give one of them another name in a section "
                          "[models.NAME] of the config file",
                          *twice));
}

}  // namespace

void RouterOptions::add_to(Flags& flags) {
  flags.add(
      "Several models",
      {
          {"MODELS", &more_models,
           "further models; requests choose one by its name. Each is served by a process of its "
           "own"},
          Flag("--models", as_path(folder),
               "serve all models in this folder: .gguf files and Hugging Face folders")
              .called("DIR"),
          {"--memory", not_zero(as_bytes(memory_bytes)),
           "memory of all loaded models and their caches; the least recently used are unloaded "
           "(default: nine tenths of the available memory)"},
          Flag("--keep-alive,--sleep-after",
               Words{.type = "TIME|forever",
                     .read =
                         [this](const std::string& text) {
                           const auto read = keep_alive_of(text);
                           if (!read) return read.error().message;
                           keep_alive = *read;
                           has_keep_alive = true;
                           return std::string();
                         }},
               "unload a model after this time without requests, and load it at the next one "
               "(default with several models: 5min; with one: forever)"),
          Flag("--warm-cache", &warm_cache,
               "keep KV pages of unloaded models in memory, as far as --memory allows; with --disk "
               "they are kept there instead")
              .one_of({"on", "off"})
              .with_default(),
      });
}

bool RouterOptions::name_models(const std::vector<ModelSection>& sections) const {
  const auto has_path = [](const ModelSection& section) { return !path_in(section).empty(); };
  return !more_models.empty() || !folder.empty() || std::ranges::any_of(sections, has_path);
}

Result<std::vector<RouterModel>> router_models(std::vector<NamedModel> first,
                                               const RouterOptions& options,
                                               const std::vector<ModelSection>& sections,
                                               const Flags& flags, UnmatchedSection unmatched) {
  for (const std::string& path : options.more_models) first.push_back({.path = path, .name = {}});
  if (!options.folder.empty()) {
    TRY_ASSIGN(const auto found, models_in(options.folder));
    for (const std::string& path : found) first.push_back({.path = path, .name = {}});
  }
  const auto add = [&](std::vector<RouterModel>& models, NamedModel named) -> Result<RouterModel*> {
    std::string stored;
    TRY(resolve_model_argument(named.path, &stored, IfNotStored::kDownload));
    if (named.name.empty()) named.name = stored.empty() ? model_id(named.path).text() : stored;
    return &models.emplace_back(RouterModel{.spec = {.name = std::move(named.name),
                                                     .aliases = {},
                                                     .path = std::move(named.path),
                                                     .keep_alive = options.keep_alive},
                                            .flags = {}});
  };
  std::vector<RouterModel> models;
  for (NamedModel& named : first) TRY(add(models, std::move(named)));
  for (const ModelSection& section : sections) {
    const std::string path = path_in(section);
    RouterModel* known = find_model(models, section.name);
    if (!known && path.empty() && unmatched == UnmatchedSection::kIgnored) continue;
    if (!known && path.empty())
      return wrong_section(section, "path is missing, and no other model has this name");
    if (known && !path.empty()) known->spec.path = path;
    if (!known) {
      TRY_ASSIGN(known, add(models, {.path = path, .name = section.name}));
    }
    TRY(apply_section(section, flags, *known));
  }
  if (models.empty() && !options.folder.empty())
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--models {}: there are no .gguf files and no Hugging Face folders",
                            options.folder));
  TRY(check_names(models));
  return models;
}

std::vector<std::string> server_arguments(const std::vector<GivenFlag>& for_all,
                                          const RouterModel& model) {
  std::vector<std::string> arguments;
  const auto add = [&](const GivenFlag& flag) {
    const auto& [name, values] = flag;
    if (values.empty()) arguments.push_back("--" + name);
    for (const std::string& value : values)
      arguments.push_back(fmt::format("--{}={}", name, value));
  };
  const auto is_own = [](const GivenFlag& flag) {
    return std::ranges::count(kOwnFlags, flag.first) > 0;
  };
  const auto is_replaced = [&](const GivenFlag& flag) {
    return std::ranges::count(model.flags, flag.first, &GivenFlag::first) > 0;
  };
  for (const GivenFlag& flag : for_all)
    if (!is_own(flag) && !is_replaced(flag)) add(flag);
  for (const GivenFlag& flag : model.flags) add(flag);
  return arguments;
}

}  // namespace kvik
