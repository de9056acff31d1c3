// exp and tanh on sixteen lanes, with the same bits on all instruction sets. Included inside the
// namespace of an instruction set, after its vector functions.

// e^x = power + power · rest, |rest| < 0.42: x = n · ln 2 + r with an integer n, power = 2^n and
// rest = e^r − 1 by a polynomial of degree 6 (error 1.1e-8 of e^r over |r| ≤ ln 2 / 2).
struct ExpParts {
  F32x16 power, rest;
};

// −87.3365 ≤ x ≤ 88.375. Smaller x give meaningless parts; a NaN gives NaN as rest.
inline ExpParts exp_parts(F32x16 x) {
  constexpr float kPerLn2 = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e43p-1f;
  constexpr float kLn2Low = -0x1.05c61p-29f;
  // At 1.5 · 2^23 the last bit of a float is 1: the addition rounds to an integer and leaves n +
  // 127 in the low bits. Three operations, where conversions to integers and back take five.
  constexpr float kRounder = 0x1.8p+23f + 127.0f;
  const F32x16 rounded = fma(x, set1(kPerLn2), set1(kRounder));
  const F32x16 n = sub(rounded, set1(kRounder));
  F32x16 r = fma(n, set1(-kLn2High), x);  // exact
  r = fma(n, set1(-kLn2Low), r);
  F32x16 q = fma(set1(0x1.6d110ap-10f), r, set1(0x1.120b6ep-7f));
  q = fma(q, r, set1(0x1.55551ap-5f));
  q = fma(q, r, set1(0x1.5554dcp-3f));
  q = fma(q, r, set1(0.5f));
  return {exponent_from_low_bits(rounded), fma(mul(r, r), q, r)};
}

// exp(x) for x ≤ 88.375.
inline F32x16 exp_up_to_88(F32x16 x) {
  const ExpParts parts = exp_parts(x);
  const F32x16 value = fma(parts.power, parts.rest, parts.power);
  return select_ge(set1(-0x1.5d58ap+6f), x, zero(), value);
}

// e^x to 1.1 ulp; exp(0) is 1. Below −87.33654785 (where it becomes subnormal) exactly 0; above
// 88.375 the value there, 2.4e38, so it is never infinite. NaN stays NaN.
inline F32x16 exp(F32x16 x) {
  return exp_up_to_88(min(set1(88.375f), x));  // min and max return a NaN in their second operand
}

// tanh(x) = (e^2x − 1) / (e^2x + 1) to 3 ulp. e^2x − 1 is computed without cancellation, so that
// small x keep their relative accuracy. NaN stays NaN.
inline F32x16 tanh(F32x16 x) {
  const F32x16 limited = min(set1(20.0f), max(set1(-20.0f), x));
  const ExpParts parts = exp_parts(add(limited, limited));
  const F32x16 minus_1 = fma(parts.power, parts.rest, sub(parts.power, set1(1.0f)));
  return div(minus_1, add(minus_1, set1(2.0f)));
}

// cap · tanh(x / cap)
inline F32x16 soft_capped(F32x16 x, F32x16 cap) { return mul(cap, tanh(div(x, cap))); }
