#include "server/dialects/json_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <optional>
#include <string>
#include <utility>

#include "server/dialects/json_fields.h"
#include "server/http/http_message.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Measured as resident memory of chats of such values, rounded up: a value is held as JSON, as the
// service's data and as the template's, a text in each of them and in the prompt.
constexpr size_t kNumberBytes = 96;
constexpr size_t kOtherBytes = 300;
constexpr size_t kCopiesOfText = 6;

// What may still be heard.
struct Budget {
  using Code = json::error_code;

  bool add_number(Code& code) {
    const uint64_t most = RequestBounds::numbers(n_ctx);
    if (++weight.n_numbers <= most) return true;
    return refuse(code, ErrorCode::kInvalidArgument,
                  fmt::format("the body holds more than {} numbers", most));
  }
  bool add_other(Code& code) {
    const uint64_t most = RequestBounds::values(n_ctx);
    if (++weight.n_others <= most) return true;
    return refuse(code, ErrorCode::kInvalidArgument,
                  fmt::format("the body holds more than {} values", most));
  }
  bool add_text(size_t n_bytes, Code& code) {
    const uint64_t most = RequestBounds::text_bytes(n_ctx);
    weight.text_bytes += n_bytes;
    if (weight.text_bytes <= most) return true;
    return refuse(code, ErrorCode::kContextLength,
                  fmt::format("the texts of the body have more than {} bytes, which no context of "
                              "{} tokens holds",
                              most, n_ctx));
  }
  bool refuse(Code& code, ErrorCode kind, std::string message) {
    code = json::error::exception;
    fault = Error{kind, std::move(message), printable(field)};
    return false;
  }

  const uint64_t n_ctx;
  JsonWeight weight = {};
  std::optional<Error> fault = {};
  std::string field = {};  // of the body, the one being read
};

// Hears what a parser finds, and ends it where that is too much.
class Values {
 public:
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;
  using Code = json::error_code;
  using Text = json::string_view;

  explicit Values(Budget& budget) : budget_(budget) {}

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code& code) { return budget_.add_other(code); }
  bool on_object_end(size_t, Code&) { return true; }
  bool on_array_begin(Code& code) { return budget_.add_other(code); }
  bool on_array_end(size_t, Code&) { return true; }
  bool on_key_part(Text part, size_t, Code& code) { return budget_.add_text(part.size(), code); }
  bool on_key(Text part, size_t, Code& code) { return budget_.add_text(part.size(), code); }
  bool on_string_part(Text part, size_t, Code& code) { return budget_.add_text(part.size(), code); }
  bool on_string(Text part, size_t, Code& code) {
    return budget_.add_text(part.size(), code) && budget_.add_other(code);
  }
  bool on_number_part(Text, Code&) { return true; }
  bool on_int64(int64_t, Text, Code& code) { return budget_.add_number(code); }
  bool on_uint64(uint64_t, Text, Code& code) { return budget_.add_number(code); }
  bool on_double(double, Text, Code& code) { return budget_.add_number(code); }
  bool on_bool(bool, Code& code) { return budget_.add_other(code); }
  bool on_null(Code& code) { return budget_.add_other(code); }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }

 protected:
  Budget& budget_;
};

// A whole body: knows its fields, and that the arguments of tool calls are JSON in a string.
class Body : public Values {
 public:
  explicit Body(Budget& budget) : Values(budget) {}

  bool on_object_begin(Code& code) {
    ++depth_;
    return Values::on_object_begin(code);
  }
  bool on_object_end(size_t n, Code& code) {
    --depth_;
    return Values::on_object_end(n, code);
  }
  bool on_array_begin(Code& code) {
    key_.clear();
    ++depth_;
    return Values::on_array_begin(code);
  }
  bool on_array_end(size_t n, Code& code) {
    --depth_;
    return Values::on_array_end(n, code);
  }
  bool on_key_part(Text part, size_t n_bytes, Code& code) {
    hear_key(part, n_bytes);
    return Values::on_key_part(part, n_bytes, code);
  }
  bool on_key(Text part, size_t n_bytes, Code& code) {
    hear_key(part, n_bytes);
    if (depth_ == 1) budget_.field = key_;
    return Values::on_key(part, n_bytes, code);
  }
  bool on_string_part(Text part, size_t n_bytes, Code& code) {
    return hear_arguments(part, n_bytes, code) && Values::on_string_part(part, n_bytes, code);
  }
  bool on_string(Text part, size_t n_bytes, Code& code) {
    const bool is_heard = hear_arguments(part, n_bytes, code);
    inner_.reset();
    key_.clear();
    return is_heard && Values::on_string(part, n_bytes, code);
  }

 private:
  static constexpr size_t kKeyBytes = 64;  // of a key as far as it matters

  void hear_key(Text part, size_t n_bytes) {
    if (n_bytes == part.size()) key_.clear();
    const size_t room = kKeyBytes - std::min(kKeyBytes, key_.size());
    key_.append(part.data(), std::min(part.size(), room));
  }

  bool hear_arguments(Text part, size_t n_bytes, Code& code) {
    if (key_ != "arguments") return true;
    if (n_bytes == part.size()) inner_.emplace(json::parse_options(), budget_);
    Code broken;  // then it stays a text
    if (inner_) inner_->write_some(true, part.data(), part.size(), broken);
    if (broken) inner_.reset();
    if (budget_.fault) code = json::error::exception;
    return !budget_.fault;
  }

  size_t depth_ = 0;
  std::string key_;                                  // of the value that comes next
  std::optional<json::basic_parser<Values>> inner_;  // of arguments that are being read
};

}  // namespace

size_t JsonWeight::memory_bytes() const {
  return n_numbers * kNumberBytes + n_others * kOtherBytes + text_bytes * kCopiesOfText;
}

Result<JsonWeight> weigh_json(std::string_view text, uint64_t n_ctx) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  Budget budget{.n_ctx = n_ctx};
  json::basic_parser<Body> parser(options, budget);
  json::error_code broken;
  parser.write_some(false, text.data(), text.size(), broken);
  if (budget.fault) return std::unexpected(*budget.fault);
  return budget.weight;
}

}  // namespace kvik
