#include "text/tokenizer_json.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "text/blank_mark.h"
#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/pre_tokenizer_patterns.h"
#include "text/vocabularies.h"

namespace kvik {
namespace {

namespace json = boost::json;
using Strings = std::vector<std::string>;

const std::string kMark(kSpaceMark);

std::string string_of(const Metadata& metadata, std::string_view key) {
  const auto value = metadata.get_string(key);
  return value && *value ? **value : std::string();
}

bool flag_of(const Metadata& metadata, std::string_view key, bool otherwise) {
  const auto value = metadata.get_bool(key);
  return value && *value ? **value : otherwise;
}

// The contents of a GGUF vocabulary.
struct Source {
  explicit Source(const Metadata& metadata)
      : metadata(metadata),
        model(string_of(metadata, "tokenizer.ggml.model")),
        tokens(**metadata.get_strings("tokenizer.ggml.tokens")),
        kinds(metadata.get_ints("tokenizer.ggml.token_type")
                  ->value_or(std::vector<int64_t>(tokens.size(), 1))) {
    const auto values = metadata.get_floats("tokenizer.ggml.scores");
    if (values && *values) scores = **values;
    scores.resize(tokens.size());
  }
  bool is_plain(size_t id) const { return kinds[id] == 1 || kinds[id] == 4; }

  const Metadata& metadata;
  std::string model;
  const Strings& tokens;
  std::vector<int64_t> kinds;
  std::vector<double> scores;
};

json::object of_type(const char* type) { return {{"type", type}}; }

json::object sequence(const char* list, json::array parts) {
  json::object all = of_type("Sequence");
  all[list] = std::move(parts);
  return all;
}

json::object replace(json::object pattern, std::string content) {
  json::object part = of_type("Replace");
  part["pattern"] = std::move(pattern);
  part["content"] = std::move(content);
  return part;
}

json::object text_pattern(std::string text) { return {{"String", std::move(text)}}; }
json::object regex(std::string text) { return {{"Regex", std::move(text)}}; }

json::object prepend(const char* type, std::string text) {
  json::object part = of_type(type);
  part["prepend"] = std::move(text);
  return part;
}

json::object byte_level(bool use_regex) {
  json::object part = of_type("ByteLevel");
  part["add_prefix_space"] = false;
  part["trim_offsets"] = true;
  part["use_regex"] = use_regex;
  return part;
}

json::object split(json::object pattern, const char* behavior) {
  json::object part = of_type("Split");
  part["pattern"] = std::move(pattern);
  part["behavior"] = behavior;
  part["invert"] = false;
  return part;
}

// Replaces "\x{E9}" by "é", which all regex dialects interpret equally.
std::string spell_out(std::string pattern) {
  for (size_t at = 0; (at = pattern.find("\\x{", at)) != pattern.npos;) {
    const size_t end = pattern.find('}', at);
    std::string character;
    append_utf8(static_cast<char32_t>(std::strtoul(&pattern[at + 3], nullptr, 16)), character);
    pattern.replace(at, end + 1 - at, character);
    at += character.size();
  }
  return replace_all(std::move(pattern), "\\p{sc:Han}", "\\p{Han}");
}

json::object byte_level_pre_tokenizer(const Metadata& metadata) {
  const auto* pre = metadata.find("tokenizer.ggml.pre");
  const auto wanted = find_pre_tokenizer(pre ? std::get<std::string>(*pre) : "default");
  CHECK(wanted);
  const auto cuts_alike = [&](const std::string& name) {
    const auto& rules = (*find_pre_tokenizer(name))->rules;
    return std::equal(rules.begin(), rules.end(), (*wanted)->rules.begin(), (*wanted)->rules.end(),
                      [](const auto& a, const auto& b) { return a.match == b.match; });
  };
  for (const auto& [name, patterns] : pre_tokenizer_patterns()) {
    if (!cuts_alike(name)) continue;
    if (name == "gpt-2") return byte_level(true);
    json::array parts;
    for (const std::string& pattern : patterns) {
      parts.push_back(split(regex(spell_out(pattern)), "Isolated"));
    }
    parts.push_back(byte_level(false));
    return sequence("pretokenizers", std::move(parts));
  }
  CHECK(false);
  return {};
}

json::object vocabulary_of(const Source& source) {
  json::object vocab;
  vocab.reserve(source.tokens.size());
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    if (!source.tokens[id].empty()) vocab[source.tokens[id]] = id;
  }
  return vocab;
}

json::array merge(std::string_view left, std::string_view right) {
  return {json::string(left), json::string(right)};
}

json::array listed_merges(const Metadata& metadata) {
  json::array merges;
  for (const std::string_view text : **metadata.get_strings("tokenizer.ggml.merges")) {
    const size_t blank = text.find(' ', 1);
    merges.push_back(merge(text.substr(0, blank), text.substr(blank + 1)));
  }
  return merges;
}

// Returns every pair that forms a token, highest score first.
json::array merges_of_scores(const Source& source) {
  std::unordered_map<std::string_view, size_t> plain;
  std::vector<size_t> order;
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    if (!source.is_plain(id)) continue;
    plain.emplace(source.tokens[id], id);
    order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return source.scores[a] > source.scores[b]; });
  json::array merges;
  for (const size_t id : order) {
    const std::string_view text = source.tokens[id];
    for (size_t i = 1; i < text.size(); ++i) {
      const std::string_view left = text.substr(0, i), right = text.substr(i);
      if (plain.contains(left) && plain.contains(right)) merges.push_back(merge(left, right));
    }
  }
  return merges;
}

