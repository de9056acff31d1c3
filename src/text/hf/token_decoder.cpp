#include "text/hf/token_decoder.h"

#include "text/blank_mark.h"
#include "text/bpe/byte_alphabet.h"

namespace kvik::hf {

Result<TokenDecoder> TokenDecoder::read(const boost::json::value* decoder) {
  TokenDecoder spelling;
  if (decoder && !decoder->is_null()) TRY(spelling.add(*decoder, "decoder"));
  return spelling;
}

Result<void> TokenDecoder::add(const boost::json::value& decoder, const std::string& path) {
  TRY_ASSIGN(const JsonObject fields, object_at(decoder, path));
  TRY_ASSIGN(const std::string type, fields.required_text("type"));
  if (type == "Sequence") {
    return fields.each_of(
        "decoders", [&](const auto& part, const auto& its_path) { return add(part, its_path); });
  }
  if (type == "Fuse") return {};  // has no effect on a single token
  if (type == "ByteLevel") {
    is_byte_level_ = true;
  } else if (type == "ByteFallback") {
    knows_byte_tokens_ = true;
  } else if (type == "Replace") {
    TRY_ASSIGN(const Pattern pattern, read_pattern(fields));
    TRY_ASSIGN(std::string content, fields.required_text("content"));
    if (pattern.text.empty()) return {};
    TRY_ASSIGN(Regex what, Regex::compile(pattern));
    replacements_.push_back({std::move(what), std::move(content)});
  } else if (type == "Strip") {
    TRY_ASSIGN(const auto content, fields.text("content"));
    TRY_ASSIGN(const auto n, fields.number("start"));
    strips_leading_blank_ |= content == " " && n.value_or(0) > 0;
  } else if (type == "Metaspace") {
    TRY_ASSIGN(const auto mark, fields.text("replacement"));
    TRY_ASSIGN(const auto scheme, fields.text("prepend_scheme"));
    TRY_ASSIGN(const bool adds_blank, fields.flag("add_prefix_space", true));
    TRY_ASSIGN(Regex what, Regex::compile({mark.value_or(std::string(kSpaceMark)), false}));
    replacements_.push_back({std::move(what), " "});
    strips_leading_blank_ |= scheme ? *scheme != "never" : adds_blank;
  } else if (type == "WordPiece") {
    TRY_ASSIGN(const auto prefix, fields.text("prefix"));
    word_piece_prefix_ = prefix.value_or("##");
    strips_leading_blank_ = true;
  } else if (type == "BPEDecoder") {
    TRY_ASSIGN(const auto suffix, fields.text("suffix"));
    word_suffix_ = suffix.value_or("</w>");
  } else {
    return fields.unsupported("type", type,
                              "ByteLevel, ByteFallback, Replace, Strip, Fuse, Metaspace, "
                              "WordPiece, BPEDecoder or Sequence");
  }
  return {};
}

std::string TokenDecoder::spell(std::string_view token) const {
  if (is_byte_level_) return letters_to_bytes(token).value_or(std::string(token));
  std::string text(token);
  if (word_piece_prefix_) {
    const bool goes_on = token.starts_with(*word_piece_prefix_);
    text = goes_on ? std::string(token.substr(word_piece_prefix_->size())) : " " + text;
  }
  if (!word_suffix_.empty() && text.ends_with(word_suffix_)) {
    text.replace(text.size() - word_suffix_.size(), word_suffix_.size(), " ");
  }
  for (const Replacement& replacement : replacements_) {
    text = replace_all(replacement.what, text, replacement.content);
  }
  return text;
}

}  // namespace kvik::hf
