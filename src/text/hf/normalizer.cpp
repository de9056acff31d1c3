#include "text/hf/normalizer.h"

#include <fmt/format.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <boost/json/array.hpp>
#include <utility>
#include <vector>

#include "text/bpe/byte_alphabet.h"
#include "text/hf/bert_normalizer.h"
#include "text/hf/fields.h"
#include "text/hf/regex.h"
#include "text/pre_tokenizer/char_class.h"
#include "text/unigram/charsmap.h"
#include "text/utf8.h"

namespace kvik::hf {
namespace {

using Made = Result<std::unique_ptr<Normalizer>>;

// A step that is a function.
template <class Function>
class Step final : public Normalizer {
 public:
  explicit Step(Function function) : function_(std::move(function)) {}
  std::string apply(std::string text) const override { return function_(std::move(text)); }

 private:
  Function function_;
};

template <class Function>
std::unique_ptr<Normalizer> make_step(Function function) {
  return std::make_unique<Step<Function>>(std::move(function));
}

Made unicode_form(const char* name, UNormalization2Mode mode) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* form = icu::Normalizer2::getInstance(nullptr, name, mode, error);
  if (U_FAILURE(error)) return fail(ErrorCode::kUnsupported, "ICU has no normalisation data");
  return make_step([form](std::string text) {
    std::string out;
    icu::StringByteSink<std::string> sink(&out, static_cast<int32_t>(text.size()));
    UErrorCode status = U_ZERO_ERROR;
    form->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                        nullptr, status);
    return U_SUCCESS(status) ? out : text;
  });
}

std::string strip(std::string text, bool left, bool right) {
  const Chars decoded(text);
  const auto chars = decoded.all();
  size_t begin = 0, end = text.size(), first = 0, last = chars.size();
  for (; left && first < last && is_blank(chars[first]); ++first) begin += chars[first].n_bytes;
  for (; right && last > first && is_blank(chars[last - 1]); --last) end -= chars[last - 1].n_bytes;
  return text.substr(begin, end - begin);
}

Made replacement(const Fields& fields) {
  TRY_ASSIGN(const Pattern pattern, read_pattern(fields));
  TRY_ASSIGN(std::string content, fields.required_text("content"));
  if (pattern.text.empty()) return make_step([](std::string text) { return text; });
  TRY_ASSIGN(Regex regex, Regex::compile(pattern));
  auto shared = std::make_shared<Regex>(std::move(regex));  // functions are copied
  return make_step([shared, content = std::move(content)](std::string text) {
    return replace_all(*shared, text, content);
  });
}

Made charsmap(const Fields& fields) {
  TRY_ASSIGN(const std::string base64, fields.required_text("precompiled_charsmap"));
  TRY_ASSIGN(Charsmap map, Charsmap::from_base64(base64));
  auto shared = std::make_shared<Charsmap>(std::move(map));
  return make_step([shared](std::string text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      if (const auto match = shared->longest_at(text, at)) {
        out += match->replacement;
        at += match->n_bytes;
      } else {
        const size_t n_bytes = next_utf8(text, at).n_bytes;
        out.append(text, at, n_bytes);
        at += n_bytes;
      }
    }
    return out;
  });
}

// Without the context that small sigmas ask for, as in Rust's char::to_lowercase.
void append_lowercase(char32_t c, std::string& out) {
  append_utf8(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), out);
  if (c == U'\u0130') append_utf8(U'\u0307', out);
}

Made sequence(const Fields& fields) {
  TRY_ASSIGN(const auto* list, fields.list("normalizers"));
  if (!list) return unexpected_value(fields.path_of("normalizers"), nullptr, "a list");
  auto steps = std::make_shared<std::vector<std::unique_ptr<Normalizer>>>();
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = fmt::format("{}[{}]", fields.path_of("normalizers"), i);
    TRY_ASSIGN(auto step, read_normalizer(&(*list)[i], path));
    if (step) steps->push_back(std::move(step));
  }
  return make_step([steps](std::string text) {
    for (const auto& step : *steps) text = step->apply(std::move(text));
    return text;
  });
}

Made read_simple(const std::string& type, const Fields& fields) {
  if (type == "NFC") return unicode_form("nfc", UNORM2_COMPOSE);
  if (type == "NFD") return unicode_form("nfc", UNORM2_DECOMPOSE);
  if (type == "NFKC") return unicode_form("nfkc", UNORM2_COMPOSE);
  if (type == "NFKD") return unicode_form("nfkc", UNORM2_DECOMPOSE);
  if (type == "Lowercase") {
    return make_step([](std::string text) { return each_character(text, append_lowercase); });
  }
  if (type == "StripAccents") {
    return make_step([](std::string text) {
      return each_character(text, [](char32_t c, std::string& out) {
        if (!is_mark(make_char(c))) append_utf8(c, out);
      });
    });
  }
  if (type == "ByteLevel") {
    return make_step([](std::string text) {
      std::string letters;
      for (const char byte : text) letters += byte_to_letter(static_cast<uint8_t>(byte));
      return letters;
    });
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("tokenizer.json: '{}' is '{}', expected NFC, NFD, NFKC, NFKD, Lowercase, "
                          "Strip, StripAccents, Prepend, Replace, Precompiled, BertNormalizer, "
                          "ByteLevel or Sequence",
                          fields.path_of("type"), type));
}

}  // namespace

Made read_normalizer(const boost::json::value* value, const std::string& path) {
  if (!value || value->is_null()) return nullptr;
  TRY_ASSIGN(const Fields fields, Fields::of(*value, path));
  TRY_ASSIGN(const std::string type, fields.required_text("type"));
  if (type == "Sequence") return sequence(fields);
  if (type == "Replace") return replacement(fields);
  if (type == "Precompiled") return charsmap(fields);
  if (type == "BertNormalizer") return read_bert_normalizer(fields);
  if (type == "Prepend") {
    TRY_ASSIGN(std::string prefix, fields.required_text("prepend"));
    return make_step([prefix = std::move(prefix)](std::string text) {
      return text.empty() ? text : prefix + text;
    });
  }
  if (type == "Strip") {
    TRY_ASSIGN(const bool left, fields.flag("strip_left", true));
    TRY_ASSIGN(const bool right, fields.flag("strip_right", true));
    return make_step([=](std::string text) { return strip(std::move(text), left, right); });
  }
  return read_simple(type, fields);
}

}  // namespace kvik::hf
