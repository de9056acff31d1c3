#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"

namespace kvik {

// SentencePiece's precompiled normalization, tokenizer.ggml.precompiled_charsmap: replacements of
// byte strings. The value consists of the length of a trie in bytes (u32), the trie as a double
// array whose units are XORed with their labels (Darts-clone), and the replacements as
// NUL-terminated strings. Immutable; thread-safe.
class Charsmap {
 public:
  // Reads the map. If the key is absent, the map has no replacements. Error: kCorrupt if the parts
  // exceed the size of the value.
  static Result<Charsmap> read(const Metadata& metadata);

  // Reads the map from the base64 in a tokenizer.json. If the text is empty, the map has no
  // replacements.
  static Result<Charsmap> from_base64(std::string_view base64);

  struct Match {
    size_t n_bytes;
    std::string_view replacement;
  };

  // Returns the longest entry that occurs in `text` at `at`. An index outside the trie ends the
  // search.
  std::optional<Match> longest_at(std::string_view text, size_t at) const;

 private:
  // `where`: the location of the map, for error messages.
  static Result<Charsmap> parse(const std::string& bytes, std::string_view where);

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace kvik
