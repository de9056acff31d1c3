#include "text/char_class.h"

#include <unicode/uchar.h>

namespace kvik {
namespace {

bool has_category(char32_t code_point, uint32_t mask) {
  return code_point < kNotACharacter && (U_GET_GC_MASK(static_cast<UChar32>(code_point)) & mask);
}

}  // namespace

CharClass class_of(char32_t code_point) {
  if (code_point >= kNotACharacter) return CharClass::kOther;
  if (has_category(code_point, U_GC_L_MASK)) return CharClass::kLetter;
  if (has_category(code_point, U_GC_N_MASK)) return CharClass::kNumber;
  if (u_isUWhiteSpace(static_cast<UChar32>(code_point))) return CharClass::kBlank;
  return CharClass::kOther;
}

bool is_punctuation(char32_t code_point) { return has_category(code_point, U_GC_P_MASK); }

bool is_cased_letter(char32_t code_point) {
  return has_category(code_point, U_GC_LU_MASK | U_GC_LL_MASK | U_GC_LT_MASK);
}

}  // namespace kvik