json::object bpe_model(const Source& source, json::array merges) {
  json::object model = of_type("BPE");
  model["dropout"] = nullptr;
  model["unk_token"] = nullptr;
  model["continuing_subword_prefix"] = nullptr;
  model["end_of_word_suffix"] = nullptr;
  model["fuse_unk"] = false;
  model["byte_fallback"] = false;
  model["ignore_merges"] = false;
  model["vocab"] = vocabulary_of(source);
  model["merges"] = std::move(merges);
  return model;
}

json::object byte_fallback(json::object model, const Source& source) {
  for (size_t id = 0; id < source.kinds.size(); ++id) {
    if (source.kinds[id] == 2) model["unk_token"] = source.tokens[id];
  }
  model["fuse_unk"] = true;
  model["byte_fallback"] = true;
  return model;
}

json::array decoders(bool strips_blank) {
  json::array parts = {replace(text_pattern(kMark), " "), of_type("ByteFallback"), of_type("Fuse")};
  if (strips_blank) {
    json::object strip = of_type("Strip");
    strip["content"] = " ";
    strip["start"] = 1;
    strip["stop"] = 0;
    parts.push_back(std::move(strip));
  }
  return parts;
}

void express_gpt2(const Source& source, json::object& all) {
  all["pre_tokenizer"] = byte_level_pre_tokenizer(source.metadata);
  all["decoder"] = byte_level(true);
  json::object model = bpe_model(source, listed_merges(source.metadata));
  const auto* pre = source.metadata.find("tokenizer.ggml.pre");
  const auto wanted = find_pre_tokenizer(pre ? std::get<std::string>(*pre) : "default");
  model["ignore_merges"] = (*wanted)->whole_words_first;
  all["model"] = std::move(model);
}

void express_llama(const Source& source, json::object& all) {
  const bool adds_blank = flag_of(source.metadata, "tokenizer.ggml.add_space_prefix", true);
  json::array normalizers;
  if (adds_blank) normalizers.push_back(prepend("Prepend", kMark));
  normalizers.push_back(replace(text_pattern(" "), kMark));
  all["normalizer"] = sequence("normalizers", std::move(normalizers));
  all["decoder"] = sequence("decoders", decoders(adds_blank));
  all["model"] = byte_fallback(bpe_model(source, merges_of_scores(source)), source);
}

void express_gemma4(const Source& source, json::object& all) {
  all["normalizer"] = replace(text_pattern(" "), kMark);
  all["pre_tokenizer"] = split(text_pattern(" "), "MergedWithPrevious");
  all["decoder"] = sequence("decoders", decoders(false));
  all["model"] = byte_fallback(bpe_model(source, listed_merges(source.metadata)), source);
}

