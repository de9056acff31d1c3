#include "text/hf/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/blank_mark.h"
#include "text/bpe/byte_alphabet.h"
#include "text/hf/json_file.h"
#include "text/hf/pre_tokenizer_step.h"
#include "text/hf/tokenizer_object.h"
#include "text/hf/words.h"
#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace kvik {
namespace {

using hf::JsonFile;
using hf::Merge;
using Strings = std::vector<std::string>;

// Texts that different pre-tokenizers split differently: contractions, cases, numbers, symbols,
// spaces, lines, scripts.
constexpr std::string_view kProbes[] = {
    "Hello, world! It's what we'll do, I'd say; they've been THERE, WE'RE, don'T.",
    "camelCase HTTPServer parseJSONFile XMLHttpRequest iPhone snake_case kebab-case",
    "1 12 123 1234 12345 1234567 3.14 1,000,000 0x1F 2026-11-21 a1b22c333",
    "x = y+1; if (a[i] != b->c && !d) { return \"s\\n\"; } // $5 ^~|`<=>#@%&*",
    "  two   three    four\ttab\t\ttabs \n\n\n  lines\r\n\r\nend   \n ",
    "\n \n  \n\tif x:\n\t\treturn x  # done\n",
    "Größe naïve café Ünïcödé e\xCC\x81 n\xCC\x83 ﬁ İstanbul ǅ",
    "Привет, мир! Ελληνικά עברית العربية हिन्दी ไทย 한국어",
    "中文字符，测试。日本語のテキスト、カタカナ！ ㈱ １２３ ³² Ⅻ ½",
    "😀 👩‍👩‍👧 🇩🇪 ❤️ — – … “quotes” «guillemets» ¿qué? "
    "±×÷√∞",
    "\xC2\xA0nbsp\xE2\x80\x83"
    "em\xE3\x80\x80ideographic \xE2\x80\x8Bzero",
    "/usr/bin/env https://example.org/a?b=c&d=e#f user@example.org",
};

std::unexpected<Error> inexpressible(std::string_view what) {
  return fail(ErrorCode::kUnsupported,
              fmt::format("tokenizer.json: {}, which GGUF cannot express", what));
}

// Returns the words into which the file's own pre-tokenizer splits `text`.
Strings words_of(const hf::PreTokenizerStep& step, std::string_view text) {
  hf::Words words{std::string(text)};
  words.begins_text = true;
  step(words);
  Strings found;
  for (const auto& range : words.ranges)
    found.push_back(letters_to_bytes(words.of(range)).value_or(""));
  return found;
}

// Returns the first name of a built-in pre-tokenizer that splits all probes in the same way.
Result<std::string_view> find_scanner(const JsonFile& file, bool whole_words_first) {
  if (!file.parts.pre_tokenizer) return inexpressible("a tokenizer without 'pre_tokenizer'");
  const auto cuts_alike = [&](const PreTokenizer& scanner) {
    return std::ranges::all_of(kProbes, [&](std::string_view probe) {
      return std::ranges::equal(words_of(file.parts.pre_tokenizer, probe), scanner.split(probe));
    });
  };
  for (const PreTokenizer& scanner : pre_tokenizers()) {
    if (scanner.whole_words_first == whole_words_first && cuts_alike(scanner)) return scanner.name;
  }
  return inexpressible("a 'pre_tokenizer' that splits words unlike every named one");
}

// Returns the number of the kind in llama.h (llama_token_type).
int64_t number_of(TokenKind kind) { return static_cast<int64_t>(kind) + 1; }

void add_tokens(const Vocabulary& vocabulary, Metadata& out) {
  Strings texts = vocabulary.texts;
  std::vector<int64_t> kinds;
  for (size_t id = 0; id < texts.size(); ++id) {
    const bool is_hole = texts[id].empty();
    if (is_hole) texts[id] = fmt::format("[PAD{}]", id);  // the name that converters use
    const bool is_unknown = vocabulary.unknown == static_cast<TokenId>(id);
    kinds.push_back(number_of(is_hole      ? TokenKind::kUnused
                              : is_unknown ? TokenKind::kUnknown
                                           : vocabulary.kinds[id]));
  }
  out.insert("tokenizer.ggml.tokens", std::move(texts));
  out.insert("tokenizer.ggml.token_type", std::move(kinds));
}

void add_special(const Vocabulary& vocabulary, Metadata& out) {
  const auto add = [&](const char* key, const std::optional<TokenId>& id) {
    if (id) out.insert(fmt::format("tokenizer.ggml.{}_token_id", key), uint64_t{*id});
  };
  add("bos", vocabulary.bos);
  add("eos", vocabulary.eos);
  add("unknown", vocabulary.unknown);
  // GGUF has two further keys for end tokens.
  std::vector<const char*> names = {"eom", "eot"};
  for (const TokenId id : vocabulary.end_tokens) {
    if (vocabulary.eos == id || names.empty()) continue;
    add(names.back(), id);
    names.pop_back();
  }
  out.insert("tokenizer.ggml.add_bos_token", vocabulary.adds_bos);
  out.insert("tokenizer.ggml.add_eos_token", vocabulary.adds_eos);
}

Result<void> express_byte_level(const JsonFile& file, std::span<const Merge> merges,
                                Metadata& out) {
  TRY_ASSIGN(const bool whole_words_first, file.model_fields.flag("ignore_merges", false));
  TRY_ASSIGN(const std::string_view scanner, find_scanner(file, whole_words_first));
  out.insert("tokenizer.ggml.model", std::string("gpt2"));
  out.insert("tokenizer.ggml.pre", std::string(scanner));
  Strings texts;
  texts.reserve(merges.size());
  for (const Merge& merge : merges) texts.push_back(fmt::format("{} {}", merge.left, merge.right));
  out.insert("tokenizer.ggml.merges", std::move(texts));
  return {};
}

// Writes merges as scores. SentencePiece merges the pair whose token has the highest score, and
// merge lists were derived from such scores: the earlier a token is produced, the higher its score.
Result<void> write_sentence_piece(const JsonFile& file, std::span<const Merge> merges,
                                  Metadata& out) {
  std::unordered_map<std::string, double> score_of;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    std::string joined(merges[rank].left);
    score_of.emplace(joined += merges[rank].right, -static_cast<double>(rank) - 1);
  }
  std::vector<double> scores;
  for (size_t id = 0; id < file.vocabulary.texts.size(); ++id) {
    const auto score = score_of.find(file.vocabulary.texts[id]);
    // Tokens without a merge must never be produced, except for single characters, which no merge
    // produces anyway.
    const auto last = -static_cast<double>(merges.size()) - 2;
    scores.push_back(score == score_of.end() ? last : score->second);
  }
  out.insert("tokenizer.ggml.model", std::string("llama"));
  out.insert("tokenizer.ggml.scores", std::move(scores));
  out.insert("tokenizer.ggml.add_space_prefix", file.parts.spelling.strips_leading_space());
  return {};
}

