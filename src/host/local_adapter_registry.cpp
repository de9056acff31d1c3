#include "host/local_adapter_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "base/quantity.h"
#include "host/load_adapter.h"
#include "model/adapter.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxAdapters = 65'536;  // names; memory has room for fewer adapters

Result<void> check_name(const std::string& name) {
  const auto may_be = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == '/';
  };
  const bool is_plain = !name.empty() && name.size() <= kMaxNameBytes && name.front() != '/' &&
                        std::ranges::all_of(name, may_be);
  if (is_plain) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the name of an adapter is '{}', expected 1 to {} letters, digits and "
                          "characters of '._-/'",
                          printable(name), kMaxNameBytes),
              "name");
}

// Returns whether the second path is below the first one. Both are without symbolic links.
bool is_below(const fs::path& root, const fs::path& path) {
  const auto [end, rest] = std::ranges::mismatch(root, path);
  return end == root.end() && rest != path.end();
}

// Returns whether all files of an adapter are below the root, with symbolic links resolved. A
// missing file is reported later, when it is opened.
bool has_files_below(const fs::path& root, const fs::path& adapter) {
  return std::ranges::all_of(adapter_files(adapter.string()), [&](const std::string& file) {
    std::error_code error;
    const fs::path target = fs::canonical(file, error);
    return error == std::errc::no_such_file_or_directory || (!error && is_below(root, target));
  });
}

std::unexpected<Error> no_such_adapter(std::string_view name) {
  return fail(ErrorCode::kNotFound, fmt::format("there is no adapter '{}'", printable(name)),
              "model");
}

}  // namespace

Result<void> LocalAdapterRegistry::add_named() {
  for (const std::string& named : options_.named) {
    const size_t equals = named.find('=');
    if (equals == std::string::npos) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("--adapter is '{}', expected NAME=PATH or NAME=PATH:SCALE",
                              printable(named)));
    }
    TRY_ASSIGN(const AdapterCard card,
               add(named.substr(0, equals), named.substr(equals + 1), AdapterOrigin::kOperator));
    log::info("adapter {}: {} pairs of rank {} and less, {}", card.name,
              card.loaded ? card.loaded->n_pairs : 0, card.loaded ? card.loaded->rank : 0,
              format_bytes(card.loaded ? card.loaded->bytes : 0));
  }
  if (!options_.named.empty() || !options_.folder.empty()) {
    log::info("memory of adapters: {}, of at most {} beside the rest", format_bytes(held_bytes()),
              format_bytes(options_.budget_bytes));
  }
  return {};
}

AdapterCard LocalAdapterRegistry::card_of(const std::string& name, const Entry& entry) {
  AdapterCard card{.name = name,
                   .path = entry.spec.path,
                   .scale = entry.spec.scale,
                   .created_s = entry.created_s,
                   .loaded = {}};
  if (const Adapter* adapter = entry.adapter.get()) {
    card.loaded = AdapterCard::Loaded{.bytes = adapter->bytes(),
                                      .rank = adapter->rank(),
                                      .n_pairs = adapter->n_pairs(),
                                      .digest = adapter->digest()};
  }
  return card;
}

std::vector<AdapterCard> LocalAdapterRegistry::list() const {
  const MutexLock lock(mutex_);
  std::vector<AdapterCard> cards;
  for (const auto& [name, entry] : entries_) cards.push_back(card_of(name, entry));
  return cards;
}

bool LocalAdapterRegistry::has(std::string_view name) const {
  const MutexLock lock(mutex_);
  return entries_.find(name) != entries_.end();
}

bool LocalAdapterRegistry::is_loaded(std::string_view name) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  return found != entries_.end() && found->second.adapter;
}

// Returns the path with symbolic links resolved. Clients may only name adapters below the folder of
// --adapter-folder.
Result<std::string> LocalAdapterRegistry::allowed_path(const std::string& path,
                                                       AdapterOrigin origin) const {
  if (origin == AdapterOrigin::kOperator) return path;
  if (options_.folder.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "clients can load adapters only if the server was started with "
                "--adapter-folder",
                "path");
  }
  std::error_code error;
  const fs::path root = fs::canonical(options_.folder, error);
  const fs::path wanted = error ? fs::path() : fs::canonical(root / path, error);
  if (!error && is_below(root, wanted) && has_files_below(root, wanted)) return wanted.string();
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("path is '{}', expected a file or folder below that of "
                          "--adapter-folder",
                          printable(path)),
              "path");
}

