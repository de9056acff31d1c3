// Reads the answers of hubs and names of models. No name that they contain may lead out of a
// folder.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "hub/gguf_variants.h"
#include "hub/hf_repository.h"
#include "hub/model_name.h"
#include "hub/stores/ollama_manifest.h"

namespace {

using namespace kvik;

void read_list(const std::string& text) {
  const auto repository = parse_hf_repository(text);
  if (!repository) return;
  CHECK(is_hex(repository->commit, 40));
  for (const RepositoryFile& file : repository->files) {
    CHECK(is_safe_path(file.path));
    CHECK(file.sha256.empty() ? is_hex(file.git_id, 40) : is_hex(file.sha256, 64));
  }
  const auto variants = find_gguf_variants(repository->files);
  static_cast<void>(choose_variant(variants, "", "a/b"));
  static_cast<void>(choose_variant(variants, text.substr(0, 8), "a/b"));
  static_cast<void>(find_folder_files(repository->files));
}

void read_manifest(const std::string& text) {
  static_cast<void>(parse_ollama_config(text));
  const auto manifest = parse_ollama_manifest(text);
  if (!manifest) return;
  CHECK(manifest->model().media_type == OllamaManifest::kModelLayer);
  for (const OllamaManifest::Layer& layer : manifest->layers) CHECK(is_hex(layer.sha256, 64));
}

void read_name(const std::string& text) {
  const auto name = parse_model_name(text, {});
  if (!name) return;
  const std::string usual = name->text();
  const std::string path =
      name->kind == ModelName::Kind::kUrl ? usual.substr(usual.find("://") + 3) : usual;
  CHECK(is_safe_path(path));
  const auto again = parse_model_name(name->pull_argument(), {});
  CHECK(again && again->text() == usual);
}

}  // namespace

// The first byte chooses the reader of the others.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'l':
      read_list(text);
      break;
    case 'm':
      read_manifest(text);
      break;
    default:
      read_name(text);
  }
  return 0;
}
