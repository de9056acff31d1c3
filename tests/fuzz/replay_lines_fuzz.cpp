// Any bytes as a replay: turns of tokens, each with a prompt and an answer, or a refusal with its
// line.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "study/bench/replay_file.h"
#include "text/bpe/byte_alphabet.h"

namespace kvik {
namespace {

const Tokenizer& bytes() {
  static const auto tokenizer = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) {
      tokens.push_back(byte_to_letter(static_cast<uint8_t>(byte)));
    }
    Metadata metadata;
    metadata.insert("tokenizer.ggml.model", std::string("gpt2"));
    metadata.insert("tokenizer.ggml.pre", std::string("llama-bpe"));
    metadata.insert("tokenizer.ggml.tokens", tokens);
    metadata.insert("tokenizer.ggml.merges", std::vector<std::string>());
    return std::move(*Tokenizer::from_metadata(metadata));
  }();
  return *tokenizer;
}

}  // namespace
}  // namespace kvik

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik;
  const std::string_view lines(reinterpret_cast<const char*>(data), n_bytes);
  const auto turns = parse_replay(lines, bytes());
  if (!turns) {
    CHECK(!turns.error().message.empty());
    return 0;
  }
  CHECK(!turns->empty());
  for (const ReplayTurn& turn : *turns) CHECK(!turn.prompt.empty() && !turn.answer.empty());
  return 0;
}
