#include "server/dialects/request_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/storage_ptr.hpp>
#include <boost/json/value_stack.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/http/http_message.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Measured resident memory of chats with such values, rounded up: a value is held as JSON, as the
// service's data and as the template's, and a text in each of them and in the prompt.
constexpr size_t kNumberBytes = 96;
constexpr size_t kOtherBytes = 300;
constexpr size_t kCopiesOfText = 6;

// Memory that may be allocated before the share grows by it.
constexpr size_t kStepBytes = size_t{64} << 10;

// Counts values, and stops the parser when a text exceeds its budget.
class Counter {
 public:
  using Code = json::error_code;

  explicit Counter(JsonBudget& budget) : budget_(budget) {}

  void set_field(std::string_view field) { field_ = field; }
  bool is_over() const { return budget_.fault || !budget_.has_room; }

  bool add_number(Code& code) {
    const uint64_t most = RequestBounds::numbers(budget_.n_ctx);
    if (++budget_.weight.n_numbers <= most) return charge(kStepBytes, code);
    return refuse(code, ErrorCode::kInvalidArgument,
                  fmt::format("the body holds more than {} numbers", most));
  }
  bool add_other(Code& code) {
    const uint64_t most = RequestBounds::values(budget_.n_ctx);
    if (++budget_.weight.n_others <= most) return charge(kStepBytes, code);
    return refuse(code, ErrorCode::kInvalidArgument,
                  fmt::format("the body holds more than {} values", most));
  }
  bool add_text(size_t n_bytes, Code& code) {
    const uint64_t most = RequestBounds::text_bytes(budget_.n_ctx);
    budget_.weight.text_bytes += n_bytes;
    if (budget_.weight.text_bytes <= most) return charge(kStepBytes, code);
    return refuse(
        code, ErrorCode::kContextLength,
        fmt::format(
            "the texts of the body exceed {} bytes, more than a context of {} tokens can hold",
            most, budget_.n_ctx));
  }

  // Grows the share to the counted memory if it lags by at least `step` bytes.
  bool charge(size_t step, Code& code) {
    const size_t n_bytes = budget_.weight.memory_bytes();
    if (n_bytes - charged_bytes_ < step) return true;
    budget_.has_room = budget_.share.grow(n_bytes - charged_bytes_);
    charged_bytes_ = n_bytes;
    if (!budget_.has_room) code = json::error::exception;
    return budget_.has_room;
  }

 private:
  bool refuse(Code& code, ErrorCode kind, std::string message) {
    code = json::error::exception;
    budget_.fault = Error{kind, std::move(message), printable(field_)};
    return false;
  }

  JsonBudget& budget_;
  size_t charged_bytes_ = 0;
  std::string field_;  // field of the body being parsed
};

// A parser handler that counts.
class CountedValues {
 public:
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;
  using Code = json::error_code;
  using Text = json::string_view;

  explicit CountedValues(Counter& counter) : counter_(counter) {}

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code& code) { return counter_.add_other(code); }
  bool on_object_end(size_t, Code&) { return true; }
  bool on_array_begin(Code& code) { return counter_.add_other(code); }
  bool on_array_end(size_t, Code&) { return true; }
  bool on_key_part(Text part, size_t, Code& code) { return counter_.add_text(part.size(), code); }
  bool on_key(Text part, size_t, Code& code) { return counter_.add_text(part.size(), code); }
  bool on_string_part(Text part, size_t, Code& code) {
    return counter_.add_text(part.size(), code);
  }
  bool on_string(Text part, size_t, Code& code) {
    return counter_.add_text(part.size(), code) && counter_.add_other(code);
  }
  bool on_number_part(Text, Code&) { return true; }
  bool on_int64(int64_t, Text, Code& code) { return counter_.add_number(code); }
  bool on_uint64(uint64_t, Text, Code& code) { return counter_.add_number(code); }
  bool on_double(double, Text, Code& code) { return counter_.add_number(code); }
  bool on_bool(bool, Code& code) { return counter_.add_other(code); }
  bool on_null(Code& code) { return counter_.add_other(code); }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }

 protected:
  Counter& counter_;
};

// Creates values in addition to counting. Knows the fields of a body, and that the arguments of
// tool calls are JSON in a string.
class BodyValues : public CountedValues {
 public:
  BodyValues(Counter& counter, json::storage_ptr storage) : CountedValues(counter) {
    made_.reset(std::move(storage));
  }

  json::value take() { return made_.release(); }

