#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvik::constrain {

// An exact decimal number: (-1)^negative × whole.fraction. There are no superfluous digits, and
// zero is not negative.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;  // empty for an integer

  // Parses a JSON number, which may have an exponent. Returns std::nullopt if the result would have
  // over 1,000 digits.
  static std::optional<Decimal> parse(std::string_view text);

  bool is_integer() const { return fraction.empty(); }
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  std::string text() const;

  friend bool operator==(const Decimal&, const Decimal&) = default;
};

// Returns a negative number, zero or a positive number, as a is less than, equal to or greater than
// b.
int compare(const Decimal& a, const Decimal& b);

// Compares a number v with a bound while the plain decimal text of v is read byte by byte.
struct DecimalComparison {
  enum Result : uint8_t { kLess = 1, kEqual = 2, kGreater = 4 };
  // The comparison of the digits of |v| read so far with the digits of the bound, packed into a
  // word.
  using State = uint32_t;
  static constexpr State kStart = 0;

  // Returns std::nullopt if `c` cannot follow in a number.
  static std::optional<State> step(const Decimal& bound, State state, char c);
  // Returns the result for a number that ends here.
  static Result at_end(const Decimal& bound, State state);
  // Returns whether no further digit can change the result.
  static bool is_settled(const Decimal& bound, State state);
};

// Decides whether a number is a multiple of divisor / 10^n_digits while its plain decimal text is
// read.
struct DecimalDivision {
  uint64_t divisor;  // below 2^32
  uint32_t n_digits;

  // Returns std::nullopt unless the divisor is positive, has at most 18 digits after the point, and
  // is below 2^32 without the point.
  static std::optional<DecimalDivision> by(const Decimal& divisor);

  struct State {
    uint32_t remainder = 0;
    // kStart … kWhole, or kFraction + the number of digits of the fraction read so far
    uint32_t place = 0;
    friend bool operator==(const State&, const State&) = default;
  };
  enum Place : uint32_t { kStart, kMinus, kZero, kWhole, kPoint, kFraction };

  std::optional<State> step(State state, char c) const;
  bool accepts(State state) const;
  // Returns whether a multiple can still be reached.
  bool is_alive(State state) const;

  friend bool operator==(const DecimalDivision&, const DecimalDivision&) = default;
};

}  // namespace kvik::constrain
