#include "text/hf/bert_normalizer.h"

#include <unicode/uchar.h>

#include <utility>

#include "text/pre_tokenizer/char_class.h"
#include "text/utf8.h"
#include "text/word_piece/bert_text.h"

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
    return each_character(text, [this](char32_t c, std::string& out) { push(c, out); });
  }

 private:
  void push(char32_t c, std::string& out) const {
    if (flags_.clean_text) {
      const bool is_newline = c == '\t' || c == '\n' || c == '\r';
      if (!is_newline && (c == 0 || c == 0xFFFD || is_bert_control(c))) return;
      if (is_blank(make_char(c))) c = ' ';
    }
    const bool is_apart = flags_.handle_chinese_chars && is_bert_cjk(c);
    if (is_apart) out += ' ';
    if (flags_.strip_accents) {
      each_bert_base(c, [&](char32_t base) { push_cased(base, out); });
    } else {
      push_cased(c, out);
    }
    if (is_apart) out += ' ';
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
