// Any bytes as a tokenizer.json, and what follows a NUL as a text for it: it loads or says in one
// sentence why not, and what it makes of the text are ids of its own.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/hf/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik;
  const std::string_view all(reinterpret_cast<const char*>(data), n_bytes);
  const size_t end = std::min(all.find('\0'), all.size());
  const auto tokenizer = read_tokenizer_json(all.substr(0, end), TokenizerConfig());
  if (!tokenizer) {
    CHECK(!tokenizer.error().message.empty());
    return 0;
  }
  const std::string_view text = all.substr(std::min(end + 1, all.size()));
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->tokenize(text, {.parse_special = parse_special});
    for (const TokenId id : ids) CHECK(id < (*tokenizer)->n_vocab());
    (void)(*tokenizer)->detokenize(ids, Tokenizer::Special::kShow);
  }
  return 0;
}
