#include "hub/stores/model_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/file/atomic_file.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/ascii_case.h"
#include "format/gguf/gguf.h"
#include "hub/download/file_lock.h"
#include "hub/model_name.h"

namespace kvik {
namespace {

constexpr size_t kMaxKnownHeaders = 4096;

// The file that is replaced at each change of the stored models.
std::string version_path(const HubOptions& options) { return options.kvik_models + "/version"; }

std::unexpected<Error> not_stored(const std::string& name) {
  return fail(
      ErrorCode::kNotFound,
      fmt::format("no model '{}' is stored here; kvik list shows those that are", printable(name)));
}

// Returns a number of parameters as names of models write it: 135M, 1.5B, 70B.
std::string parameters_text(uint64_t n) {
  const double billions = static_cast<double>(n) * 1e-9;
  if (billions < 1) return fmt::format("{:.0f}M", billions * 1e3);
  return billions < 10 ? fmt::format("{:.1f}B", billions) : fmt::format("{:.0f}B", billions);
}

// Returns a name whose quantization or tag is in upper case.
std::string with_upper_quant(const std::string& name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos || name.find('/', colon) != std::string::npos) return name;
  return name.substr(0, colon) + ascii_upper(name.substr(colon));
}

const StoredEntry* find_usual(const std::vector<StoredEntry>& entries,
                              const std::string& repository) {
  std::vector<GgufVariant> variants;
  const StoredEntry* folder = nullptr;
  for (const StoredEntry& entry : entries) {
    if (entry.name == repository) return &entry;
    if (!entry.name.starts_with(repository + ":") ||
        entry.origin != StoredEntry::Origin::kHuggingFace)
      continue;
    if (entry.is_folder) folder = &entry;
    if (!entry.is_folder) variants.push_back({entry.quant, {{.path = entry.name}}});
  }
  const auto chosen = choose_variant(variants, "", repository);
  if (!chosen) return folder;
  return &*std::ranges::find(entries, chosen->pieces.front().path, &StoredEntry::name);
}

}  // namespace

ModelStore::ModelStore(HubOptions options)
    : options_(std::move(options)),
      hf_cache_(options_.hf_cache),
      ollama_(options_.ollama_models, options_.kvik_models + "/locks"),
      urls_(options_.kvik_models),
      short_names_(options_.kvik_models) {}

std::vector<StoredEntry> ModelStore::scan() const {
  std::vector<StoredEntry> entries = hf_cache_.scan();
  for (auto more : {ollama_.scan(), urls_.scan()}) {
    for (StoredEntry& entry : more) {
      const bool is_known = std::ranges::count(entries, entry.name, &StoredEntry::name) > 0;
      if (!is_known) entries.push_back(std::move(entry));
    }
  }
  return entries;
}

