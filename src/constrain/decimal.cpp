#include "constrain/decimal.h"

#include <algorithm>
#include <charconv>

namespace kvik::constrain {
namespace {

constexpr size_t kMaxDigits = 1000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The phase of a comparison. A state also has the sign, the order of the digits so far, and the
// number of digits.
enum Phase : uint32_t { kBegin, kWholeDigits, kFractionDigits };

struct Parts {
  uint32_t phase = kBegin;
  bool negative = false;
  uint32_t order = DecimalComparison::kEqual;
  uint32_t n = 0;

  explicit Parts(uint32_t state)
      : phase(state & 3), negative((state >> 2 & 1) != 0), order(state >> 3 & 7), n(state >> 6) {
    if (state == DecimalComparison::kStart) order = DecimalComparison::kEqual;
  }
  uint32_t packed() const { return phase | uint32_t{negative} << 2 | order << 3 | n << 6; }
};

uint32_t order_of(char a, char b) {
  if (a == b) return DecimalComparison::kEqual;
  return a < b ? DecimalComparison::kLess : DecimalComparison::kGreater;
}

// Returns the order of the whole parts, which depends on their number of digits first.
uint32_t whole_order(const Decimal& bound, const Parts& parts) {
  if (parts.phase != kWholeDigits || parts.n == bound.whole.size()) return parts.order;
  return parts.n < bound.whole.size() ? DecimalComparison::kLess : DecimalComparison::kGreater;
}

DecimalComparison::Result flipped(uint32_t order) {
  if (order == DecimalComparison::kEqual) return DecimalComparison::kEqual;
  return order == DecimalComparison::kLess ? DecimalComparison::kGreater : DecimalComparison::kLess;
}

uint64_t power_of_ten(uint32_t n) {
  uint64_t power = 1;
  while (n-- > 0) power *= 10;
  return power;
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal made;
  size_t at = 0;
  if (at < text.size() && text[at] == '-') made.negative = true, ++at;
  std::string digits;
  size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  digits = text.substr(begin, at - begin);
  int64_t point = static_cast<int64_t>(digits.size());
  if (at < text.size() && text[at] == '.') {
    begin = ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
    digits += text.substr(begin, at - begin);
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && text[at] == '+') ++at;
    int64_t exponent = 0;
    const auto [end, error] =
        std::from_chars(text.data() + at, text.data() + text.size(), exponent);
    if (error != std::errc() || std::abs(exponent) > 1'000'000) return {};
    at = static_cast<size_t>(end - text.data());
    point += exponent;
  }
  if (at != text.size() || digits.empty()) return {};
  const size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return Decimal{};
  digits.erase(0, first);
  point -= static_cast<int64_t>(first);
  digits.erase(digits.find_last_not_of('0') + 1);
  const auto n = static_cast<int64_t>(digits.size());
  if (std::max(std::abs(point), n) > static_cast<int64_t>(kMaxDigits)) return {};
  if (point <= 0) {
    made.fraction = std::string(static_cast<size_t>(-point), '0') + digits;
  } else if (point >= n) {
    made.whole = digits + std::string(static_cast<size_t>(point - n), '0');
  } else {
    made.whole = digits.substr(0, static_cast<size_t>(point));
    made.fraction = digits.substr(static_cast<size_t>(point));
  }
  return made;
}

std::string Decimal::text() const {
  std::string text = negative ? "-" : "";
  text += whole;
  if (!fraction.empty()) text.append(".").append(fraction);
  return text;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int sign = a.negative ? -1 : 1;
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -sign : sign;
  if (const int order = a.whole.compare(b.whole); order != 0) return order < 0 ? -sign : sign;
  const int order = a.fraction.compare(b.fraction);
  return order == 0 ? 0 : (order < 0 ? -sign : sign);
}

std::optional<DecimalComparison::State> DecimalComparison::step(const Decimal& bound, State state,
                                                                char c) {
  Parts parts(state);
  if (c == '-') {
    if (state != kStart) return {};
    parts.negative = true;
    return parts.packed();
  }
  if (c == '.') {
    if (parts.phase != kWholeDigits) return {};
    parts.order = whole_order(bound, parts);
    parts.phase = kFractionDigits;
    parts.n = 0;
    return parts.packed();
  }
  if (!is_digit(c)) return {};
  if (parts.phase == kBegin) parts.phase = kWholeDigits;
  const std::string& digits = parts.phase == kWholeDigits ? bound.whole : bound.fraction;
  if (parts.order == kEqual) {
    if (parts.n < digits.size()) {
      parts.order = order_of(c, digits[parts.n]);
    } else if (parts.phase == kFractionDigits) {
      parts.order = order_of(c, '0');
    }
  }
  // All numbers of digits beyond the bound's are the same state, because the result no longer
  // depends on them.
  parts.n = std::min(parts.n + 1, static_cast<uint32_t>(digits.size()) + 1);
  return parts.packed();
}

DecimalComparison::Result DecimalComparison::at_end(const Decimal& bound, State state) {
  const Parts parts(state);
  uint32_t order = whole_order(bound, parts);
  const size_t n_read = parts.phase == kFractionDigits ? parts.n : 0;
  if (order == kEqual && n_read < bound.fraction.size()) order = kLess;
  if (parts.negative == bound.negative) {
    return parts.negative ? flipped(order) : static_cast<Result>(order);
  }
  if (!parts.negative) return kGreater;
  return bound.is_zero() && order == kEqual ? kEqual : kLess;
}

bool DecimalComparison::is_settled(const Decimal& bound, State state) {
  const Parts parts(state);
  if (parts.phase == kBegin) return false;
  if (!parts.negative && bound.negative) return true;
  if (parts.negative && !bound.negative && !bound.is_zero()) return true;
  if (parts.phase == kFractionDigits) return parts.order != kEqual;
  return parts.n > bound.whole.size() || (parts.n == bound.whole.size() && parts.order == kGreater);
}

std::optional<DecimalDivision> DecimalDivision::by(const Decimal& divisor) {
  if (divisor.negative || divisor.is_zero()) return {};
  const std::string digits = divisor.whole + divisor.fraction;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || number > UINT32_MAX || divisor.fraction.size() > 18) return {};
  return DecimalDivision{number, static_cast<uint32_t>(divisor.fraction.size())};
}

