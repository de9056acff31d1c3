#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "hub/stores/model_store.h"
#include "hub/stores/unfinished.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/models/hub_options.h"

namespace kvik {
namespace {

// Returns a time since now as "3 days ago".
std::string age_text(int64_t seconds_since_1970) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now).count() - seconds_since_1970;
  if (seconds < 60) return "now";
  const auto n = static_cast<uint64_t>(seconds);
  if (n < 3600) return counted(n / 60, "minute") + " ago";
  if (n < 86400) return counted(n / 3600, "hour") + " ago";
  return counted(n / 86400, "day") + " ago";
}

std::string models_json(const std::vector<StoredModel>& models) {
  boost::json::array list;
  for (const StoredModel& model : models) {
    list.push_back({{"name", valid_utf8(model.name)},
                    {"path", valid_utf8(model.path)},
                    {"bytes", model.n_bytes},
                    {"digest", model.digest},
                    {"modified", model.modified},
                    {"format", model.format},
                    {"family", model.family},
                    {"parameter_size", model.parameter_size},
                    {"quantization", model.quantization}});
  }
  return boost::json::serialize(list) + "\n";
}

Result<int> list_models(bool as_json) {
  TRY_ASSIGN(HubOptions options, hub_options());
  ModelStore store(std::move(options));
  const std::vector<StoredModel> models = store.list();
  if (as_json) {
    streams::write(models_json(models));
    return kExitOk;
  }
  size_t width = 4;
  for (const StoredModel& model : models) width = std::max(width, model.name.size());
  streams::print("{:<{}}  {:>10}  {:<10}{:<14}{:<10}{}\n", "NAME", width, "SIZE", "WEIGHTS",
                 "FAMILY", "PARAMS", "MODIFIED");
  for (const StoredModel& model : models) {
    const std::string& weights = model.quantization.empty() ? model.format : model.quantization;
    streams::print("{:<{}}  {:>10}  {:<10}{:<14}{:<10}{}\n", model.name, width,
                   format_bytes(model.n_bytes), weights, model.family, model.parameter_size,
                   age_text(model.modified));
  }
  uint64_t n_unfinished = 0;
  for (const UnfinishedFile& file : find_unfinished(store.options()))
    n_unfinished += file.disk_bytes;
  if (n_unfinished > 0) {
    streams::print(
        "unfinished downloads take {}; kvik pull continues them, kvik rm --unfinished removes "
        "them\n",
        format_bytes(n_unfinished));
  }
  return kExitOk;
}

Result<int> remove_models(const std::vector<std::string>& names, bool removes_unfinished) {
  if (names.empty() && !removes_unfinished) {
    return fail(ErrorCode::kInvalidArgument, "kvik rm needs NAME or --unfinished");
  }
  TRY_ASSIGN(HubOptions options, hub_options());
  if (removes_unfinished) {
    TRY_ASSIGN(const uint64_t n_bytes, remove_unfinished(options));
    streams::print("removed {} of unfinished downloads\n", format_bytes(n_bytes));
  }
  ModelStore store(std::move(options));
  for (const std::string& name : names) {
    TRY(store.remove(name));
    streams::print("removed {}\n", name);
  }
  return kExitOk;
}

Result<int> copy_model(const std::string& from, const std::string& to) {
  TRY_ASSIGN(HubOptions options, hub_options());
  ModelStore store(std::move(options));
  TRY(store.copy(from, to));
  return kExitOk;
}

}  // namespace

void add_list(CommandLine& line) {
  auto as_json = std::make_shared<bool>(false);
  Flags flags = line.add("list", "List the models stored on this machine",
                         [as_json] { return finish(list_models(*as_json)); });
  flags.add({"--json", as_json.get(), "print an array of JSON objects"});
  flags.examples({"kvik list", "kvik list --json"});
}

void add_rm(CommandLine& line) {
  struct RemoveFlags {
    std::vector<std::string> names;
    bool unfinished = false;
  };
  auto options = std::make_shared<RemoveFlags>();
  Flags flags =
      line.add("rm", "Remove stored models, with the short names that they have",
               [options] { return finish(remove_models(options->names, options->unfinished)); });
  flags.add({
      Flag("NAME", &options->names,
           "names that kvik list shows; of a short name, only that is removed"),
      {"--unfinished", &options->unfinished, "remove unfinished downloads"},
  });
  flags.examples({"kvik rm Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M", "kvik rm qwen"});
}

void add_cp(CommandLine& line) {
  struct Names {
    std::string from, to;
  };
  auto names = std::make_shared<Names>();
  Flags flags = line.add("cp", "Give a stored model a short name; no byte is copied",
                         [names] { return finish(copy_model(names->from, names->to)); });
  flags.add({
      Flag("FROM", &names->from, "a name that kvik list shows").required(),
      Flag("TO", &names->to, "the short name, such as qwen or qwen:small").required(),
  });
  flags.examples({"kvik cp Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M qwen", "kvik run qwen"});
}

}  // namespace kvik
