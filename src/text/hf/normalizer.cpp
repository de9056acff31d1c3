#include "text/hf/normalizer.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/bpe/byte_alphabet.h"
#include "text/hf/regex.h"
#include "text/hf/tokenizer_object.h"
#include "text/pre_tokenizer/char_class.h"
#include "text/unigram/charsmap.h"
#include "text/word_piece/bert_text.h"

namespace kvik::hf {
namespace {

using Made = Result<Normalizer>;

Made unicode_form(const char* name, UNormalization2Mode mode) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* form = icu::Normalizer2::getInstance(nullptr, name, mode, error);
  if (U_FAILURE(error)) return fail(ErrorCode::kUnsupported, "ICU has no normalization data");
  return [form](std::string text) {
    std::string out;
    icu::StringByteSink<std::string> sink(&out, static_cast<int32_t>(text.size()));
    UErrorCode status = U_ZERO_ERROR;
    form->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                        nullptr, status);
    return U_SUCCESS(status) ? out : text;
  };
}

std::string strip(const std::string& text, bool left, bool right) {
  const Chars decoded(text);
  const auto chars = decoded.all();
  size_t begin = 0, end = text.size(), first = 0, last = chars.size();
  for (; left && first < last && is_blank(chars[first]); ++first) begin += chars[first].n_bytes;
  for (; right && last > first && is_blank(chars[last - 1]); --last) end -= chars[last - 1].n_bytes;
  return text.substr(begin, end - begin);
}

Made replacement(const JsonObject& fields) {
  TRY_ASSIGN(const Pattern pattern, read_pattern(fields));
  TRY_ASSIGN(const std::string content, fields.required_text("content"));
  if (pattern.text.empty()) return [](std::string text) { return text; };
  TRY_ASSIGN(const Regex regex, Regex::compile(pattern));
  return [=](const std::string& text) { return replace_all(regex, text, content); };
}

Made charsmap(const JsonObject& fields) {
  TRY_ASSIGN(const std::string base64, fields.required_text("precompiled_charsmap"));
  TRY_ASSIGN(Charsmap read, Charsmap::from_base64(base64));
  // The map is shared, because it is large and std::function copies its contents.
  return [map = std::make_shared<const Charsmap>(std::move(read))](std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const auto match = map->longest_at(text, at);
      const size_t n_bytes = match ? match->n_bytes : next_utf8(text, at).n_bytes;
      out += match ? match->replacement : text.substr(at, n_bytes);
      at += n_bytes;
    }
    return out;
  };
}

// Ignores the context rule for the final sigma, as Rust's char::to_lowercase does.
void append_lowercase(char32_t c, std::string& out) {
  append_utf8(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), out);
  if (c == U'\u0130') append_utf8(U'\u0307', out);
}

struct BertFlags {
  bool clean_text;
  bool handle_chinese_chars;
  bool strip_accents;
  bool lowercase;
};

void append_bert(const BertFlags& flags, char32_t c, std::string& out) {
  if (flags.clean_text) {
    const bool is_newline = c == '\t' || c == '\n' || c == '\r';
    if (!is_newline && (c == 0 || c == 0xFFFD || is_bert_control(c))) return;
    if (is_blank(make_char(c))) c = ' ';
  }
  const auto push = [&](char32_t letter) {
    if (flags.lowercase) letter = static_cast<char32_t>(u_tolower(static_cast<UChar32>(letter)));
    append_utf8(letter, out);
  };
  const bool is_chinese = flags.handle_chinese_chars && is_bert_cjk(c);
  if (is_chinese) out += ' ';
  if (flags.strip_accents) {
    each_bert_base(c, push);
  } else {
    push(c);
  }
  if (is_chinese) out += ' ';
}

// Returns BERT's normalizer. Depending on the flags, it removes control characters, adds spaces
// around Chinese characters, converts to lowercase and removes accents.
Made bert(const JsonObject& fields) {
  BertFlags flags{};
  TRY_ASSIGN(flags.clean_text, fields.flag("clean_text", true));
  TRY_ASSIGN(flags.handle_chinese_chars, fields.flag("handle_chinese_chars", true));
  TRY_ASSIGN(flags.lowercase, fields.flag("lowercase", true));
  TRY_ASSIGN(flags.strip_accents, fields.flag("strip_accents", flags.lowercase));
  return [flags](std::string_view text) {
    return each_character(text, [&](char32_t c, std::string& out) { append_bert(flags, c, out); });
  };
}

Made sequence(const JsonObject& fields) {
  std::vector<Normalizer> steps;
  TRY(fields.each_of("normalizers", [&](const auto& value, const auto& path) -> Result<void> {
    TRY_ASSIGN(auto step, read_normalizer(&value, path));
    if (step) steps.push_back(std::move(step));
    return {};
  }));
  return [steps = std::move(steps)](std::string text) {
    for (const auto& step : steps) text = step(std::move(text));
    return text;
  };
}

void append_unless_mark(char32_t c, std::string& out) {
  if (!is_mark(make_char(c))) append_utf8(c, out);
}

std::string bytes_to_letters(std::string_view text) {
  std::string letters;
  for (const char byte : text) letters += byte_to_letter(static_cast<uint8_t>(byte));
  return letters;
}

}  // namespace

Made read_normalizer(const boost::json::value* value, const std::string& path) {
  if (!value || value->is_null()) return nullptr;
  TRY_ASSIGN(const JsonObject fields, object_at(*value, path));
  TRY_ASSIGN(const std::string type, fields.required_text("type"));
  if (type == "Sequence") return sequence(fields);
  if (type == "Replace") return replacement(fields);
  if (type == "Precompiled") return charsmap(fields);
  if (type == "BertNormalizer") return bert(fields);
  if (type == "NFC") return unicode_form("nfc", UNORM2_COMPOSE);
  if (type == "NFD") return unicode_form("nfc", UNORM2_DECOMPOSE);
  if (type == "NFKC") return unicode_form("nfkc", UNORM2_COMPOSE);
  if (type == "NFKD") return unicode_form("nfkc", UNORM2_DECOMPOSE);
  if (type == "ByteLevel") return bytes_to_letters;
  if (type == "Lowercase") {
    return [](std::string_view text) { return each_character(text, append_lowercase); };
  }
  if (type == "StripAccents") {
    return [](std::string_view text) { return each_character(text, append_unless_mark); };
  }
  if (type == "Prepend") {
    TRY_ASSIGN(const std::string prefix, fields.required_text("prepend"));
    return [=](const std::string& text) { return text.empty() ? text : prefix + text; };
  }
  if (type == "Strip") {
    TRY_ASSIGN(const bool left, fields.flag("strip_left", true));
    TRY_ASSIGN(const bool right, fields.flag("strip_right", true));
    return [=](const std::string& text) { return strip(text, left, right); };
  }
  return fields.unsupported("type", type,
                            "NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, "
                            "Replace, Precompiled, BertNormalizer, ByteLevel or Sequence");
}

}  // namespace kvik::hf
