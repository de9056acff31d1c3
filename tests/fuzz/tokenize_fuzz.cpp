// Any bytes as a text: every pre-tokenizer cuts it into words that are the text again, long words
// join as the plainest loop joins them, and byte-level ids spell the text.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/bpe/bpe_merges.h"
#include "text/bpe/byte_alphabet.h"
#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace kvik {
namespace {

// The 256 bytes, and what joins the commonest letters, blanks and parts of characters.
const Tokenizer& toy() {
  static const auto tokenizer = [] {
    std::vector<std::string> tokens, merges;
    for (int byte = 0; byte < 256; ++byte) {
      tokens.push_back(byte_to_letter(static_cast<uint8_t>(byte)));
    }
    const auto join = [&](size_t left, size_t right) {
      merges.push_back(tokens[left] + " " + tokens[right]);
      tokens.push_back(tokens[left] + tokens[right]);
    };
    for (const char* pair : {"th", "in", "aa", "  ", " t", "\xE6\x88", "\xF0\x9F", "\n\n", "11"}) {
      join(static_cast<uint8_t>(pair[0]), static_cast<uint8_t>(pair[1]));
    }
    join(256, 'e');
    join(258, 258);
    join(259, 259);
    Metadata metadata;
    metadata.insert("tokenizer.ggml.model", std::string("gpt2"));
    metadata.insert("tokenizer.ggml.pre", std::string("llama-bpe"));
    metadata.insert("tokenizer.ggml.tokens", tokens);
    metadata.insert("tokenizer.ggml.merges", merges);
    return std::move(*Tokenizer::from_metadata(metadata));
  }();
  return *tokenizer;
}

// Joins of small numbers, with ties and with ranks that fall.
const BpeMerges& joins() {
  static const BpeMerges all = [] {
    BpeMerges made;
    for (TokenId left = 0; left < 16; ++left) {
      for (TokenId right = 0; right < 16; ++right) {
        const uint32_t mixed = (left * 37 + right * 101 + 7) % 64;
        if (mixed < 40) made.insert(left, right, {mixed / 3, 16 + mixed % 5});
      }
    }
    for (TokenId id = 16; id < 21; ++id) made.insert(id, id % 16, {id % 3, (id * 7) % 21});
    return made;
  }();
  return all;
}

std::vector<TokenId> join_plainly(std::vector<TokenId> ids) {
  for (;;) {
    size_t best = ids.size();
    const BpeMerges::Join* join = nullptr;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto* here = joins().find(ids[i], ids[i + 1]);
      if (!here || (join && join->rank <= here->rank)) continue;
      best = i;
      join = here;
    }
    if (!join) return ids;
    ids[best] = join->id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace
}  // namespace kvik

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik;
  const std::string_view text(reinterpret_cast<const char*>(data), n_bytes);
  const PreTokenizer* last = nullptr;
  for (const PreTokenizer& pre_tokenizer : pre_tokenizers()) {
    const bool is_alike = last && last->rules.size() == pre_tokenizer.rules.size() &&
                          last->rules.back().match == pre_tokenizer.rules.back().match;
    last = &pre_tokenizer;
    if (is_alike) continue;  // but for its name
    size_t at = 0;
    for (const std::string_view word : pre_tokenizer.split(text)) {
      CHECK(!word.empty() && word.data() == text.data() + at);
      at += word.size();
    }
    CHECK(at == text.size());
  }
  std::string spelt;
  for (const TokenId id : toy().tokenize(text, {})) {
    spelt += toy().piece(id, Tokenizer::Special::kShow);
  }
  CHECK(spelt == text);

  std::vector<TokenId> ids;
  for (const char c : text.substr(0, 400)) ids.push_back(static_cast<uint8_t>(c) % 16);
  const auto expected = join_plainly(ids);
  BpeMerges::Scratch scratch;
  joins().join(ids, 0, scratch);
  CHECK(ids == expected);
  return 0;
}
