#include "text/vocabularies.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "format/gguf/gguf.h"
#include "text/bpe/byte_alphabet.h"

namespace kvik {
namespace {

constexpr const char* kFolder = KVIK_SOURCE_DIR "/../shared/data/tokenizers";

}  // namespace

Metadata toy_bpe(const std::vector<std::string>& merges) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(byte_to_letter(static_cast<uint8_t>(byte)));
  }
  for (std::string joined : merges) tokens.push_back(joined.erase(joined.find(' '), 1));
  std::vector<int64_t> kinds(tokens.size(), 1);
  tokens.insert(tokens.end(), {"<|begin|>", "<|end|>"});
  kinds.insert(kinds.end(), {3, 3});

  Metadata metadata;
  metadata.insert("tokenizer.ggml.model", std::string("gpt2"));
  metadata.insert("tokenizer.ggml.pre", std::string("gpt-2"));
  metadata.insert("tokenizer.ggml.bos_token_id", uint64_t{tokens.size() - 2});
  metadata.insert("tokenizer.ggml.eos_token_id", uint64_t{tokens.size() - 1});
  metadata.insert("tokenizer.ggml.tokens", tokens);
  metadata.insert("tokenizer.ggml.token_type", kinds);
  metadata.insert("tokenizer.ggml.merges", merges);
  return metadata;
}

Metadata toy_spm(const std::vector<ToyPiece>& pieces) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int64_t> kinds = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    kinds.push_back(6);
  }
  std::vector<double> scores(tokens.size(), 0);
  for (const ToyPiece& piece : pieces) {
    tokens.push_back(piece.text);
    scores.push_back(piece.score);
    kinds.push_back(piece.kind);
  }
  Metadata metadata;
  metadata.insert("tokenizer.ggml.model", std::string("llama"));
  metadata.insert("tokenizer.ggml.bos_token_id", uint64_t{1});
  metadata.insert("tokenizer.ggml.eos_token_id", uint64_t{2});
  metadata.insert("tokenizer.ggml.unknown_token_id", uint64_t{0});
  metadata.insert("tokenizer.ggml.tokens", tokens);
  metadata.insert("tokenizer.ggml.scores", scores);
  metadata.insert("tokenizer.ggml.token_type", kinds);
  return metadata;
}

Metadata with(const Metadata& metadata, const std::string& key,
              std::optional<Metadata::Value> value) {
  Metadata changed;
  if (value) changed.insert(key, std::move(*value));
  for (const auto& [old_key, old_value] : metadata.values()) {
    if (old_key != key) changed.insert(old_key, old_value);
  }
  return changed;
}

std::unique_ptr<Tokenizer> load(const Metadata& metadata) {
  auto tokenizer = Tokenizer::from_metadata(metadata);
  if (!tokenizer) {
    ADD_FAILURE() << tokenizer.error().message;
    std::abort();
  }
  return std::move(*tokenizer);
}

std::optional<Metadata> metadata_of_file(const std::string& path) {
  const auto source = open_gguf(path);
  if (!source) return std::nullopt;
  return (*source)->metadata();
}

std::unique_ptr<Tokenizer> load_demo() {
  return load(metadata_of_file(KVIK_SOURCE_DIR "/models/demo.gguf").value_or(Metadata()));
}

std::string vocabulary_folder() {
  if (const char* folder = std::getenv("KVIK_TEST_VOCABULARIES")) return folder;
  if (std::filesystem::is_directory(kFolder)) return kFolder;
  if (std::getenv("CI")) {
    ADD_FAILURE() << kFolder << " is missing";
  } else {
    std::cout << "not tested: " << kFolder << " is missing\n";
  }
  return {};
}

std::vector<std::string> vocabulary_files() {
  std::vector<std::string> files;
  const std::string folder = vocabulary_folder();
  if (folder.empty()) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace kvik
