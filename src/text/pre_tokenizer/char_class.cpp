#include "text/pre_tokenizer/char_class.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/utf8.h>

#include <vector>

#include "base/utf8.h"

namespace kvik {
namespace {

uint8_t traits_of(uint32_t category_mask) {
  uint8_t traits = 0;
  const auto set_if = [&](uint32_t mask, CharTrait trait) {
    if (category_mask & mask) traits |= trait;
  };
  set_if(U_GC_LU_MASK | U_GC_LT_MASK, kUpperTrait);
  set_if(U_GC_LL_MASK, kLowerTrait);
  set_if(U_GC_LM_MASK | U_GC_LO_MASK, kUncasedTrait);
  set_if(U_GC_M_MASK, kMarkTrait);
  set_if(U_GC_P_MASK, kPunctuationTrait);
  set_if(U_GC_S_MASK, kSymbolTrait);
  set_if(U_GC_ND_MASK, kDigitTrait);
  set_if(U_GC_PC_MASK, kConnectorTrait);
  return traits;
}

Char look_up(char32_t code_point) {
  if (code_point >= kNotACharacter) return {code_point, CharClass::kOther, 0, 1};
  const auto c = static_cast<UChar32>(code_point);
  const uint32_t mask = U_GET_GC_MASK(c);
  CharClass char_class = CharClass::kOther;
  if (mask & U_GC_L_MASK) {
    char_class = CharClass::kLetter;
  } else if (mask & U_GC_N_MASK) {
    char_class = CharClass::kNumber;
  } else if (u_isUWhiteSpace(c)) {
    char_class = CharClass::kBlank;
  }
  return {code_point, char_class, traits_of(mask), static_cast<uint8_t>(U8_LENGTH(c))};
}

constexpr char32_t kTableSize = 0x10000;  // includes all characters except emoji and rare scripts

const Char* table() {
  static const std::vector<Char> chars = [] {
    std::vector<Char> all;
    all.reserve(kTableSize);
    for (char32_t c = 0; c < kTableSize; ++c) all.push_back(look_up(c));
    return all;
  }();
  return chars.data();
}

}  // namespace

Char make_char(char32_t code_point) {
  return code_point < kTableSize ? table()[code_point] : look_up(code_point);
}

Chars::Chars(std::string_view text) : chars_(std::make_unique_for_overwrite<Char[]>(text.size())) {
  const Char* known = table();
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80) {
      chars_[n_++] = known[byte];
      ++at;
      continue;
    }
    const Utf8Step step = next_utf8(text, at);
    const bool is_valid = step.kind == Utf8Step::Kind::kValid;
    chars_[n_] = make_char(is_valid ? step.code_point : kNotACharacter);
    at += chars_[n_++].n_bytes;
  }
}

bool is_han(char32_t code_point) {
  if (code_point >= kNotACharacter || code_point < 0x2E80) return false;  // the first Han character
  UErrorCode error = U_ZERO_ERROR;
  return uscript_getScript(static_cast<UChar32>(code_point), &error) == USCRIPT_HAN;
}

}  // namespace kvik
