#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "base/quantity.h"
#include "host/load_model.h"
#include "main/cache/cache_client.h"
#include "main/cache/cache_commands.h"
#include "main/exit_code.h"
#include "main/read_input.h"
#include "model/fingerprint.h"
#include "tier/disk_tier.h"
#include "tier/prefix_file/import_prefix.h"

namespace kvik {
namespace {

constexpr size_t kMinKeyBytes = 16;

struct CacheImportOptions {
  std::string in;
  std::string disk;
  uint64_t disk_bytes = DiskTierOptions().max_bytes;
  std::string key;    // path; empty: signatures are not checked
  std::string model;  // empty: the model is not checked
  CacheClientFlags client;
};

// Refuses pages that this build would not compute. The names of arithmetics after this part depend
// on the model and the instruction set.
Result<void> check_build(const CacheImportOptions& options, const CacheIdentity& identity) {
  const std::string ours = numerics({});
  if (identity.numerics.starts_with(ours)) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' was computed by another build of Kvik or with another C library "
                          "('{}', expected '{}…'): export it again with this build",
                          options.in, printable(identity.numerics), ours));
}

Result<void> check_model_of(const CacheImportOptions& options, const CacheIdentity& identity) {
  if (options.model.empty()) return {};
  TRY_ASSIGN(const LoadedModel loaded, load_model(ModelOptions{.model = options.model}));
  const Model& model = *loaded.model;
  if (identity.model != model.fingerprint()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' has pages of the model {}, but {} is the model {}", options.in,
                            printable(identity.model), options.model, model.fingerprint()));
  }
  if (identity.numerics == model.numerics()) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' was computed with the arithmetic '{}', expected '{}'", options.in,
                          printable(identity.numerics), model.numerics()));
}

Result<int> import_cache(const CacheImportOptions& options) {
  TRY_ASSIGN(const CacheClient client, options.client.resolve());
  TRY_ASSIGN(std::string key, read_signing_key(options.key));
  const bool has_key = !key.empty();
  TRY_ASSIGN(PrefixFileReader file, PrefixFileReader::open(options.in, std::move(key)));
  const PrefixFileHeader& header = file.header();
  TRY(check_build(options, header.identity));
  TRY(check_model_of(options, header.identity));
  if (header.is_signed && !has_key) {
    log::warn("the signature of '{}' is not checked: no --key is given", options.in);
  }
  TRY_ASSIGN(const auto tier,
             DiskTier::open({.folder = options.disk, .max_bytes = options.disk_bytes}));
  TRY(import_prefix(file, *tier, {.salt = client.salt, .known = client.known}));
  streams::print("{} in {} of {} imported, KV type {}\n", counted(header.n_tokens, "token"),
                 counted(header.n_records, "page"), format_bytes(header.page_bytes),
                 printable(header.identity.kv_type));
  return kExitOk;
}

}  // namespace

Result<std::string> read_signing_key(const std::string& path) {
  if (path.empty()) return std::string();
  TRY_ASSIGN(std::string key, read_input(path));
  key.erase(key.find_last_not_of(" \t\r\n") + 1);
  if (key.size() >= kMinKeyBytes) return key;
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("the key in '{}' has {} bytes, expected at least {} (openssl rand -hex 32 "
                  "makes one)",
                  path, key.size(), kMinKeyBytes));
}

Flag signing_key_flag(std::string& path, const std::string& help) {
  return Flag("--key", as_path(path), help).called("FILE");
}

void add_cache_import(CommandLine& line, const Flags& cache) {
  auto options = std::make_shared<CacheImportOptions>();
  Flags flags =
      line.add(cache, "import", "Check a file of kvik cache export and store its pages in a folder",
               [options] { return finish(import_cache(*options)); });
  flags.add({
      Flag("IN", &options->in, "the file").required(),
      Flag("--disk", as_path(options->disk),
           "the folder of kvik serve --disk; no server may use it")
          .called("DIR")
          .required(),
      {"--disk-size", as_bytes(options->disk_bytes),
       "size limit of the --disk folder; the least recently used pages are evicted (default: "
       "20GiB)"},
      signing_key_flag(options->key,
                       "accept only a file that is signed with the secret in this file"),
      Flag("-m,--model", &options->model, "accept only pages of this model, which is loaded for it")
          .is_model()
          .called("MODEL"),
  });
  options->client.add_to(flags);
  flags.examples({
      "kvik cache import agent.kvp --disk pages/",
      "kvik cache import agent.kvp --disk pages/ --client alice --api-key-file keys.txt",
      "kvik cache import agent.kvp --disk pages/ --key secret.txt -m model.gguf",
  });
}

}  // namespace kvik
