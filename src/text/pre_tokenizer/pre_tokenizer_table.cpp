#include <fmt/format.h>

#include <string>

#include "text/pre_tokenizer/matchers.h"
#include "text/pre_tokenizer/pre_tokenizer.h"

namespace kvik {
namespace {

using Rules = std::vector<PreTokenizer::Rule>;
using Cut = PreTokenizer::Cut;

struct Entry {
  std::vector<std::string_view> names;
  Rules rules;
  bool whole_words_first = false;
  bool adds_bos = false;
  WindowEnds window_ends = WindowEnds::kBlanks;
};

// Returns one entry per behavior. The names, the priority of whole words and the default of BOS are
// those of llama.cpp (llama_vocab::impl::load()).
std::vector<Entry> entries() {
  const Rules numbers_then_gpt2 = {match_number, match_gpt2};
  return {
      {{"default"}, {match_default_punctuation, match_gpt2, match_numbers, match_three_digits}},
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "jina-es",
        "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code", "roberta-bpe",
        "gigachat", "a.x-4.0", "mellum", "modern-bert", "exaone4"},
       {match_gpt2}},
      {{"llama-bpe", "llama3", "llama-v3", "laguna", "falcon3", "falcon-h1", "pixtral", "midm-2.0",
        "lfm2", "jina-v5-nano"},
       {match_llama3},
       true,
       true},
      {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {match_llama3}},
      {{"jais-2"}, {match_jais2}},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "openpangu", "f2llmv2", "megrez", "stablelm2",
        "hunyuan", "solar-open", "grok-2", "bailingmoe", "bailingmoe2", "llada-moe"},
       {match_qwen2}},
      {{"qwen35"}, {match_qwen35}},
      {{"seed-coder"}, {match_seed_coder}},
      {{"exaone-moe"}, {match_exaone_moe}, false, false, WindowEnds::kLines},
      {{"falcon"}, {match_falcon_punctuation, match_gpt2, match_three_digits}},
      {{"starcoder", "refact", "command-r", "cohere2_moe", "smollm", "codeshell", "exaone",
        "minerva-7b", "mellum2"},
       numbers_then_gpt2},
      {{"deepseek-llm"},
       {match_newline, match_deepseek_letters, match_deepseek_punctuation, match_trailing_blanks,
        match_deepseek_cjk_then_numbers}},
      {{"deepseek-coder"},
       {match_newline, match_deepseek_coder_letters, match_deepseek_coder_punctuation,
        match_deepseek_cjk, match_number}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm"},
       {match_up_to_three_numbers, match_deepseek3_cjk, match_deepseek3}},
      {{"youtu"}, {match_youtu_scripts, match_youtu}, true},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {match_bloom}},
      {{"viking"}, {match_bloom, match_number}},
      {{"tekken"}, {match_tekken}, true, true},
      {{"gpt-4o", "llama4", "kanana2", "minimax-m2"}, {match_gpt4o}},
      {{"tiny_aya"}, {{match_digits_at_word_boundary, Cut::kGroupsOfThree}, match_gpt4o}},
      {{"kimi-k2"}, {match_kimi_k2}},
      {{"superbpe"},
       {match_numbers, {match_digits, Cut::kGroupsOfThree}},
       false,
       false,
       WindowEnds::kNone},
      {{"afmoe"}, {{match_numbers, Cut::kGroupsOfThree}, match_afmoe_scripts, match_deepseek3}},
      {{"chameleon"},
       {match_chameleon_sentinel, match_chameleon_image, match_chameleon_indent, match_number,
        match_chameleon_punctuation, match_gpt2},
       false,
       true},
      {{"gemma4"}, {match_line}, false, false, WindowEnds::kLines},
  };
}

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() {
  static const std::vector<PreTokenizer> all = [] {
    std::vector<PreTokenizer> flat;
    for (const Entry& entry : entries()) {
      for (const std::string_view name : entry.names) {
        flat.push_back(
            {name, entry.rules, entry.whole_words_first, entry.adds_bos, entry.window_ends});
      }
    }
    return flat;
  }();
  return all;
}

Result<const PreTokenizer*> find_pre_tokenizer(std::string_view name) {
  std::string supported;
  for (const PreTokenizer& pre_tokenizer : pre_tokenizers()) {
    if (pre_tokenizer.name == name) return &pre_tokenizer;
    supported.append(supported.empty() ? "" : ", ").append(pre_tokenizer.name);
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("metadata key 'tokenizer.ggml.pre' is '{}', expected one of {}", name,
                          supported));
}

}  // namespace kvik
