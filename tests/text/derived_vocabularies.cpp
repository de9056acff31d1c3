#include "text/derived_vocabularies.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "text/blank_mark.h"
#include "text/bpe/byte_alphabet.h"
#include "text/vocabularies.h"

namespace kvik {
namespace {

using Strings = std::vector<std::string>;

const Strings& tokens_of(const Metadata& metadata) {
  const auto tokens = metadata.get_strings("tokenizer.ggml.tokens");
  CHECK(tokens && *tokens);
  return **tokens;
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    if (step.kind != Utf8Step::Kind::kValid) return false;
    at += step.n_bytes;
  }
  return true;
}

}  // namespace

Metadata as_unigram(const Metadata& llama) {
  std::vector<double> scores;
  for (size_t id = 0; id < tokens_of(llama).size(); ++id) {
    scores.push_back(-1 - std::log(static_cast<double>(id) + 1));
  }
  Metadata metadata = with(llama, "tokenizer.ggml.model", std::string("t5"));
  metadata = with(metadata, "tokenizer.ggml.scores", scores);
  metadata = with(metadata, "tokenizer.ggml.add_space_prefix", true);
  return with(metadata, "tokenizer.ggml.remove_extra_whitespaces", true);
}

Metadata as_gemma4(const Metadata& llama) {
  const Strings& tokens = tokens_of(llama);
  const auto scores = llama.get_floats("tokenizer.ggml.scores");
  const auto kinds = llama.get_ints("tokenizer.ggml.token_type");
  CHECK(scores && *scores && kinds && *kinds);
  std::unordered_set<std::string_view> plain;
  std::vector<size_t> order;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if ((**kinds)[id] != 1) continue;
    plain.insert(tokens[id]);
    order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (**scores)[a] > (**scores)[b]; });
  Strings merges;
  for (const size_t id : order) {
    const std::string_view text = tokens[id];
    for (size_t i = 1; i < text.size(); ++i) {
      const std::string_view left = text.substr(0, i), right = text.substr(i);
      if (plain.contains(left) && plain.contains(right)) {
        merges.push_back(std::string(left).append(" ").append(right));
      }
    }
  }
  Metadata metadata = with(llama, "tokenizer.ggml.model", std::string("gemma4"));
  return with(metadata, "tokenizer.ggml.merges", merges);
}

Metadata as_word_piece(const Metadata& gpt2) {
  Strings tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  std::vector<int64_t> kinds(tokens.size(), 3);
  kinds[1] = 2;
  std::unordered_set<std::string> seen;
  const auto add = [&](std::string text) {
    if (!seen.insert(text).second) return;
    tokens.push_back(std::move(text));
    kinds.push_back(1);
  };
  for (char c = '!'; c <= '~'; ++c) {
    if (c >= 'A' && c <= 'Z') continue;
    add(std::string(1, c));
    add(std::string(kSpaceMark) + c);
  }
  for (const std::string& token : tokens_of(gpt2)) {
    std::string text = letters_to_bytes(token).value_or("");
    const bool begins_word = text.starts_with(' ');
    if (begins_word) text.erase(0, 1);
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool is_word =
        !text.empty() && is_utf8(text) && text.find_first_of(" \t\r\n#") == text.npos;
    if (!is_word) continue;
    add((begins_word ? std::string(kSpaceMark) : std::string()).append(text));
  }
  Metadata metadata;
  metadata.insert("tokenizer.ggml.model", std::string("bert"));
  metadata.insert("tokenizer.ggml.tokens", tokens);
  metadata.insert("tokenizer.ggml.token_type", kinds);
  metadata.insert("tokenizer.ggml.cls_token_id", uint64_t{2});
  metadata.insert("tokenizer.ggml.seperator_token_id", uint64_t{3});
  metadata.insert("tokenizer.ggml.unknown_token_id", uint64_t{1});
  return metadata;
}

}  // namespace kvik
