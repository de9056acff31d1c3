#include "text/hf/bert_normalizer.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <iterator>
#include <utility>

#include "text/bert_text.h"
#include "text/char_class.h"
#include "text/utf8.h"

namespace kvik::hf {
namespace {

struct Flags {
  bool clean_text;
  bool handle_chinese_chars;
  bool strip_accents;
  bool lowercase;
};

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const Flags& flags) : flags_(flags) {}

  std::string apply(std::string text) const override {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const Utf8Step step = next_utf8(text, at);
      push(step.kind == Utf8Step::Kind::kValid ? step.code_point : U'\uFFFD', out);
      at += step.n_bytes;
    }
    return out;
  }

 private:
  void push(char32_t c, std::string& out) const {
    if (flags_.clean_text) {
      const bool is_newline = c == '\t' || c == '\n' || c == '\r';
      if (!is_newline && (c == 0 || c == 0xFFFD || is_bert_control(c))) return;
      if (make_char(c).char_class == CharClass::kBlank) c = ' ';
    }
    const bool is_apart = flags_.handle_chinese_chars && is_bert_cjk(c);
    if (is_apart) out += ' ';
    if (flags_.strip_accents) {
      push_without_accents(c, out);
    } else {
      push_cased(c, out);
    }
    if (is_apart) out += ' ';
  }

  void push_without_accents(char32_t c, std::string& out) const {
    UChar parts[32];  // no character's decomposition is longer than 18 (Unicode 15)
    UErrorCode error = U_ZERO_ERROR;
    const int32_t n = unorm2_getDecomposition(
        unorm2_getNFDInstance(&error), static_cast<UChar32>(c), parts, std::size(parts), &error);
    if (n < 0 || U_FAILURE(error)) {
      if (u_charType(static_cast<UChar32>(c)) != U_NON_SPACING_MARK) push_cased(c, out);
      return;
    }
    for (int32_t i = 0; i < n;) {
      UChar32 part = 0;
      U16_NEXT(parts, i, n, part);
      if (u_charType(part) != U_NON_SPACING_MARK) push_cased(static_cast<char32_t>(part), out);
    }
  }

  void push_cased(char32_t c, std::string& out) const {
    if (flags_.lowercase) c = static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
    append_utf8(c, out);
  }

  const Flags flags_;
};

}  // namespace

Result<std::unique_ptr<Normalizer>> read_bert_normalizer(const Fields& fields) {
  Flags flags{};
  TRY_ASSIGN(flags.clean_text, fields.flag("clean_text", true));
  TRY_ASSIGN(flags.handle_chinese_chars, fields.flag("handle_chinese_chars", true));
  TRY_ASSIGN(flags.lowercase, fields.flag("lowercase", true));
  TRY_ASSIGN(flags.strip_accents, fields.flag("strip_accents", flags.lowercase));
  return std::unique_ptr<Normalizer>(new BertNormalizer(flags));
}

}  // namespace kvik::hf