// Writes WordPiece. GGUF marks the tokens that begin a word with a space mark, tokenizer.json the
// others with a prefix. Replaces the texts that add_tokens() wrote.
Result<void> write_word_piece(const JsonFile& file, Metadata& out) {
  TRY_ASSIGN(const auto stated, file.model_fields.text("continuing_subword_prefix"));
  const std::string prefix = stated.value_or("##");
  TRY_ASSIGN(const Strings* written, out.get_strings("tokenizer.ggml.tokens"));
  Strings texts = *written;
  for (size_t id = 0; id < texts.size(); ++id) {
    if (file.vocabulary.texts[id].empty()) continue;
    if (file.vocabulary.kinds[id] != TokenKind::kNormal) continue;
    const bool is_further = !prefix.empty() && texts[id].starts_with(prefix);
    texts[id] = is_further ? texts[id].substr(prefix.size()) : std::string(kSpaceMark) + texts[id];
  }
  out.replace("tokenizer.ggml.tokens", std::move(texts));
  out.insert("tokenizer.ggml.model", std::string("bert"));
  const Vocabulary& vocabulary = file.vocabulary;
  if (vocabulary.bos) out.insert("tokenizer.ggml.cls_token_id", uint64_t{*vocabulary.bos});
  if (vocabulary.eos) out.insert("tokenizer.ggml.seperator_token_id", uint64_t{*vocabulary.eos});
  return {};
}

// Returns whether the whole normalizer is NFC, which Qwen's files have and GGUF cannot express.
bool composes(const JsonFile& file) {
  const auto* normalizer = file.json->as_object().if_contains("normalizer");
  const auto* fields = normalizer ? normalizer->if_object() : nullptr;
  const auto* type = fields ? fields->if_contains("type") : nullptr;
  return type && *type == "NFC";
}

// Checks that both tokenizers give the same ids for each probe and for all probes together.
Result<void> check_alike(const JsonFile& file, const Tokenizer& ours, const Tokenizer& expressed) {
  Strings probes(std::begin(kProbes), std::end(kProbes));
  std::string all;
  for (const std::string& probe : probes) all += probe;
  probes.push_back(std::move(all));
  for (std::string& probe : probes) {
    if (composes(file)) probe = file.parts.normalizer(probe);
    if (ours.tokenize(probe, {}) != expressed.tokenize(probe, {})) {
      return inexpressible(fmt::format("the tokens of '{}'", probe.substr(0, 40)));
    }
  }
  return {};
}

}  // namespace

Result<Metadata> gguf_vocabulary(const Metadata& folder) {
  TRY_ASSIGN(const auto tokenizer, Tokenizer::from_metadata(folder));
  TRY_ASSIGN(const auto json, folder.get_string("tokenizer.huggingface.json"));
  TRY_ASSIGN(const TokenizerConfig config, tokenizer_config_of(folder));
  TRY_ASSIGN(const JsonFile file, JsonFile::read(json.value_or(""), config));
  TRY_ASSIGN(const std::string type, file.model_fields.required_text("type"));
  const bool is_word_piece = type == "WordPiece";
  if (type != "BPE" && !is_word_piece) {
    return inexpressible(fmt::format("'model.type' is {}", type));
  }
  Metadata out;
  std::vector<Merge> merges;
  if (!is_word_piece) {
    TRY_ASSIGN(merges, hf::read_merges(file.model_fields));
  }
  add_tokens(file.vocabulary, out);
  if (is_word_piece) {
    TRY(write_word_piece(file, out));
  } else if (file.parts.model->has_byte_tokens()) {
    TRY(write_sentence_piece(file, merges, out));
  } else {
    TRY(express_byte_level(file, merges, out));
  }
  add_special(file.vocabulary, out);
  TRY_ASSIGN(const auto expressed, Tokenizer::from_metadata(out));
  TRY(check_alike(file, *tokenizer, *expressed));
  return out;
}

}  // namespace kvik
