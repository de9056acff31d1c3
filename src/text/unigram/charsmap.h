#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"

namespace kvik {

// SentencePiece's precompiled normalisation, tokenizer.ggml.precompiled_charsmap: which bytes at a
// place of a text are to be replaced by which. The file holds the length of a trie in bytes (u32),
// the trie as a double array whose units are XORed with their labels (Darts-clone), and the
// replacements as strings that end in NUL. Immutable: any thread.
class Charsmap {
 public:
  // One that replaces nothing where the key is absent. Error: kCorrupt where its parts do not fit
  // into it.
  static Result<Charsmap> read(const Metadata& metadata);

  // The same as a tokenizer.json has it; empty text: one that replaces nothing.
  static Result<Charsmap> from_base64(std::string_view base64);

  struct Match {
    size_t n_bytes;
    std::string_view replacement;
  };

  // The longest entry that `text` has at `at`. A trie that points out of itself ends the search.
  std::optional<Match> longest_at(std::string_view text, size_t at) const;

 private:
  // `where` it stands, for errors.
  static Result<Charsmap> parse(const std::string& bytes, std::string_view where);

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace kvik
