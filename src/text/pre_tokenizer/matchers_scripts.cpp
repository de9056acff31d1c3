#include <string_view>

#include "text/pre_tokenizer/matcher_parts.h"
#include "text/pre_tokenizer/matchers.h"

namespace kvik {
namespace {

using namespace matcher;

bool is_letter(const Char& c) { return c.char_class == CharClass::kLetter; }
bool is_letter_or_mark(const Char& c) { return is_letter(c) || c.has(kMarkTrait); }
bool is_sign(const Char& c) { return c.has(kPunctuationTrait | kSymbolTrait); }

bool is_ascii_letter(const Char& c) {
  return is_between(c.code_point, 'A', 'Z') || is_between(c.code_point, 'a', 'z');
}

bool is_deepseek3_cjk(const Char& c) {
  return is_between(c.code_point, 0x4E00, 0x9FA5) || is_between(c.code_point, 0x3040, 0x30FF);
}

// The list in DeepSeek's tokenizer.json, 100 ranges long, said in fewer words.
bool is_deepseek_letter(const Char& c) {
  const char32_t p = c.code_point;
  if (!c.has(kUpperTrait | kLowerTrait)) return false;
  if (p < 0x10000) {
    const bool is_left_out = is_between(p, 0x560, 0x588) || is_between(p, 0x10C7, 0x10FF) ||
                             is_between(p, 0x1C80, 0x1C88) || is_between(p, 0x2D00, 0x2D2D) ||
                             is_between(p, 0xA790, 0xA7FA) || is_between(p, 0xAB30, 0xAB68);
    return !is_left_out;
  }
  return is_between(p, 0x10400, 0x1044F) || is_between(p, 0x104B0, 0x104FB) ||
         is_between(p, 0x10C80, 0x10CF2) || is_between(p, 0x118A0, 0x118DF) ||
         is_between(p, 0x1E900, 0x1E943);
}

bool is_deepseek_punctuation(const Char& c) {
  const char32_t p = c.code_point;
  return is_between(p, '!', '/') || is_between(p, ':', '~') || is_between(p, 0xFF01, 0xFF0F) ||
         is_between(p, 0xFF1A, 0xFF5E) || is_between(p, 0x2018, 0x201F) ||
         is_between(p, 0x3000, 0x3002);
}

bool is_deepseek_cjk(const Char& c) {
  return is_between(c.code_point, 0x800, 0x9FA5) || is_between(c.code_point, 0xAC00, 0xD7FF);
}

bool is_hangul(const Char& c) {
  return is_between(c.code_point, 0xAC00, 0xD7A3) || is_between(c.code_point, 0x3131, 0x318E);
}

bool is_youtu_punctuation(const Char& c) {
  constexpr std::u32string_view kSingle = U"！…“”‘’—：；，";
  return is_between(c.code_point, 0x3001, 0x303F) || is_between(c.code_point, 0xFE30, 0xFE4F) ||
         kSingle.find(c.code_point) != kSingle.npos;
}

bool is_bopomofo(const Char& c) { return is_between(c.code_point, 0x3105, 0x312F); }

bool is_afmoe_script(const Char& c) {
  constexpr char32_t kRanges[][2] = {
      {0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0xF900, 0xFAFF}, {0x3040, 0x30FF}, {0xFF65, 0xFF9F},
      {0x2F00, 0x2FDF}, {0x0E40, 0x0EFF}, {0x1780, 0x17FF}, {0x1000, 0x109F}, {0xAA60, 0xAA7F},
      {0xA9E0, 0xA9FF}, {0xAC00, 0xD7AF}, {0x1100, 0x11FF}};
  for (const auto& range : kRanges) {
    if (is_between(c.code_point, range[0], range[1])) return true;
  }
  return false;
}

size_t deepseek3_at(Piece piece, size_t at) {
  const Char& c = piece[at];
  if (c.code_point < 0x80 && is_sign(c)) {
    if (const size_t end = run_end(piece, at + 1, is_ascii_letter); end > at + 1) return end;
  }
  if (!is_newline(c) && !is_letter(c) && !is_sign(c)) {
    if (const size_t end = run_end(piece, at + 1, is_letter_or_mark); end > at + 1) return end;
  }
  if (const size_t end = run_end(piece, at, is_letter_or_mark); end > at) return end;
  const size_t begin = at + (c.code_point == ' ' ? 1 : 0);
  if (const size_t end = run_end(piece, begin, is_sign); end > begin) {
    return run_end(piece, end, is_newline);
  }
  if (const size_t end = blanks_to_newline(piece, at); end > at) return end;
  return blanks(piece, at);
}

size_t deepseek3_cjk_at(Piece piece, size_t at) { return run_end(piece, at, is_deepseek3_cjk); }

size_t deepseek_letters_at(Piece piece, size_t at) {
  return run_after_blank(piece, at, is_deepseek_letter);
}

size_t deepseek_punctuation_at(Piece piece, size_t at) {
  return run_after_blank(piece, at, is_deepseek_punctuation);
}

size_t deepseek_cjk_at(Piece piece, size_t at) { return run_end(piece, at, is_deepseek_cjk); }

// Numbers are among the scripts: runs of either, of both and of neither are four kinds of words.
size_t deepseek_cjk_then_numbers_at(Piece piece, size_t at) {
  const auto is_number = [](const Char& c) { return c.char_class == CharClass::kNumber; };
  const bool cjk = is_deepseek_cjk(piece[at]), number = is_number(piece[at]);
  if (!cjk && !number) return at;
  return run_end(piece, at, [=](const Char& c) {
    return is_deepseek_cjk(c) == cjk && is_number(c) == number;
  });
}

size_t deepseek_coder_letters_at(Piece piece, size_t at) {
  return run_after_blank(piece, at, is_letter);
}

size_t deepseek_coder_punctuation_at(Piece piece, size_t at) {
  return run_after_blank(piece, at, [](const Char& c) { return c.has(kPunctuationTrait); });
}

size_t youtu_scripts_at(Piece piece, size_t at) {
  for (const auto belongs : {is_hangul, is_youtu_punctuation, is_bopomofo, is_deepseek3_cjk}) {
    if (const size_t end = run_end(piece, at, belongs); end > at) return end;
  }
  return at;
}

size_t afmoe_scripts_at(Piece piece, size_t at) { return run_end(piece, at, is_afmoe_script); }

}  // namespace

Match match_deepseek3(Piece piece, size_t from) { return first<deepseek3_at>(piece, from); }
Match match_deepseek3_cjk(Piece piece, size_t from) { return first<deepseek3_cjk_at>(piece, from); }
Match match_deepseek_letters(Piece piece, size_t from) {
  return first<deepseek_letters_at>(piece, from);
}
Match match_deepseek_punctuation(Piece piece, size_t from) {
  return first<deepseek_punctuation_at>(piece, from);
}
Match match_deepseek_cjk(Piece piece, size_t from) { return first<deepseek_cjk_at>(piece, from); }
Match match_deepseek_cjk_then_numbers(Piece piece, size_t from) {
  return first<deepseek_cjk_then_numbers_at>(piece, from);
}
Match match_deepseek_coder_letters(Piece piece, size_t from) {
  return first<deepseek_coder_letters_at>(piece, from);
}
Match match_deepseek_coder_punctuation(Piece piece, size_t from) {
  return first<deepseek_coder_punctuation_at>(piece, from);
}
Match match_youtu_scripts(Piece piece, size_t from) { return first<youtu_scripts_at>(piece, from); }
Match match_afmoe_scripts(Piece piece, size_t from) { return first<afmoe_scripts_at>(piece, from); }

}  // namespace kvik
