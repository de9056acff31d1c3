#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvik::constrain {

// An exact decimal number: (-1)^negative × whole.fraction. Without superfluous digits, and zero is
// not negative.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;  // empty for an integer

  // Parses a JSON number, including exponents; std::nullopt if it would take over 1,000 digits.
  static std::optional<Decimal> parse(std::string_view text);

  bool is_integer() const { return fraction.empty(); }
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  std::string text() const;

  friend bool operator==(const Decimal&, const Decimal&) = default;
};

// <0, 0, >0.
int compare(const Decimal& a, const Decimal& b);

// Reads the plain decimal text of a number v byte by byte and compares it with a bound.
struct DecimalComparison {
  enum Result : uint8_t { kLess = 1, kEqual = 2, kGreater = 4 };
  // Comparison of the digits of |v| so far with the bound's, packed into a word.
  using State = uint32_t;
  static constexpr State kStart = 0;

  // Returns std::nullopt if `c` cannot follow in a number.
  static std::optional<State> step(const Decimal& bound, State state, char c);
  // Returns the result if the text ends here.
  static Result at_end(const Decimal& bound, State state);
  // Returns whether no further digit can change the result.
  static bool is_settled(const Decimal& bound, State state);
};

// Reads the plain decimal text of a number and decides whether it is a multiple of divisor /
// 10^n_digits.
struct DecimalDivision {
  uint64_t divisor;  // below 2^32
  uint32_t n_digits;

  // The divisor must be positive, with at most 18 digits and a quotient below 2^32; otherwise
  // std::nullopt.
  static std::optional<DecimalDivision> by(const Decimal& divisor);

  struct State {
    uint32_t remainder = 0;
    uint32_t place = 0;  // kStart … kWhole, then kFraction + digits of the fraction so far
    friend bool operator==(const State&, const State&) = default;
  };
  enum Place : uint32_t { kStart, kMinus, kZero, kWhole, kPoint, kFraction };

  std::optional<State> step(State state, char c) const;
  bool accepts(State state) const;
  // Returns whether some continuation is accepted.
  bool is_alive(State state) const;

  friend bool operator==(const DecimalDivision&, const DecimalDivision&) = default;
};

}  // namespace kvik::constrain