void express_t5(const Source& source, json::object& all) {
  json::object metaspace = of_type("Metaspace");
  metaspace["replacement"] = kMark;
  metaspace["prepend_scheme"] = "always";
  metaspace["split"] = true;
  all["normalizer"] = sequence("normalizers", {replace(regex(R"((?<![\s\S]) +| +(?![\s\S]))"), ""),
                                               replace(regex(" +"), " ")});
  all["pre_tokenizer"] = metaspace;
  all["decoder"] = metaspace;
  json::object model = of_type("Unigram");
  json::array vocab;
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    // The library's model would produce control tokens from plain text, so they get names that no
    // text contains.
    const bool is_text = source.is_plain(id) || source.kinds[id] == 5;
    const std::string name =
        is_text ? source.tokens[id] : "\xEE\x80\x80token " + std::to_string(id);
    vocab.push_back(json::array{json::string(name), source.scores[id]});
    if (source.kinds[id] == 2) model["unk_id"] = id;
  }
  model["vocab"] = std::move(vocab);
  model["byte_fallback"] = false;
  all["model"] = std::move(model);
}

void express_bert(const Source& source, json::object& all) {
  json::object normalizer = of_type("BertNormalizer");
  normalizer["clean_text"] = true;
  normalizer["handle_chinese_chars"] = true;
  normalizer["strip_accents"] = nullptr;
  normalizer["lowercase"] = true;
  all["normalizer"] = std::move(normalizer);
  all["pre_tokenizer"] = of_type("BertPreTokenizer");
  json::object decoder = of_type("WordPiece");
  decoder["prefix"] = "##";
  decoder["cleanup"] = false;
  all["decoder"] = std::move(decoder);
  json::object model = of_type("WordPiece");
  model["unk_token"] = "[UNK]";
  model["continuing_subword_prefix"] = "##";
  model["max_input_chars_per_word"] = 100;
  json::object vocab;
  vocab.reserve(source.tokens.size());
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    std::string text = source.tokens[id];
    if (text.starts_with(kMark)) {
      text.erase(0, kMark.size());
    } else if (source.kinds[id] == 1) {
      text.insert(0, "##");
    }
    vocab[text] = id;
  }
  model["vocab"] = std::move(vocab);
  all["model"] = std::move(model);
}

// Returns whether the token strips blanks, as in Phi-3's own file.
bool eats_blanks(const Source& source, size_t id) {
  const std::string& text = source.tokens[id];
  return string_of(source.metadata, "general.name").starts_with("Phi3") && text != "<s>" &&
         text != "<unk>" && text != "<|endoftext|>";
}

json::array added_tokens(const Source& source, Specials specials) {
  json::array added;
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    const bool is_special = source.kinds[id] == 2 || source.kinds[id] == 3;
    const bool is_wanted = source.kinds[id] == 4 || (is_special && specials == Specials::kAdd);
    if (!is_wanted || source.tokens[id].empty()) continue;
    added.push_back(json::object{{"id", id},
                                 {"content", source.tokens[id]},
                                 {"single_word", false},
                                 {"lstrip", false},
                                 {"rstrip", eats_blanks(source, id)},
                                 {"normalized", false},
                                 {"special", is_special}});
  }
  return added;
}

}  // namespace

std::string tokenizer_json(const Metadata& metadata, Specials specials) {
  const Source source(metadata);
  json::object all = {{"version", "1.0"},         {"truncation", nullptr},
                      {"padding", nullptr},       {"added_tokens", added_tokens(source, specials)},
                      {"normalizer", nullptr},    {"pre_tokenizer", nullptr},
                      {"post_processor", nullptr}};
  if (source.model == "gpt2") express_gpt2(source, all);
  if (source.model == "llama") express_llama(source, all);
  if (source.model == "gemma4") express_gemma4(source, all);
  if (source.model == "t5") express_t5(source, all);
  if (source.model == "bert") express_bert(source, all);
  return json::serialize(all);
}

}  // namespace kvik
