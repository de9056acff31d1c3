#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/metadata.h"
#include "text/tokenizer.h"

namespace kvik {

// Vocabularies for tests: real ones from files, and toy ones made by hand.

// tokenizer.ggml.* of a toy "gpt2" vocabulary: the 256 bytes, then what the merges join, then
// "<|begin|>" (BOS) and "<|end|>" (EOS), both control tokens.
Metadata toy_bpe(const std::vector<std::string>& merges = {});

struct ToyPiece {
  std::string text;
  double score = 0;
  int64_t kind = 1;  // as in tokenizer.ggml.token_type
};

// A toy "llama" vocabulary: <unk>, <s>, </s>, the 256 byte tokens, then `pieces`.
Metadata toy_spm(const std::vector<ToyPiece>& pieces = {});

// `metadata` with the value under `key` replaced, or gone where there is no value.
Metadata with(const Metadata& metadata, const std::string& key,
              std::optional<Metadata::Value> value);

// Fails the test where it does not load.
std::unique_ptr<Tokenizer> load(const Metadata& metadata);

// The tokenizer.ggml.* of a GGUF file; nothing where there is no such file.
std::optional<Metadata> metadata_of_file(const std::string& path);

// "models/demo.gguf", which always exists.
std::unique_ptr<Tokenizer> load_demo();

// The folder of llama.cpp's vocabularies with their expected ids; empty where this checkout comes
// without them, which a continuous-integration run (CI in the environment) fails for. Another
// folder may be named by KVIK_TEST_VOCABULARIES.
std::string vocabulary_folder();
std::vector<std::string> vocabulary_files();

std::string read_text(const std::string& path);

}  // namespace kvik
