#include "catalogue/key_reader.h"

#include <fmt/format.h>

#include <limits>

namespace kvik {

std::string KeyReader::full(std::string_view key) const {
  return fmt::format("{}.{}", prefix_, key);
}

Result<std::optional<uint64_t>> KeyReader::number(std::string_view key) const {
  if (!layer_ || !is_list(key)) return metadata_.get_uint(full(key));
  const Metadata::Value& value = *metadata_.find(full(key));
  if (const auto* numbers = std::get_if<std::vector<uint64_t>>(&value)) {
    TRY(check_length(key, numbers->size(), layer_->n));
    return (*numbers)[layer_->index];
  }
  const auto* numbers = std::get_if<std::vector<int64_t>>(&value);
  if (!numbers) return metadata_.get_uint(full(key));  // the error of its type
  TRY(check_length(key, numbers->size(), layer_->n));
  const int64_t own = (*numbers)[layer_->index];
  if (own >= 0) return static_cast<uint64_t>(own);
  return fail(ErrorCode::kCorrupt, fmt::format("metadata key '{}' is {}{}, expected a number ≥ 0",
                                               full(key), own, place_of(key)));
}

// Returns " in layer 3" if the value is that layer's entry in a list.
std::string KeyReader::place_of(std::string_view key) const {
  return layer_ && is_list(key) ? fmt::format(" in layer {}", layer_->index) : std::string();
}

Result<uint32_t> KeyReader::count(std::string_view key, uint64_t max, uint64_t fallback) const {
  TRY_ASSIGN(const auto value, number(key));
  const uint64_t n = value.value_or(fallback);
  if (!value && fallback == 0) {
    return fail(ErrorCode::kCorrupt, fmt::format("metadata key '{}' is missing", full(key)));
  }
  if (n < 1 || n > max) {
    return fail(ErrorCode::kCorrupt, fmt::format("metadata key '{}' is {}{}, expected 1 to {}",
                                                 full(key), n, place_of(key), max));
  }
  return static_cast<uint32_t>(n);
}

Result<uint32_t> KeyReader::optional_count(std::string_view key, uint64_t max) const {
  TRY_ASSIGN(const auto value, number(key));
  const uint64_t n = value.value_or(0);
  if (n <= max) return static_cast<uint32_t>(n);
  return fail(ErrorCode::kCorrupt, fmt::format("metadata key '{}' is {}{}, expected 0 to {}",
                                               full(key), n, place_of(key), max));
}

bool KeyReader::is_text(std::string_view key) const {
  const Metadata::Value* value = metadata_.find(full(key));
  return value && std::holds_alternative<std::string>(*value);
}

bool KeyReader::is_list(std::string_view key) const {
  const Metadata::Value* value = metadata_.find(full(key));
  return value && (std::holds_alternative<std::vector<int64_t>>(*value) ||
                   std::holds_alternative<std::vector<uint64_t>>(*value) ||
                   std::holds_alternative<std::vector<bool>>(*value));
}

size_t KeyReader::length(std::string_view key) const {
  const Metadata::Value* value = metadata_.find(full(key));
  const auto* numbers = value ? std::get_if<std::vector<uint64_t>>(value) : nullptr;
  const auto* with_signs = value ? std::get_if<std::vector<int64_t>>(value) : nullptr;
  return numbers ? numbers->size() : with_signs ? with_signs->size() : 0;
}

Result<std::vector<uint32_t>> KeyReader::counts(std::string_view key, size_t n, uint64_t max,
                                                uint64_t fallback) const {
  if (!is_list(key)) {
    TRY_ASSIGN(const uint32_t all, count(key, max, fallback));
    return std::vector<uint32_t>(n, all);
  }
  TRY_ASSIGN(const std::vector<int64_t> numbers, list(key, n));
  return counts_of(key, numbers, {1, max});
}

Result<std::vector<uint32_t>> KeyReader::counts_of(std::string_view key,
                                                   std::span<const int64_t> numbers,
                                                   Bounds bounds) const {
  std::vector<uint32_t> counts;
  for (const int64_t number : numbers) {
    if (number < static_cast<int64_t>(bounds.least) ||
        static_cast<uint64_t>(number) > bounds.most) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("metadata key '{}' is {} in layer {}, expected {} to {}", full(key),
                              number, counts.size(), bounds.least, bounds.most));
    }
    counts.push_back(static_cast<uint32_t>(number));
  }
  return counts;
}

Result<std::vector<uint64_t>> KeyReader::integers_at_least(std::string_view key, size_t n) const {
  TRY_ASSIGN(const auto found, metadata_.get_ints(full(key)));
  const size_t n_found = found ? found->size() : 0;
  TRY_ASSIGN(std::vector<uint64_t> all, integers(key, std::max(n_found, n)));
  all.resize(n);
  return all;
}

