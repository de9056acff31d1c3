// exp and tanh on sixteen lanes, with the same bits on all instruction sets. Included inside the
// namespace of an instruction set, after its vector functions.

// Parts of e^x = power + power · rest, |rest| < 0.42. x is split into n · ln 2 + r with an integer
// n. power = 2^n, and rest = e^r − 1 is approximated by a polynomial of degree 6, with an error of
// 1.1e-8 of e^r over |r| ≤ ln 2 / 2.
struct ExpParts {
  F32x16 power, rest;
};

// Splits e^x for −87.3365 ≤ x ≤ 88.375. The parts of smaller x are meaningless; a NaN gives NaN as
// rest.
inline ExpParts exp_parts(F32x16 x) {
  constexpr float kPerLn2 = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e43p-1f;
  constexpr float kLn2Low = -0x1.05c61p-29f;
  // The last bit of a float around 1.5 · 2^23 is worth 1, so the addition rounds to an integer and
  // leaves n + 127 in the low bits. This takes three operations; converting to integers and back
  // takes five.
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

// Returns e^x for x ≤ 88.375.
inline F32x16 exp_up_to_88(F32x16 x) {
  const ExpParts parts = exp_parts(x);
  const F32x16 value = fma(parts.power, parts.rest, parts.power);
  return select_ge(set1(-0x1.5d58ap+6f), x, zero(), value);
}

// Returns e^x with an error of up to 1.1 ulp; exp(0) is 1. Below −87.33654785, where e^x becomes
// subnormal, the result is exactly 0. Above 88.375 it is the value at 88.375, 2.4e38, so it is
// never infinite. A NaN stays a NaN.
inline F32x16 exp(F32x16 x) {
  return exp_up_to_88(min(set1(88.375f), x));  // min returns a NaN in its second operand
}

// Returns e^x − 1 for x ≤ 88.375, without cancellation near 0. A NaN stays a NaN.
inline F32x16 exp_minus_1(F32x16 x) {
  const ExpParts parts = exp_parts(max(set1(-80.0f), x));
  return fma(parts.power, parts.rest, sub(parts.power, set1(1.0f)));
}

// Returns tanh(x) = (e^2x − 1) / (e^2x + 1) with an error of up to 3 ulp. e^2x − 1 is computed
// without cancellation, so that small x keep their relative accuracy. A NaN stays a NaN.
inline F32x16 tanh(F32x16 x) {
  const F32x16 limited = min(set1(20.0f), max(set1(-20.0f), x));
  const ExpParts parts = exp_parts(add(limited, limited));
  const F32x16 minus_1 = fma(parts.power, parts.rest, sub(parts.power, set1(1.0f)));
  return div(minus_1, add(minus_1, set1(2.0f)));
}

// Returns cap · tanh(x / cap).
inline F32x16 soft_capped(F32x16 x, F32x16 cap) { return mul(cap, tanh(div(x, cap))); }
