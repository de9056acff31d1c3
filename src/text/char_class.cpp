#include "text/char_class.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <array>

namespace kvik {
namespace {

struct Kind {
  CharClass char_class = CharClass::kOther;
  uint8_t traits = 0;
};

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

Kind look_up(char32_t code_point) {
  if (code_point >= kNotACharacter) return {};
  const auto c = static_cast<UChar32>(code_point);
  const uint32_t mask = U_GET_GC_MASK(c);
  Kind kind = {CharClass::kOther, traits_of(mask)};
  if (mask & U_GC_L_MASK) {
    kind.char_class = CharClass::kLetter;
  } else if (mask & U_GC_N_MASK) {
    kind.char_class = CharClass::kNumber;
  } else if (u_isUWhiteSpace(c)) {
    kind.char_class = CharClass::kBlank;
  }
  return kind;
}

constexpr char32_t kTableSize = 0x800;  // the scripts of one and two bytes: Latin to Arabic

const std::array<Kind, kTableSize>& table() {
  static const std::array<Kind, kTableSize> kinds = [] {
    std::array<Kind, kTableSize> all;
    for (char32_t c = 0; c < kTableSize; ++c) all[c] = look_up(c);
    return all;
  }();
  return kinds;
}

}  // namespace

Char make_char(size_t begin, char32_t code_point) {
  const Kind kind = code_point < kTableSize ? table()[code_point] : look_up(code_point);
  return {begin, code_point, kind.char_class, kind.traits};
}

bool is_han(char32_t code_point) {
  if (code_point >= kNotACharacter || code_point < 0x2E80) return false;  // the first of the script
  UErrorCode error = U_ZERO_ERROR;
  return uscript_getScript(static_cast<UChar32>(code_point), &error) == USCRIPT_HAN;
}

}  // namespace kvik