Result<std::vector<uint64_t>> KeyReader::integers(std::string_view key, size_t n) const {
  TRY_ASSIGN(const std::vector<int64_t> numbers, list(key, n));
  if (numbers.size() != n) {
    return fail(ErrorCode::kCorrupt, fmt::format("metadata key '{}' is missing", full(key)));
  }
  for (const int64_t number : numbers) {
    if (number >= 0) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("metadata key '{}' holds {}, expected numbers ≥ 0", full(key), number));
  }
  return std::vector<uint64_t>(numbers.begin(), numbers.end());
}

Result<std::vector<uint32_t>> KeyReader::counts_or_none(std::string_view key, size_t n,
                                                        uint64_t max) const {
  const Metadata::Value* value = metadata_.find(full(key));
  if (!value || std::holds_alternative<uint64_t>(*value)) return counts(key, n, max);
  TRY_ASSIGN(const std::vector<int64_t> numbers, list(key, n));
  return counts_of(key, numbers, {0, max});
}

Result<std::vector<bool>> KeyReader::flags(std::string_view key, size_t n) const {
  const Metadata::Value* value = metadata_.find(full(key));
  if (!value) return std::vector<bool>();
  if (const auto* flags = std::get_if<std::vector<bool>>(value)) {
    TRY(check_length(key, flags->size(), n));
    return *flags;
  }
  TRY_ASSIGN(const std::vector<int64_t> numbers, list(key, n));
  std::vector<bool> flags;
  for (const int64_t number : numbers) flags.push_back(number != 0);
  return flags;
}

Result<std::vector<int64_t>> KeyReader::list(std::string_view key, size_t n) const {
  auto found = metadata_.get_ints(full(key));
  if (!found) return std::unexpected(std::move(found).error());
  if (!found->has_value()) return std::vector<int64_t>();
  TRY(check_length(key, (*found)->size(), n));
  return **std::move(found);
}

Result<void> KeyReader::check_length(std::string_view key, size_t n, size_t expected) const {
  if (n == expected) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("metadata key '{}' has {} {}, expected {}", full(key), n,
                          n == 1 ? "entry" : "entries", expected));
}

Result<float> KeyReader::real(std::string_view key, double fallback) const {
  TRY_ASSIGN(const auto value, metadata_.get_float(full(key)));
  const double x = value.value_or(fallback);
  // A NaN fails both comparisons. A number that a float cannot hold would become an infinity later.
  if (!(x >= 0 && x <= std::numeric_limits<float>::max())) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("metadata key '{}' is {}, expected a number ≥ 0", full(key), x));
  }
  return static_cast<float>(x);
}

Result<float> KeyReader::positive(std::string_view key, double fallback) const {
  TRY_ASSIGN(const float x, real(key, fallback));
  // A divisor must not be so small that the quotient becomes an infinity.
  if (x >= std::numeric_limits<float>::min()) return x;
  return fail(ErrorCode::kCorrupt,
              fmt::format("metadata key '{}' is {}, expected a number > 0", full(key), x));
}

Result<std::vector<float>> KeyReader::reals(std::string_view key, size_t n) const {
  TRY_ASSIGN(auto reals, extended_reals(key, n));
  for (const float number : reals) {
    if (std::isfinite(number)) continue;
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("metadata key '{}' holds {}, expected a finite number", full(key), number));
  }
  return reals;
}

Result<std::vector<float>> KeyReader::extended_reals(std::string_view key, size_t n) const {
  const Metadata::Value* value = metadata_.find(full(key));
  std::vector<double> numbers;
  if (value && std::holds_alternative<std::vector<double>>(*value)) {
    numbers = std::get<std::vector<double>>(*value);
    TRY(check_length(key, numbers.size(), n));
  } else {
    TRY_ASSIGN(const auto number, metadata_.get_float(full(key)));
    if (!number) {
      return fail(ErrorCode::kCorrupt, fmt::format("metadata key '{}' is missing", full(key)));
    }
    numbers.assign(n, *number);
  }
  std::vector<float> reals;
  for (const double number : numbers) {
    if (!(number <= std::numeric_limits<float>::max())) {
      return fail(ErrorCode::kCorrupt, fmt::format("metadata key '{}' holds {}, expected a finite "
                                                   "number",
                                                   full(key), number));
    }
    reals.push_back(static_cast<float>(number));
  }
  return reals;
}

Result<bool> KeyReader::flag(std::string_view key, bool fallback) const {
  TRY_ASSIGN(const auto value, metadata_.get_bool(full(key)));
  return value.value_or(fallback);
}

Result<std::string> KeyReader::word(std::string_view key, std::string fallback) const {
  TRY_ASSIGN(const auto value, metadata_.get_string(full(key)));
  return value.value_or(std::move(fallback));
}

}  // namespace kvik
