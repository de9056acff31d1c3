#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "server/http/byte_ledger.h"

namespace kvik {

inline constexpr size_t kMaxJsonDepth = 64;

// Number of values of a JSON text.
struct JsonWeight {
  uint64_t n_numbers = 0;
  uint64_t n_others = 0;  // strings, booleans, nulls, arrays, objects
  uint64_t text_bytes = 0;

  // Returns the maximum memory of a request with them, from the tree of values to the prompt.
  size_t memory_bytes() const;
};

// Bounds one JSON text, and counts its values while it is parsed.
struct JsonBudget {
  uint64_t n_ctx;    // the bounds on values and text depend on the context
  ByteShare& share;  // grows by memory_bytes() while the text is parsed
  JsonWeight weight = {};
  // Reason why parsing ended early: kInvalidArgument for more values than allowed, kContextLength
  // for more text than the context; `param` is the field of the body.
  std::optional<Error> fault = {};
  bool has_room = true;  // false: the share could not grow
};

// Parses JSON in one pass that counts each value before creating it, so that a hostile text takes
// no more than its budget. JSON in a string named "arguments" counts both as text and as JSON.
// Errors: kInvalidArgument, with Boost's message, for text that is not JSON or not UTF-8, is nested
// deeper than kMaxJsonDepth, or exceeds the budget.
Result<boost::json::value> parse_within(JsonBudget& budget, std::string_view text);

// The body of a request: its text and the parsed object.
struct RequestBody {
  std::string_view text;
  // owner_id() of its key; empty: unknown, so that nothing is remembered of the request
  std::string client = {};
  // kInvalidArgument if the text is not JSON, is nested deeper than kMaxJsonDepth, or is not an
  // object.
  Result<boost::json::object> object;

  // Borrows the object. Errors: those of `object`.
  Result<JsonFields> fields() const;
};
RequestBody parse_body(JsonBudget& budget, std::string_view text);

}  // namespace kvik
