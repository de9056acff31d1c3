#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/metadata.h"
#include "text/tokenizer.h"

namespace kvik {

// Vocabularies for tests: real ones from files, and hand-made toy ones.

// Returns tokenizer.ggml.* of a toy "gpt2" vocabulary: the 256 bytes, then the results of the
// merges, then the control tokens "<|begin|>" (BOS) and "<|end|>" (EOS).
Metadata toy_bpe(const std::vector<std::string>& merges = {});

struct ToyPiece {
  std::string text;
  double score = 0;
  int64_t kind = 1;  // as in tokenizer.ggml.token_type
};

// Returns a toy "llama" vocabulary: <unk>, <s>, </s>, the 256 byte tokens, then `pieces`.
Metadata toy_spm(const std::vector<ToyPiece>& pieces = {});

// Returns `metadata` with the value of `key` replaced, or removed if there is no value.
Metadata with(const Metadata& metadata, const std::string& key,
              std::optional<Metadata::Value> value);

// Loads a tokenizer. Fails the test if it cannot be loaded.
std::unique_ptr<Tokenizer> load(const Metadata& metadata);

// Returns the tokenizer.ggml.* of a GGUF file, or nothing if the file does not exist.
std::optional<Metadata> metadata_of_file(const std::string& path);

// Loads "models/demo.gguf", which always exists.
std::unique_ptr<Tokenizer> load_demo();

// Returns the folder of llama.cpp's vocabularies with their expected ids. It is empty if this
// checkout does not have them; with CI in the environment, the test then fails.
// KVIK_TEST_VOCABULARIES may name another folder.
std::string vocabulary_folder();
std::vector<std::string> vocabulary_files();

std::string read_text(const std::string& path);

}  // namespace kvik
