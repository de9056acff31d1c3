#include "hub/remote_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/printable.h"
#include "hub/gguf_variants.h"
#include "hub/hf_repository.h"

namespace kvik {
namespace {

std::string file_name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Makes models of the files of one revision of a repository.
class HfChoices {
 public:
  HfChoices(ModelName name, HfRepository repository, const ModelStore& store)
      : name_(std::move(name)), repository_(std::move(repository)), store_(store) {}

  Result<RemoteChoice> choose() const {
    const auto variants = find_gguf_variants(repository_.files);
    const bool wants_folder = name_.quant == "safetensors" ||
                              (variants.empty() && name_.quant.empty() && name_.file.empty());
    if (wants_folder) return choose_folder();
    TRY_ASSIGN(const GgufVariant chosen,
               name_.file.empty() ? choose_variant(variants, name_.quant, name_.repository())
                                  : variant_of_file(variants));
    RemoteChoice choice{model_of(chosen, variants), {}};
    for (const RepositoryFile& file : repository_.files) {
      if (file.path.ends_with(".gguf") && is_sidecar(file.path)) {
        choice.model.notes.push_back(
            fmt::format("skipping {}: Kvik reads text only", printable(file.path)));
      }
    }
    for (const GgufVariant& variant : variants) {
      if (variant.n_bytes() < chosen.n_bytes() && !variant.quant.empty())
        choice.smaller.push_back(model_of(variant, variants));
    }
    std::ranges::stable_sort(choice.smaller, std::ranges::greater(), &RemoteModel::n_bytes);
    return choice;
  }

 private:
  Result<GgufVariant> variant_of_file(const std::vector<GgufVariant>& variants) const {
    for (const GgufVariant& variant : variants) {
      if (std::ranges::count(variant.pieces, name_.file, &RepositoryFile::path) > 0) return variant;
    }
    return fail(ErrorCode::kNotFound,
                fmt::format("{} has no GGUF model '{}', with all pieces if it is split",
                            name_.repository(), printable(name_.file)));
  }

  Result<RemoteChoice> choose_folder() const {
    const auto files = find_folder_files(repository_.files);
    if (files.empty()) {
      return fail(ErrorCode::kNotFound,
                  fmt::format("{} has neither GGUF files nor config.json with safetensors files",
                              name_.repository()));
    }
    ModelName named = name_;
    return RemoteChoice{model_with(std::move(named), files), {}};
  }

  RemoteModel model_of(const GgufVariant& variant, const std::vector<GgufVariant>& all) const {
    ModelName named = name_;
    named.file.clear();
    named.quant = variant.quant;
    if (variant.quant.empty() || std::ranges::count(all, variant.quant, &GgufVariant::quant) > 1) {
      named.quant.clear();
      named.file = variant.pieces.front().path;
    }
    return model_with(std::move(named), variant.pieces);
  }

  RemoteModel model_with(ModelName named, const std::vector<RepositoryFile>& files) const {
    const HubOptions& options = store_.options();
    const std::string repository = name_.repository();
    RemoteModel model{.name = named.text(),
                      .pull_argument = named.pull_argument(),
                      .files = {},
                      .notes = {},
                      .add = {}};
    for (const RepositoryFile& file : files) {
      model.files.push_back(
          {.name = file_name_of(file.path),
           .source = {.name = file.path,
                      .url = hf_file_url(options, repository, repository_.commit, file.path),
                      .bearer = options.hf_token,
                      .n_bytes = file.n_bytes,
                      .sha256 = file.sha256,
                      .git_id = file.git_id},
           .place = store_.hf_cache().place(repository, file)});
    }
    model.add = [cache = store_.hf_cache(), repository, commit = repository_.commit, files] {
      return cache.link(repository, commit, files);
    };
    return model;
  }

  const ModelName name_;
  const HfRepository repository_;
  const ModelStore& store_;
};

Result<RemoteChoice> find_ollama_model(HttpSession& session, const ModelName& name,
                                       const ModelStore& store, const KeepGoing& keep_going) {
  TRY_ASSIGN(const std::string text,
             find_ollama_manifest(session, name, store.options(), keep_going));
  const auto manifest = parse_ollama_manifest(text);
  if (!manifest)
    return fail(manifest.error().code,
                fmt::format("{}: {}", name.text(), manifest.error().message));
  RemoteModel model{.name = name.text(),
                    .pull_argument = name.pull_argument(),
                    .files = {},
                    .notes = {},
                    .add = {}};
  for (const OllamaManifest::Layer& layer : manifest->layers) {
    const std::string kind = layer.media_type.substr(layer.media_type.rfind('.') + 1);
    model.files.push_back(
        {.name = layer.media_type == OllamaManifest::kModelLayer ? "model.gguf" : "",
         .source = {.name = fmt::format("{} ({})", name.text(), printable(kind)),
                    .url = ollama_blob_url(store.options(), name, layer.sha256),
                    .n_bytes = layer.n_bytes,
                    .sha256 = layer.sha256},
         .place = store.ollama().place(layer)});
    if (kind == "adapter" || kind == "projector")
      model.notes.push_back(fmt::format("Kvik does not use the {} of {}", kind, name.text()));
  }
  model.add = [ollama = store.ollama(), name, text] { return ollama.add(name, text); };
  return RemoteChoice{std::move(model), {}};
}

RemoteChoice url_model(const ModelName& name, const ModelStore& store) {
  const std::string file = file_name_of(name.text());
  RemoteModel model{.name = name.text(),
                    .pull_argument = name.pull_argument(),
                    .files = {},
                    .notes = {},
                    .add = [] { return Result<void>(); }};
  model.files.push_back(
      {.name = file, .source = {.name = file, .url = name.url}, .place = store.urls().place(name)});
  return {std::move(model), {}};
}

}  // namespace

bool RemoteFile::is_stored() const {
  std::error_code error;
  const uint64_t n_bytes = std::filesystem::file_size(place.path, error);
  return !error && (!source.n_bytes || n_bytes == *source.n_bytes);
}

uint64_t RemoteModel::n_bytes() const {
  uint64_t sum = 0;
  for (const RemoteFile& file : files) sum += file.source.n_bytes.value_or(0);
  return sum;
}

Result<RemoteChoice> find_remote_model(HttpSession& session, const ModelName& name,
                                       const ModelStore& store, const KeepGoing& keep_going) {
  if (name.kind == ModelName::Kind::kUrl) return url_model(name, store);
  if (name.kind == ModelName::Kind::kOllama)
    return find_ollama_model(session, name, store, keep_going);
  TRY_ASSIGN(HfRepository repository,
             find_hf_repository(session, name.repository(), store.options(), keep_going));
  return HfChoices(name, std::move(repository), store).choose();
}

}  // namespace kvik
