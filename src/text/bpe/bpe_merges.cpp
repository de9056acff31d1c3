#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "text/blank_mark.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/vocabulary.h"

namespace kvik {
namespace {

constexpr const char* kMergesKey = "tokenizer.ggml.merges";

// Converters write user-defined runs of blanks as blanks, where the merges have their marks.
std::optional<TokenId> find_token(const Vocabulary& vocabulary, std::string_view text) {
  if (const auto id = vocabulary.find(text)) return id;
  if (text.find(kBlankMark) == text.npos) return std::nullopt;
  return vocabulary.find(blank_marks_to_blanks(text));
}

}  // namespace

Result<TokenJoins> read_merges(const Metadata& metadata, const Vocabulary& vocabulary) {
  TRY_ASSIGN(const std::vector<std::string>* merges, metadata.get_strings(kMergesKey));
  if (!merges) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("metadata key '{}' is missing, expected since 'tokenizer.ggml.model' is "
                    "'gpt2'",
                    kMergesKey));
  }
  TokenJoins joins;
  joins.reserve(merges->size());
  uint32_t rank = 0;
  for (const std::string_view merge : *merges) {
    const size_t blank = merge.find(' ', 1);
    if (blank == merge.npos || blank + 1 == merge.size()) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("metadata key '{}' has '{}' as number {}, expected two tokens with a "
                              "blank between",
                              kMergesKey, merge, rank));
    }
    const std::string_view halves[] = {merge.substr(0, blank), merge.substr(blank + 1)};
    const auto left = find_token(vocabulary, halves[0]), right = find_token(vocabulary, halves[1]);
    for (const std::string_view half : halves) {
      if (find_token(vocabulary, half)) continue;
      return fail(ErrorCode::kCorrupt,
                  fmt::format("metadata key '{}' has '{}' as number {}, expected two tokens, but "
                              "'{}' is none",
                              kMergesKey, merge, rank, half));
    }
    const auto joined = find_token(vocabulary, std::string(halves[0]).append(halves[1]));
    if (joined && vocabulary.is_plain(*joined)) joins.insert(*left, *right, {rank, *joined});
    ++rank;
  }
  return joins;
}

}  // namespace kvik
