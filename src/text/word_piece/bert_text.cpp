#include "text/word_piece/bert_text.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace kvik {

// These are the characters of general category C except unassigned ones, which a later version of
// Unicode may assign.
bool is_bert_control(char32_t c) {
  constexpr uint32_t kOther = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK;
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & kOther) != 0;
}

bool is_bert_cjk(char32_t c) {
  constexpr char32_t kBlocks[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                     {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                     {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [=](const auto& block) { return block[0] <= c && c <= block[1]; });
}

void each_bert_base(char32_t c, const std::function<void(char32_t)>& take) {
  const auto take_base = [&](UChar32 part) {
    if (u_charType(part) != U_NON_SPACING_MARK) take(static_cast<char32_t>(part));
  };
  UChar parts[32];  // no decomposition is longer than 18 (Unicode 15)
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* nfd = unorm2_getNFDInstance(&error);
  const int32_t n = unorm2_getDecomposition(nfd, static_cast<UChar32>(c), parts,
                                            static_cast<int32_t>(std::size(parts)), &error);
  if (n < 0 || U_FAILURE(error)) return take_base(static_cast<UChar32>(c));
  for (int32_t i = 0; i < n;) {
    UChar32 part = 0;
    U16_NEXT(parts, i, n, part);
    take_base(part);
  }
}

}  // namespace kvik
