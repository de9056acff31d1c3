#include <algorithm>
#include <array>
#include <string_view>

#include "text/vocabulary.h"

namespace kvik {
namespace {

// The names that llama.cpp collects in llama_vocab::impl::load().
constexpr std::array<std::string_view, 17> kEndNames = {
    "<|eot_id|>",          // Llama 3
    "<|eom_id|>",          // Llama 3, before a tool's answer
    "<|im_end|>",          // ChatML: Qwen and many others
    "<|end|>",             // Phi-3
    "<|return|>",          // harmony
    "<|call|>",            // harmony, before a tool's answer
    "<end_of_turn>",       // Gemma
    "<|endoftext|>",       // GPT-2, Qwen
    "<|end_of_text|>",     // Llama 3, Granite
    "<EOT>",               // CodeLlama
    "[EOT]",               // Kimi
    "<end_of_utterance>",  // SmolVLM
    "<eos>",               // Gemma
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",  // DeepSeek
    "<|fim_pad|>",  // Qwen Coder, at the end of a part of a file
    "<|repo_name|>",
    "<|file_sep|>",
};

std::optional<TokenId> find_control(const Vocabulary& vocabulary, std::string_view name) {
  const std::optional<TokenId> id = vocabulary.find(name);
  return id && vocabulary.kinds[*id] == TokenKind::kControl ? id : std::nullopt;
}

}  // namespace

std::vector<TokenId> find_end_tokens(const Vocabulary& vocabulary,
                                     std::initializer_list<std::optional<TokenId>> named) {
  std::vector<TokenId> ends;
  const auto add = [&](std::optional<TokenId> id) {
    if (id && std::find(ends.begin(), ends.end(), *id) == ends.end()) ends.push_back(*id);
  };
  for (const std::optional<TokenId>& id : named) add(id);
  // In harmony, <|end|> ends one message of an answer, and more messages may follow.
  const bool is_harmony =
      find_control(vocabulary, "<|return|>") && find_control(vocabulary, "<|call|>");
  for (const std::string_view name : kEndNames) {
    if (!(is_harmony && name == "<|end|>")) add(find_control(vocabulary, name));
  }
  return ends;
}

}  // namespace kvik