std::optional<DecimalDivision::State> DecimalDivision::step(State state, char c) const {
  auto [remainder, place] = state;
  if (c == '-') return place == kStart ? std::optional(State{0, kMinus}) : std::nullopt;
  if (c == '.') {
    if (place != kZero && place != kWhole) return {};
    return State{remainder, kPoint};
  }
  if (!is_digit(c) || place == kZero) return {};
  const auto appended =
      static_cast<uint32_t>((uint64_t{remainder} * 10 + static_cast<uint64_t>(c - '0')) % divisor);
  if (place == kStart || place == kMinus) return State{appended, c == '0' ? kZero : kWhole};
  if (place == kWhole) return State{appended, kWhole};
  const uint32_t n_read = place == kPoint ? 0 : place - kFraction;
  if (n_read < n_digits) return State{appended, kFraction + n_read + 1};
  if (c != '0') return {};
  return State{remainder, kFraction + n_read};
}

bool DecimalDivision::accepts(State state) const {
  const auto [remainder, place] = state;
  if (place == kStart || place == kMinus || place == kPoint) return false;
  const uint32_t n_read = place >= kFraction ? place - kFraction : 0;
  const uint64_t factor = power_of_ten(n_digits - n_read) % divisor;
  return remainder * factor % divisor == 0;
}

bool DecimalDivision::is_alive(State state) const {
  const auto [remainder, place] = state;
  if (place <= kWhole) return true;  // enough further digits lead from any remainder to zero
  const uint32_t n_left = n_digits - (place == kPoint ? 0 : place - kFraction);
  const uint64_t power = power_of_ten(n_left);
  if (power >= divisor) return true;
  const uint64_t rest = remainder * power % divisor;
  return rest == 0 || divisor - rest < power;
}

}  // namespace kvik::constrain
