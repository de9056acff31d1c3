// Any bytes as a JSON Schema: it compiles within its limits or says why not, and what it allows can
// be followed, byte by byte, to where the text may end.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "constrain/grammar_matcher.h"
#include "constrain/json_schema.h"

namespace kvik::constrain {
namespace {

void follow(Grammar grammar, std::string_view choices) {
  static const auto vocabulary = [] {
    std::vector<std::string> tokens = {"\":", "\",\"", "}}", "ab", "{\"a\":"};
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    return std::make_shared<const VocabularyTrie>(std::move(tokens));
  }();
  GrammarMatcher matcher = CompiledGrammar::make(std::move(grammar), vocabulary)->start();
  TokenBitmask mask(vocabulary->n_vocab());
  for (const char choice : choices.substr(0, 64)) {
    if (!matcher.mask(mask)) return;
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < vocabulary->n_vocab(); ++id) {
      if (mask.allows(id)) allowed.push_back(id);
    }
    const auto complete = matcher.is_complete();
    if (!complete) return;
    CHECK(*complete || !allowed.empty());  // there is always a way on
    if (allowed.empty()) return;
    const auto taken = matcher.accept(allowed[static_cast<uint8_t>(choice) % allowed.size()]);
    if (!taken) return;
    CHECK(*taken);
  }
}

}  // namespace
}  // namespace kvik::constrain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik::constrain;
  const std::string_view text(reinterpret_cast<const char*>(data), n_bytes);
  SchemaOptions options;
  options.limits.max_work = 400'000;
  options.limits.max_work_per_token = 400'000;
  options.whitespace.max_run = n_bytes % 3;
  if (n_bytes % 2 == 0) options.language = SchemaOptions::Language::kCanonical;
  auto made = compile_json_schema(text, options);
  if (made) follow(std::move(made->grammar), text);
  return 0;
}
