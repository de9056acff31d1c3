#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvik::constrain {

// A number as it is written, exactly: (-1)^negative × whole.fraction. No digit is superfluous, and
// zero is not negative.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;  // empty where it is an integer

  // From JSON's number syntax, exponents included; nothing where it would take over 1,000 digits.
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
  // Of |v|'s digits so far with the bound's, in a word.
  using State = uint32_t;
  static constexpr State kStart = 0;

  // Nothing where `c` cannot stand there in a number.
  static std::optional<State> step(const Decimal& bound, State state, char c);
  // How v compares with the bound where its text ends here.
  static Result at_end(const Decimal& bound, State state);
  // True where no digit behind can change the result.
  static bool is_settled(const Decimal& bound, State state);
};

// Reads the plain decimal text of a number and knows whether it is a multiple of
// divisor / 10^n_digits.
struct DecimalDivision {
  uint64_t divisor;  // below 2^32
  uint32_t n_digits;

  // Above zero, with at most 18 digits and a quotient below 2^32; nothing else.
  static std::optional<DecimalDivision> by(const Decimal& divisor);

  struct State {
    uint32_t remainder = 0;
    uint32_t place = 0;  // kStart … kWhole, then kFraction + digits of the fraction so far
    friend bool operator==(const State&, const State&) = default;
  };
  enum Place : uint32_t { kStart, kMinus, kZero, kWhole, kPoint, kFraction };

  std::optional<State> step(State state, char c) const;
  bool accepts(State state) const;
  // Some text behind makes it accept.
  bool is_alive(State state) const;

  friend bool operator==(const DecimalDivision&, const DecimalDivision&) = default;
};

}  // namespace kvik::constrain
