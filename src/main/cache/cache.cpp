#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/quantity.h"
#include "main/cache/cache_commands.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "service/history/answer_file.h"
#include "tier/disk_tier.h"

namespace kvik {
namespace {

Result<int> stat(const std::string& folder) {
  TRY_ASSIGN(const DiskTierReport report, inspect_disk_tier(folder));
  streams::print("pages     {} ({} tails of ended sequences), {} of K and V\n",
                 report.totals.n_pages, report.totals.n_tails, format_bytes(report.totals.n_bytes));
  streams::print("tokens    {}\n", report.totals.n_tokens);
  streams::print("roots     {} (combinations of model, KV type, build and salt)\n",
                 report.totals.n_roots);
  streams::print("segments  {}, {}\n", report.n_segments, format_bytes(report.segment_bytes));
  streams::print("in use    {}\n", report.is_locked ? "yes, by a running process" : "no");
  return kExitOk;
}

// Opens an existing disk tier. Maintenance commands must not create one.
Result<std::unique_ptr<DiskTier>> open_existing(const std::string& folder) {
  if (!std::filesystem::exists(folder + "/index.db")) {
    return fail(ErrorCode::kNotFound,
                fmt::format("'{}' is not a cache folder: it has no index.db", folder));
  }
  return DiskTier::open({.folder = folder, .max_bytes = uint64_t{1} << 62});
}

Result<int> verify(const std::string& folder) {
  TRY_ASSIGN(const auto tier, open_existing(folder));
  TRY_ASSIGN(const auto result, tier->verify());
  streams::print("{} pages read, {} damaged\n", result.n_pages, result.n_damaged);
  if (result.n_damaged > 0) streams::print("the damaged pages are removed from the index\n");
  return result.n_damaged > 0 ? kExitFailed : kExitOk;
}

Result<int> collect(const std::string& folder) {
  TRY_ASSIGN(const auto tier, open_existing(folder));
  TRY_ASSIGN(const auto result, tier->verify());
  TRY_ASSIGN(const uint64_t freed, tier->collect_garbage());
  streams::print("{} of {} pages were damaged and are removed, {} freed\n", result.n_damaged,
                 result.n_pages, format_bytes(freed));
  return kExitOk;
}

Result<int> clear(const std::string& folder) {
  TRY_ASSIGN(const auto tier, open_existing(folder));
  const TierSize before = tier->size();
  TRY(tier->clear());
  AnswerFile::remove_all(folder);
  streams::print("{} pages removed, {} freed\n", before.n_pages, format_bytes(before.n_bytes));
  return kExitOk;
}

}  // namespace

void add_cache(CommandLine& line) {
  struct Verb {
    const char* name;
    const char* help;
    Result<int> (*act)(const std::string&);
    const char* example;
  };
  static constexpr Verb kVerbs[] = {
      {"stat", "Print number and size of the pages; also works while a server uses the folder",
       stat, "kvik cache stat pages/"},
      {"verify", "Read and check every page; exit code 1 if one is damaged", verify,
       "kvik cache verify pages/"},
      {"gc", "Remove damaged pages and free unused disk space", collect, "kvik cache gc pages/"},
      {"clear", "Remove all pages, and the answers that were remembered", clear,
       "kvik cache clear pages/"},
  };
  auto folder = std::make_shared<std::string>();
  Flags command = line.add(
      "cache", "Inspect and maintain the folder of --disk, and take pages to another machine",
      nullptr);
  command.examples({"kvik cache stat pages/", "kvik cache verify pages/"});
  for (const Verb& verb : kVerbs) {
    Flags flags = line.add(command, verb.name, verb.help,
                           [folder, act = verb.act] { return finish(act(*folder)); });
    flags.add(Flag("DIR", folder.get(), "the folder of --disk").required());
    flags.examples({verb.example});
  }
  add_cache_export(line, command);
  add_cache_import(line, command);
  add_cache_warm(line, command);
}

}  // namespace kvik
