// Any bytes as tokenizer.ggml.*, and a text for what loads: it loads or says in one sentence why
// not, and what it makes of the text are ids of its own.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/bpe/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace kvik {
namespace {

// Values read from a fuzzer's bytes; zeros beyond their end.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t n_bytes)
      : rest_(reinterpret_cast<const char*>(data), n_bytes) {}

  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::string text(size_t max_bytes) {
    const size_t n = std::min(std::min<size_t>(byte(), max_bytes), rest_.size());
    std::string taken(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return taken;
  }
  bool empty() const { return rest_.empty(); }
  std::string rest() { return std::string(rest_); }

 private:
  std::string_view rest_;
};

std::string byte_token(int byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">";
}

Metadata metadata_of(Bytes& bytes) {
  constexpr const char* kModels[] = {"gpt2", "llama", "t5", "bert", "gemma4", "none"};
  const auto all = pre_tokenizers();
  Metadata metadata;
  const std::string model = kModels[bytes.byte() % std::size(kModels)];
  metadata.insert("tokenizer.ggml.model", model);
  metadata.insert("tokenizer.ggml.pre", std::string(all[bytes.byte() % all.size()].name));
  const uint8_t flags = bytes.byte();
  metadata.insert("tokenizer.ggml.add_bos_token", (flags & 1) != 0);
  metadata.insert("tokenizer.ggml.add_space_prefix", (flags & 2) != 0);
  metadata.insert("tokenizer.ggml.remove_extra_whitespaces", (flags & 4) != 0);
  if (flags & 8) metadata.insert("general.name", std::string("Phi3"));
  if (flags & 16) metadata.insert("tokenizer.ggml.bos_token_id", uint64_t{bytes.byte()});
  if (flags & 32) metadata.insert("tokenizer.ggml.unknown_token_id", uint64_t{bytes.byte()});

  std::vector<std::string> tokens;
  std::vector<int64_t> kinds;
  std::vector<double> scores;
  if (flags & 64) {  // what every vocabulary that loads has
    for (int byte = 0; byte < 256; ++byte) {
      tokens.push_back(model == "gpt2" ? byte_to_letter(static_cast<uint8_t>(byte))
                                       : byte_token(byte));
      kinds.push_back(model == "gpt2" ? 1 : 6);
      scores.push_back(0);
    }
  }
  for (size_t n = bytes.byte() % 64; n > 0; --n) {
    tokens.push_back(bytes.text(16));
    kinds.push_back(bytes.byte() % 8);
    scores.push_back(static_cast<int8_t>(bytes.byte()) / 4.0);
  }
  std::vector<std::string> merges;
  for (size_t n = bytes.byte() % 64; n > 0 && !tokens.empty(); --n) {
    std::string merge = tokens[(bytes.byte() * 256 + bytes.byte()) % tokens.size()] + " ";
    merges.push_back(merge + tokens[(bytes.byte() * 256 + bytes.byte()) % tokens.size()]);
  }
  if (flags & 128) {
    std::vector<int64_t> charsmap;
    for (const char c : bytes.text(255)) charsmap.push_back(static_cast<uint8_t>(c));
    metadata.insert("tokenizer.ggml.precompiled_charsmap", charsmap);
  }
  metadata.insert("tokenizer.ggml.tokens", std::move(tokens));
  metadata.insert("tokenizer.ggml.token_type", std::move(kinds));
  metadata.insert("tokenizer.ggml.scores", std::move(scores));
  metadata.insert("tokenizer.ggml.merges", std::move(merges));
  return metadata;
}

}  // namespace
}  // namespace kvik

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik;
  Bytes bytes(data, n_bytes);
  const auto tokenizer = Tokenizer::from_metadata(metadata_of(bytes));
  if (!tokenizer) {
    CHECK(!tokenizer.error().message.empty());
    return 0;
  }
  const std::string text = bytes.rest();
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->tokenize(text, {.parse_special = parse_special});
    for (const TokenId id : ids) CHECK(id < (*tokenizer)->n_vocab());
    (void)(*tokenizer)->detokenize(ids, Tokenizer::Special::kShow);
  }
  return 0;
}
