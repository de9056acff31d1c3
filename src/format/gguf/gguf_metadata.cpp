#include "format/gguf/gguf_metadata.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvik {
namespace {

using Value = Metadata::Value;

constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;  // length, one letter, type, the smallest value
constexpr uint64_t kMaxNameBytes = 65535;         // the specification's limit of a key
constexpr uint64_t kMinStringBytes = 8;           // its length

// The 64-bit type with the same kind and signedness, as Metadata stores it.
template <class Stored>
using Widened = std::conditional_t<std::is_floating_point_v<Stored>, double,
                                   std::conditional_t<std::is_signed_v<Stored>, int64_t, uint64_t>>;

// Constructs the value in place, because g++ 12 warns about a move of a temporary variant
// (maybe-uninitialized).
template <class Held, class From>
Result<Value> made(From&& from) {
  return Result<Value>(std::in_place, std::in_place_type<Held>, std::forward<From>(from));
}

std::unexpected<Error> impossible_count(std::string_view key, uint64_t count, size_t bytes_left) {
  return fail(ErrorCode::kCorrupt, fmt::format("key {} is an array of {} values, expected no more "
                                               "than fit the {} bytes that follow",
                                               quoted(key), count, bytes_left));
}

Result<bool> to_bool(std::string_view key, std::byte byte) {
  const auto number = std::to_integer<unsigned>(byte);
  if (number <= 1) return number == 1;
  return fail(ErrorCode::kCorrupt,
              fmt::format("key {} holds a bool of {}, expected 0 or 1", quoted(key), number));
}

template <class Stored>
Result<Value> read_number(GgufCursor& in, std::string_view key) {
  TRY_ASSIGN(const auto number, in.number<Stored>({"the value of key", key}));
  return made<Widened<Stored>>(number);
}

template <class Stored>
Result<Value> read_numbers(GgufCursor& in, std::string_view key, uint64_t count) {
  if (count > in.bytes_left() / sizeof(Stored)) {
    return impossible_count(key, count, in.bytes_left());
  }
  TRY_ASSIGN(const auto bytes, in.take(count * sizeof(Stored), {"the array of key", key}));
  std::vector<Widened<Stored>> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    Stored number;
    std::memcpy(&number, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    numbers[i] = static_cast<Widened<Stored>>(number);
  }
  return made<std::vector<Widened<Stored>>>(std::move(numbers));
}

Result<Value> read_bool(GgufCursor& in, std::string_view key) {
  TRY_ASSIGN(const auto bytes, in.take(1, {"the value of key", key}));
  TRY_ASSIGN(const bool value, to_bool(key, bytes[0]));
  return made<bool>(value);
}

Result<Value> read_bools(GgufCursor& in, std::string_view key, uint64_t count) {
  if (count > in.bytes_left()) return impossible_count(key, count, in.bytes_left());
  TRY_ASSIGN(const auto bytes, in.take(count, {"the array of key", key}));
  std::vector<bool> values;
  values.reserve(count);
  for (const std::byte byte : bytes) {
    TRY_ASSIGN(const bool value, to_bool(key, byte));
    values.push_back(value);
  }
  return made<std::vector<bool>>(std::move(values));
}

Result<Value> read_string(GgufCursor& in, std::string_view key) {
  TRY_ASSIGN(const auto text, in.string({"the value of key", key}));
  return made<std::string>(text);
}

Result<Value> read_strings(GgufCursor& in, std::string_view key, uint64_t count) {
  if (count > in.bytes_left() / kMinStringBytes) {
    return impossible_count(key, count, in.bytes_left());
  }
  std::vector<std::string> strings;
  strings.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    TRY_ASSIGN(const auto text, in.string({"the array of key", key}));
    strings.emplace_back(text);
  }
  return made<std::vector<std::string>>(std::move(strings));
}

Result<Value> refuse_nested_array(GgufCursor&, std::string_view key, uint64_t) {
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("key {} is an array of arrays, expected an array of plain values", quoted(key)));
}

struct ValueReader {
  Result<Value> (*one)(GgufCursor& in, std::string_view key);  // null: an array
  Result<Value> (*many)(GgufCursor& in, std::string_view key, uint64_t count);
  unsigned bits;  // of a number
};

// Indexed by GGUF's number of the value type.
constexpr std::array<ValueReader, 13> kReaders = {{
    {read_number<uint8_t>, read_numbers<uint8_t>, 8},
    {read_number<int8_t>, read_numbers<int8_t>, 8},
    {read_number<uint16_t>, read_numbers<uint16_t>, 16},
    {read_number<int16_t>, read_numbers<int16_t>, 16},
    {read_number<uint32_t>, read_numbers<uint32_t>, 32},
    {read_number<int32_t>, read_numbers<int32_t>, 32},
    {read_number<float>, read_numbers<float>, 32},
    {read_bool, read_bools, 0},
    {read_string, read_strings, 0},
    {nullptr, refuse_nested_array, 0},
    {read_number<uint64_t>, read_numbers<uint64_t>, 64},
    {read_number<int64_t>, read_numbers<int64_t>, 64},
    {read_number<double>, read_numbers<double>, 64},
}};

Result<ValueReader> read_value_type(GgufCursor& in, std::string_view key) {
  TRY_ASSIGN(const auto type, in.number<uint32_t>({"the value type of key", key}));
  if (type < kReaders.size()) return kReaders[type];
  return fail(ErrorCode::kCorrupt, fmt::format("key {} has value type {}, expected 0 to {}",
                                               quoted(key), type, kReaders.size() - 1));
}

Result<std::string_view> read_key(GgufCursor& in, const Metadata& earlier) {
  const size_t position = in.position();
  TRY_ASSIGN(const auto key, in.string({"the name of a key"}));
  if (key.empty()) {
    return fail(ErrorCode::kCorrupt, fmt::format("the key at byte {} has an empty name", position));
  }
  if (key.size() > kMaxNameBytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("key {} has a name of {} bytes, expected at most {}", quoted(key),
                            key.size(), kMaxNameBytes));
  }
  if (earlier.contains(key)) {
    return fail(ErrorCode::kCorrupt, fmt::format("key {} occurs twice", quoted(key)));
  }
  return key;
}

}  // namespace

Result<Metadata> read_gguf_metadata(GgufCursor& in, uint64_t n_keys) {
  if (n_keys > in.bytes_left() / kMinKeyBytes) {
    return fail(ErrorCode::kCorrupt, fmt::format("the header counts {} keys, expected no more than "
                                                 "fit the {} bytes that follow",
                                                 n_keys, in.bytes_left()));
  }
  Metadata metadata;
  for (uint64_t k = 0; k < n_keys; ++k) {
    TRY_ASSIGN(const auto key, read_key(in, metadata));
    TRY_ASSIGN(auto reader, read_value_type(in, key));
    std::optional<uint64_t> count;
    if (!reader.one) {
      TRY_ASSIGN(reader, read_value_type(in, key));
      TRY_ASSIGN(count, in.number<uint64_t>({"the array length of key", key}));
    }
    TRY_ASSIGN(auto value, count ? reader.many(in, key, *count) : reader.one(in, key));
    metadata.insert(std::string(key), std::move(value), reader.bits);
  }
  return metadata;
}

}  // namespace kvik