// Unloads adapters that no request uses until n_bytes fit into the budget. The caller holds
// loading_, so that no other load uses the freed memory.
Result<void> LocalAdapterRegistry::make_room(const std::string& name, uint64_t n_bytes) {
  if (n_bytes > options_.budget_bytes) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the adapter '{}' takes {}, but all adapters together may take {}",
                            name, format_bytes(n_bytes), format_bytes(options_.budget_bytes)),
                "model");
  }
  while (held_bytes() + n_bytes > options_.budget_bytes) {
    std::shared_ptr<const Adapter> unloaded;  // freed after the lock is released
    const MutexLock lock(mutex_);
    Entry* oldest = nullptr;
    for (auto& [other, entry] : entries_) {
      const bool is_idle = entry.adapter && entry.adapter.use_count() == 1;
      if (is_idle && (!oldest || entry.last_used < oldest->last_used)) oldest = &entry;
    }
    if (!oldest) {
      return fail(ErrorCode::kExhausted,
                  fmt::format("the adapter '{}' takes {}, but those that requests are using hold "
                              "{} of the {} for all: try again later",
                              name, format_bytes(n_bytes), format_bytes(held_bytes()),
                              format_bytes(options_.budget_bytes)),
                  "model");
    }
    unloaded = std::exchange(oldest->adapter, nullptr);
  }
  return {};
}

Result<std::shared_ptr<const Adapter>> LocalAdapterRegistry::load(const std::string& name,
                                                                  const AdapterSpec& spec) {
  TRY_ASSIGN(const auto source, open_adapter(spec.path, model_.config(), spec.scale));
  const uint64_t n_bytes = Adapter::bytes_of(*source, model_.config(), backend_);
  TRY(make_room(name, n_bytes));
  TRY_ASSIGN(auto adapter, load_adapter(*source, {model_, backend_, model_spec_}));
  held_bytes_->fetch_add(n_bytes);
  return std::shared_ptr<const Adapter>(adapter.release(),
                                        [held = held_bytes_, n_bytes](const Adapter* last) {
                                          delete last;
                                          held->fetch_sub(n_bytes);
                                        });
}

std::optional<LocalAdapterRegistry::Entry> LocalAdapterRegistry::look_up(std::string_view name) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  found->second.last_used = ++uses_;
  return found->second;
}

Result<std::shared_ptr<const Adapter>> LocalAdapterRegistry::take(std::string_view name) {
  std::optional<Entry> entry = look_up(name);
  if (!entry) return no_such_adapter(name);
  if (entry->adapter) return entry->adapter;
  const MutexLock loading(loading_);
  entry = look_up(name);  // another thread may have loaded it meanwhile
  if (!entry) return no_such_adapter(name);
  if (entry->adapter) return entry->adapter;
  TRY_ASSIGN(auto adapter, load(std::string(name), entry->spec));
  const MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  if (found != entries_.end() && found->second.number == entry->number) {
    found->second.adapter = adapter;
  }
  return adapter;
}

Result<AdapterCard> LocalAdapterRegistry::add(const std::string& name, const std::string& spec,
                                              AdapterOrigin origin) {
  TRY(check_name(name));
  TRY_ASSIGN(AdapterSpec parsed, parse_adapter_spec(spec));
  TRY_ASSIGN(parsed.path, allowed_path(parsed.path, origin));
  const auto taken = [&] {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the adapter '{}' exists already; use another name", name), "name");
  };
  if (has(name)) return taken();
  const MutexLock loading(loading_);
  TRY_ASSIGN(auto adapter, load(name, parsed));
  const MutexLock lock(mutex_);
  if (entries_.size() >= kMaxAdapters) {
    return fail(
        ErrorCode::kExhausted,
        fmt::format("there are {} adapters already, expected at most as many", entries_.size()),
        "name");
  }
  const auto [entry, is_new] = entries_.try_emplace(name);
  if (!is_new) return taken();
  entry->second = {.spec = std::move(parsed),
                   .created_s = static_cast<uint64_t>(std::time(nullptr)),
                   .number = ++n_names_added_,
                   .last_used = ++uses_,
                   .adapter = std::move(adapter)};
  return card_of(name, entry->second);
}

Result<void> LocalAdapterRegistry::remove(std::string_view name) {
  std::shared_ptr<const Adapter> removed;  // freed after the lock is released
  const MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return no_such_adapter(name);
  removed = std::move(found->second.adapter);
  entries_.erase(found);
  return {};
}

}  // namespace kvik