  bool on_object_begin(Code& code) {
    ++depth_;
    return CountedValues::on_object_begin(code);
  }
  bool on_object_end(size_t n, Code&) {
    --depth_;
    made_.push_object(n);
    return true;
  }
  bool on_array_begin(Code& code) {
    key_.clear();
    ++depth_;
    return CountedValues::on_array_begin(code);
  }
  bool on_array_end(size_t n, Code&) {
    --depth_;
    made_.push_array(n);
    return true;
  }
  bool on_key_part(Text part, size_t n_bytes, Code& code) {
    if (!CountedValues::on_key_part(part, n_bytes, code)) return false;
    on_key_bytes(part, n_bytes);
    made_.push_chars(part);
    return true;
  }
  bool on_key(Text part, size_t n_bytes, Code& code) {
    on_key_bytes(part, n_bytes);
    if (depth_ == 1) counter_.set_field(key_);
    if (!CountedValues::on_key(part, n_bytes, code)) return false;
    made_.push_key(part);
    return true;
  }
  bool on_string_part(Text part, size_t n_bytes, Code& code) {
    if (!on_arguments_bytes(part, n_bytes, code)) return false;
    if (!CountedValues::on_string_part(part, n_bytes, code)) return false;
    made_.push_chars(part);
    return true;
  }
  bool on_string(Text part, size_t n_bytes, Code& code) {
    const bool is_within_budget = on_arguments_bytes(part, n_bytes, code);
    inner_.reset();
    key_.clear();
    if (!is_within_budget || !CountedValues::on_string(part, n_bytes, code)) return false;
    made_.push_string(part);
    return true;
  }
  bool on_int64(int64_t number, Text text, Code& code) {
    if (!CountedValues::on_int64(number, text, code)) return false;
    made_.push_int64(number);
    return true;
  }
  bool on_uint64(uint64_t number, Text text, Code& code) {
    if (!CountedValues::on_uint64(number, text, code)) return false;
    made_.push_uint64(number);
    return true;
  }
  bool on_double(double number, Text text, Code& code) {
    if (!CountedValues::on_double(number, text, code)) return false;
    made_.push_double(number);
    return true;
  }
  bool on_bool(bool is_true, Code& code) {
    if (!CountedValues::on_bool(is_true, code)) return false;
    made_.push_bool(is_true);
    return true;
  }
  bool on_null(Code& code) {
    if (!CountedValues::on_null(code)) return false;
    made_.push_null();
    return true;
  }

 private:
  static constexpr size_t kKeyBytes = 64;  // longest beginning of a key that is compared

  void on_key_bytes(Text part, size_t n_bytes) {
    if (n_bytes == part.size()) key_.clear();
    const size_t room = kKeyBytes - std::min(kKeyBytes, key_.size());
    key_.append(part.data(), std::min(part.size(), room));
  }

  bool on_arguments_bytes(Text part, size_t n_bytes, Code& code) {
    if (key_ != "arguments") return true;
    if (n_bytes == part.size()) inner_.emplace(json::parse_options(), counter_);
    Code broken;  // it then remains text
    if (inner_) inner_->write_some(true, part.data(), part.size(), broken);
    if (broken) inner_.reset();
    if (counter_.is_over()) code = json::error::exception;
    return !counter_.is_over();
  }

  json::value_stack made_;
  size_t depth_ = 0;
  std::string key_;                                         // key of the next value
  std::optional<json::basic_parser<CountedValues>> inner_;  // parser of arguments being read
};

}  // namespace

size_t JsonWeight::memory_bytes() const {
  return n_numbers * kNumberBytes + n_others * kOtherBytes + text_bytes * kCopiesOfText;
}

Result<json::value> parse_within(JsonBudget& budget, std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  Counter counter(budget);
  // A tree in few large blocks is created faster and freed as a whole.
  json::basic_parser<BodyValues> parser(options, counter,
                                        json::make_shared_resource<json::monotonic_resource>());
  json::error_code error;
  const size_t n_parsed = parser.write_some(false, text.data(), text.size(), error);
  if (!error && n_parsed < text.size()) error = json::error::extra_data;
  if (!counter.is_over()) counter.charge(0, error);
  if (error) return fail(ErrorCode::kInvalidArgument, error.message());
  return parser.handler().take();
}

RequestBody parse_body(JsonBudget& budget, std::string_view text) {
  RequestBody body{.text = text, .client = {}, .object = {}};
  auto value = parse_within(budget, text);
  if (!value) {
    body.object = fail(ErrorCode::kInvalidArgument,
                       fmt::format("the body is not valid JSON: {}", value.error().message));
  } else if (!value->is_object()) {
    body.object = fail(ErrorCode::kInvalidArgument,
                       fmt::format("the body must be a JSON object, not {}", kind_name(*value)));
  } else {
    body.object.emplace(std::move(value->get_object()));  // an assignment would copy it
  }
  return body;
}

Result<JsonFields> RequestBody::fields() const {
  if (!object) return std::unexpected(object.error());
  return JsonFields(*object);
}

}  // namespace kvik