std::optional<StoredEntry> ModelStore::find_entry(const std::string& name) const {
  const std::vector<StoredEntry> entries = scan();
  const auto named = [&](const std::string& wanted) -> const StoredEntry* {
    const auto found = std::ranges::find(entries, wanted, &StoredEntry::name);
    return found == entries.end() ? nullptr : &*found;
  };
  const StoredEntry* found = named(name);
  if (found == nullptr) {
    const auto parsed = parse_model_name(name, options_);
    if (!parsed) return std::nullopt;
    found = named(parsed->text());
    // NAMESPACE/MODEL:TAG of Ollama's looks like ORG/REPO:QUANT.
    const bool is_hf = parsed->kind == ModelName::Kind::kHuggingFace;
    if (!found && is_hf && parsed->file.empty() && parsed->quant.empty())
      found = find_usual(entries, parsed->repository());
    if (!found && is_hf && parsed->quant.empty()) found = named(parsed->text() + ":latest");
    if (!found && is_hf && !parsed->quant.empty()) {
      const std::string wanted = with_upper_quant(parsed->text());
      const auto same = std::ranges::find_if(entries, [&](const StoredEntry& entry) {
        const std::string upper_name = with_upper_quant(entry.name);
        return upper_name == wanted || upper_name == fmt::format("{}:UD-{}", parsed->repository(),
                                                                 ascii_upper(parsed->quant));
      });
      if (same != entries.end()) found = &*same;
    }
    if (!found && is_hf && !parsed->file.empty()) {
      const auto same = std::ranges::find_if(entries, [&](const StoredEntry& entry) {
        return hf_cache_.has_file(entry, parsed->repository(), parsed->file);
      });
      if (same != entries.end()) found = &*same;
    }
  }
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::optional<StoredModel> ModelStore::find(const std::string& name) {
  const auto short_names = short_names_.read();
  const auto target = short_names.find(without_latest(name));
  const auto entry = find_entry(target == short_names.end() ? name : target->second);
  if (!entry) return std::nullopt;
  StoredModel model = describe(*entry);
  if (target != short_names.end()) model.name = target->first;
  return model;
}

std::vector<StoredModel> ModelStore::list() {
  std::vector<StoredModel> models;
  for (const StoredEntry& entry : scan()) models.push_back(describe(entry));
  const size_t n_stored = models.size();
  for (const auto& [short_name, name] : short_names_.read()) {
    for (size_t i = 0; i < n_stored; ++i) {
      if (models[i].name != name) continue;
      StoredModel model = models[i];
      model.name = short_name;
      models.push_back(std::move(model));
    }
  }
  std::ranges::sort(models, {}, &StoredModel::name);
  return models;
}

std::vector<StoredPath> ModelStore::paths() const {
  const std::vector<StoredEntry> entries = scan();
  std::vector<StoredPath> paths;
  for (const StoredEntry& entry : entries) paths.push_back({entry.name, entry.path});
  for (const auto& [short_name, name] : short_names_.read()) {
    const auto found = std::ranges::find(entries, name, &StoredEntry::name);
    if (found != entries.end()) paths.push_back({short_name, found->path});
  }
  std::ranges::sort(paths, {}, &StoredPath::name);
  return paths;
}

std::string ModelStore::version() const {
  struct stat about {};
  if (::stat(version_path(options_).c_str(), &about) != 0) return {};
  return fmt::format("{} {} {}", about.st_ino, about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
}

void ModelStore::mark_changed() const {
  static std::atomic<uint64_t> n_changes{0};
  const std::string text = fmt::format("{} {}\n", ::getpid(), n_changes.fetch_add(1));
  const auto written = [&]() -> Result<void> {
    TRY(make_folders(options_.kvik_models));
    return write_atomically(version_path(options_), text, 0666);
  }();
  if (!written)
    log::warn("running servers do not notice the change of the stored models: {}",
              written.error().message);
}

StoredModel ModelStore::describe(const StoredEntry& entry) {
  StoredModel model{.name = entry.name,
                    .path = entry.path,
                    .n_bytes = entry.n_bytes,
                    .digest = entry.digest,
                    .modified = entry.modified,
                    .format = entry.is_folder ? "safetensors" : "gguf",
                    .family = "",
                    .parameter_size = "",
                    .quantization = entry.quant};
  if (entry.origin == StoredEntry::Origin::kOllama) {
    const OllamaConfig config = ollama_.config_of(entry);
    model.family = config.family;
    model.parameter_size = config.parameter_size;
    model.quantization = config.quantization;
  }
  if (model.family.empty()) read_file_facts(entry, model);
  return model;
}

void ModelStore::read_file_facts(const StoredEntry& entry, StoredModel& model) {
  const FileFactsKey key{entry.path, entry.n_bytes, entry.modified};
  {
    const MutexLock lock(mutex_);
    const auto known = header_facts_.find(key);
    if (known != header_facts_.end()) {
      model.family = known->second.family;
      if (model.parameter_size.empty()) model.parameter_size = known->second.parameter_size;
      return;
    }
  }
  HeaderFacts facts;
  if (entry.is_folder) {
    const auto text = read_whole(entry.path + "/config.json", size_t{16} << 20);
    const auto config = text ? parse_json(*text) : Result<Json>(fail(ErrorCode::kIo, ""));
    const Json* const type = config ? config->find("model_type") : nullptr;
    if (type != nullptr) facts.family = printable(type->text());
  } else if (const auto source = open_gguf(entry.path)) {
    const Metadata& metadata = (*source)->metadata();
    const auto architecture = metadata.get_string("general.architecture");
    facts.family = printable(architecture ? architecture->value_or("") : "");
    const auto label = metadata.get_string("general.size_label");
    facts.parameter_size = printable(label ? label->value_or("") : "");
    uint64_t n_parameters = 0;
    for (const TensorInfo& tensor : (*source)->tensors()) n_parameters += tensor.n_elements();
    if (facts.parameter_size.empty()) facts.parameter_size = parameters_text(n_parameters);
  }
  model.family = facts.family;
  if (model.parameter_size.empty()) model.parameter_size = facts.parameter_size;
  const MutexLock lock(mutex_);
  if (header_facts_.size() >= kMaxKnownHeaders) header_facts_.clear();
  header_facts_.emplace(key, std::move(facts));
}

Result<void> ModelStore::check_is_one(const std::string& name, const StoredEntry& entry) const {
  const auto parsed = parse_model_name(name, options_);
  const bool is_repository = parsed && parsed->kind == ModelName::Kind::kHuggingFace &&
                             parsed->quant.empty() && parsed->file.empty();
  if (!is_repository || entry.origin != StoredEntry::Origin::kHuggingFace) return {};
  std::vector<std::string> names;
  for (const StoredEntry& other : scan()) {
    if (other.name.starts_with(parsed->repository() + ":")) names.push_back(other.name);
  }
  if (names.size() < 2) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} models of '{}' are stored, name one of them: {}", names.size(),
                          parsed->repository(), fmt::join(names, ", ")));
}

Result<void> ModelStore::remove(const std::string& name) {
  if (short_names_.read().contains(without_latest(name))) {
    TRY(short_names_.remove(name));
    mark_changed();
    return {};
  }
  const auto entry = find_entry(name);
  if (!entry) return not_stored(name);
  TRY(check_is_one(name, *entry));
  switch (entry->origin) {
    case StoredEntry::Origin::kHuggingFace:
      TRY(hf_cache_.remove(*entry));
      break;
    case StoredEntry::Origin::kOllama:
      TRY(ollama_.remove(*entry));
      break;
    case StoredEntry::Origin::kUrl:
      TRY(urls_.remove(*entry));
      break;
  }
  mark_changed();
  return short_names_.remove_target(entry->name);
}

Result<void> ModelStore::copy(const std::string& from, const std::string& to) {
  const auto short_names = short_names_.read();
  const auto target = short_names.find(without_latest(from));
  const auto entry = find_entry(target == short_names.end() ? from : target->second);
  if (!entry) return not_stored(from);
  if (!short_names.contains(without_latest(to)) && find_entry(to)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' is the name of a stored model; choose another one", printable(to)));
  }
  TRY(short_names_.add(to, entry->name));
  mark_changed();
  return {};
}

}  // namespace kvik
