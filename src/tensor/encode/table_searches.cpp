#include "tensor/encode/fit.h"
#include "tensor/encode/levels.h"
#include "tensor/encode/search.h"
#include "tensor/encode/search_lanes.h"
#include "tensor/encode/super_blocks.h"
#include "tensor/level_tables.h"

// Searches for super-blocks whose sub-blocks have integer factors and a table of levels, which may
// be shifted up. For the plain and for the shifted table, scales around those that map the peak to
// either end of the table are tried, each refined by least squares; then factors and units are
// improved alternately, as for K types (super_blocks.h).
namespace kvik {
namespace encode {
namespace {

// Weighted sums over the levels q of an inverse scale and a shift: Σ w q² and Σ w q x.
struct TableSums {
  Lanes wqq = {}, wqx = {};

  KVIK_LANES_INLINE void add(Lanes level, Lanes w, Lanes x) {
    const Lanes weighted = w * level;
    wqq += weighted * level;
    wqx += weighted * x;
  }
};

// Levels of a table, each value the nearest one.
template <const auto& kTable>
struct SingleLevels {
  static constexpr int kLevels = sizeof(kTable);
  static constexpr float kLowest = kTable[0], kHighest = kTable[kLevels - 1];

  template <int kValues>
  KVIK_LANES_INLINE static TableSums sum(const SubBlocks<kValues>& s, Lanes inverse, Lanes shift) {
    TableSums sums;
#pragma GCC unroll 1
    for (int i = 0; i < kValues; ++i) {
      const Lanes value = s.x[i] * inverse - shift;
      Lanes level = splat(kTable[0]);
      for (int k = 1; k < kLevels; ++k) {
        const auto gap = static_cast<float>(kTable[k] - kTable[k - 1]);
        level += value > middle(k) ? splat(gap) : Lanes{};
      }
      sums.add(level + shift, s.w[i], s.x[i]);
    }
    return sums;
  }
  template <int kValues>
  KVIK_LANES_INLINE static void put(const SubBlocks<kValues>& s, Lanes inverse, Lanes shift,
                                    LevelsOf<kValues>& levels) {
    for (int i = 0; i < kValues; ++i) {
      const Lanes value = s.x[i] * inverse - shift;
      Lanes number = {};
      for (int k = 1; k < kLevels; ++k) number += value > middle(k) ? splat(1) : Lanes{};
      levels.set(i, number);
    }
  }

 private:
  static constexpr float middle(int k) {
    return 0.5f * static_cast<float>(kTable[k - 1] + kTable[k]);
  }
};

// Pairs of levels of iq2_kl, which cannot be shifted: each two values get the pair with the least
// weighted error. The pairs of one first level lie side by side, their second levels ascending: of
// these only that with the nearest second level is tried.
struct PairLevels {
  static constexpr float kLowest = -63, kHighest = 47;

  struct Pair {
    Lanes first, second, number;
  };
  KVIK_LANES_INLINE static Pair nearest_to(Lanes first, Lanes second, Lanes w0, Lanes w1) {
    Pair best = {}, pair = {};
    Lanes least = {};
    bool is_first = true;
#pragma GCC unroll 32  // so that all levels are constants
    for (int k = 0; k < kPairs; ++k) {
      if (begins_row(k)) {
        pair = {splat(kIq2KlPairs[k][0]), splat(kIq2KlPairs[k][1]), splat(static_cast<float>(k))};
      } else {
        const LaneMask is_next = second > middle(k);
        pair.second += is_next ? splat(gap(k)) : Lanes{};
        pair.number += is_next ? splat(1) : Lanes{};
      }
      if (k + 1 < kPairs && !begins_row(k + 1)) continue;
      const Lanes a = first - pair.first, b = second - pair.second;
      const Lanes error = w0 * a * a + w1 * b * b;
      const LaneMask is_better = is_first ? ~LaneMask{} : error < least;
      is_first = false;
      least = is_better ? error : least;
      best.first = is_better ? pair.first : best.first;
      best.second = is_better ? pair.second : best.second;
      best.number = is_better ? pair.number : best.number;
    }
    return best;
  }
  template <int kValues>
  KVIK_LANES_INLINE static TableSums sum(const SubBlocks<kValues>& s, Lanes inverse, Lanes) {
    TableSums sums;
#pragma GCC unroll 1
    for (int i = 0; i < kValues; i += 2) {
      const Pair pair = nearest_to(s.x[i] * inverse, s.x[i + 1] * inverse, s.w[i], s.w[i + 1]);
      sums.add(pair.first, s.w[i], s.x[i]);
      sums.add(pair.second, s.w[i + 1], s.x[i + 1]);
    }
    return sums;
  }
  template <int kValues>
  KVIK_LANES_INLINE static void put(const SubBlocks<kValues>& s, Lanes inverse, Lanes,
                                    LevelsOf<kValues>& levels) {
#pragma GCC unroll 1
    for (int i = 0; i < kValues; i += 2) {
      const Lanes number =
          nearest_to(s.x[i] * inverse, s.x[i + 1] * inverse, s.w[i], s.w[i + 1]).number;
      levels.set(i, number);
      levels.set(i + 1, number);
    }
  }

 private:
  static constexpr int kPairs = 32;
  static constexpr bool begins_row(int k) {
    return k == 0 || kIq2KlPairs[k][0] != kIq2KlPairs[k - 1][0];
  }
  static constexpr float gap(int k) {
    return static_cast<float>(kIq2KlPairs[k][1] - kIq2KlPairs[k - 1][1]);
  }
  static constexpr float middle(int k) {
    return 0.5f * static_cast<float>(kIq2KlPairs[k - 1][1] + kIq2KlPairs[k][1]);
  }
};

// Returns Σ w (scale · q − x)² without the constant term.
template <class Levels, int kValues>
KVIK_LANES_INLINE Lanes error_of_table(const SubBlocks<kValues>& s, Lanes scale, Lanes shift) {
  const TableSums q = Levels::sum(s, divide(splat(1), scale), shift);
  return scale * (scale * q.wqq - 2.0f * q.wqx);
}

// The best scales with the plain or the shifted table, and their gain in error over zeros.
struct TableFit {
  Lanes scale = {}, gain = {};
};
template <class Levels, int kValues>
KVIK_LANES_INLINE TableFit fit_table(const SubBlocks<kValues>& s, Lanes peak, float shift,
                                     const Encoding& how) {
  TableFit best;
  for (const float outermost : {Levels::kLowest + shift, Levels::kHighest + shift}) {
    for (int i = -how.n_steps; i <= how.n_steps; ++i) {
      const float bound = outermost * (1.0f + how.step * static_cast<float>(i));
      const TableSums q = Levels::sum(s, divide(splat(bound), peak), splat(shift));
      const Lanes scale = divide(q.wqx, q.wqq);
      const Lanes gain = scale * q.wqx;
      const LaneMask is_better = gain > best.gain;
      best.scale = is_better ? scale : best.scale;
      best.gain = is_better ? gain : best.gain;
    }
  }
  return best;
}

// The scales that fit best with the plain and with the shifted table.
struct FittedScales {
  Lanes plain, shifted;
  LaneMask is_shifted_better;
};
// Fits them, or returns those that an earlier search of the row has fitted.
template <class Levels, int kShift, int kValues>
KVIK_LANES_INLINE FittedScales fitted_scales(const SubBlocks<kValues>& s, const SearchTask& task) {
  static_assert(2 * kLanes == kFittedScales);
  FittedScales fitted;
  if (task.fitted && task.row->is_known) {
    std::memcpy(&fitted.plain, task.fitted, sizeof(fitted.plain));
    std::memcpy(&fitted.shifted, task.fitted + kLanes, sizeof(fitted.shifted));
    fitted.is_shifted_better = LaneMask{};  // only the first search needs it
    return fitted;
  }
  const Encoding& how = task.format.encoding;
  const Lanes peak = peak_of(s);
  const TableFit plain = fit_table<Levels>(s, peak, 0, how);
  const TableFit shifted = kShift == 0 ? plain : fit_table<Levels>(s, peak, kShift, how);
  if (task.fitted) {
    std::memcpy(task.fitted, &plain.scale, sizeof(plain.scale));
    std::memcpy(task.fitted + kLanes, &shifted.scale, sizeof(shifted.scale));
  }
  return {plain.scale, shifted.scale, shifted.gain > plain.gain};
}

struct FactorRange {
  float low, high;
  bool is_odd;

  KVIK_LANES_INLINE Lanes nearest_to(Lanes number) const {
    if (!is_odd) return nearest(number, low, high);
    const Lanes half = nearest((number - 1.0f) * 0.5f, (low - 1) * 0.5f, (high - 1) * 0.5f);
    return half * 2.0f + 1.0f;
  }
};

// Factors and shifts of sixteen sub-blocks, and the errors with them.
struct TableFactors {
  Lanes factor, shift, error;
};

template <class Levels, int kValues>
KVIK_LANES_INLINE void try_factor(const SubBlocks<kValues>& s, Lanes unit, Lanes factor,
                                  Lanes shift, TableFactors& best) {
  const Lanes error = error_of_table<Levels>(s, unit * factor, shift);
  const LaneMask is_better = error < best.error;
  best.factor = is_better ? factor : best.factor;
  best.shift = is_better ? shift : best.shift;
  best.error = is_better ? error : best.error;
}

// Refines the unit by least squares for given factors.
template <class Levels, int kValues>
KVIK_LANES_INLINE void refine_unit(const SubBlocks<kValues>& s, int n, Lanes& unit,
                                   TableFactors& best) {
  const TableSums q = Levels::sum(s, divide(splat(1), unit * best.factor), best.shift);
  const Lanes refined = rounded_to_f16(
      divide(sum_over(q.wqx * best.factor, n), sum_over(q.wqq * best.factor * best.factor, n)));
  const Lanes error = error_of_table<Levels>(s, refined * best.factor, best.shift);
  const LaneMask is_better = is_less_over(error, best.error, n);
  unit = is_better ? refined : unit;
  best.error = is_better ? error : best.error;
}

// Notes the scale of largest magnitude for the row.
KVIK_LANES_INLINE void note_largest(Lanes scales, RowUnit& row) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if (__builtin_fabsf(scales[lane]) > __builtin_fabsf(row.largest)) row.largest = scales[lane];
  }
}

// Adds the sums of the row's own sub-blocks; lanes beyond them are empty.
template <class Levels, int kValues>
KVIK_LANES_INLINE void add_to_row(const SubBlocks<kValues>& s, Lanes unit, size_t n_values,
                                  const TableFactors& best, RowUnit& row) {
  const TableSums q = Levels::sum(s, divide(splat(1), unit * best.factor), best.shift);
  const Lanes wqx = q.wqx * best.factor, wqq = q.wqq * best.factor * best.factor;
  for (size_t lane = 0; lane < n_values / kValues; ++lane) {
    row.wqx += wqx[lane];
    row.wqq += wqq[lane];
    row.error += best.error[lane];
  }
}

// kShift: 0 if the table cannot be shifted.
template <int kValues, class Levels, int kShift>
KVIK_LANES_INLINE void search_table_factors(const SearchTask& task) {
  constexpr int kSubBlocks = kBlock256 / kValues;
  const SubBlocks<kValues> s = sub_blocks<kValues>(task);
  const Encoding& how = task.format.encoding;
  const FactorRange range{how.factors.low, how.factors.high, task.format.has_odd_factors};
  const FittedScales fitted = fitted_scales<Levels, kShift>(s, task);
  const Lanes fit = fitted.is_shifted_better ? fitted.shifted : fitted.plain;
  if (task.row && !task.row->is_known) return note_largest(fit, *task.row);
  Lanes unit = task.row ? splat(task.row->unit) : to_unit(peak_over(fit, kSubBlocks) / range.low);
  TableFactors best{range.nearest_to(divide(fitted.plain, unit)), Lanes{}, Lanes{}};
  best.error = error_of_table<Levels>(s, unit * best.factor, best.shift);
  const float beside = range.is_odd ? 2.0f : 1.0f;
  for (int round = 0; round < how.n_rounds; ++round) {
    for (int is_shifted = 0; is_shifted < (kShift == 0 ? 1 : 2); ++is_shifted) {
      const float shift = is_shifted == 0 ? 0.0f : kShift;
      // The scale that fitted with this shift is known for the first unit, later nearly.
      const Lanes middle =
          round == 0 ? divide(shift == 0 ? fitted.plain : fitted.shifted, unit) : best.factor;
      for (const float step : {-beside, 0.0f, beside}) {
        try_factor<Levels>(s, unit, range.nearest_to(middle + step), splat(shift), best);
      }
    }
    if (!task.row) refine_unit<Levels>(s, kSubBlocks, unit, best);
  }
  if (task.row) add_to_row<Levels>(s, unit, task.values.size(), best, *task.row);
  LevelsOf<kValues> levels;
  const Lanes inverse = divide(splat(1), unit * best.factor);
  Levels::put(s, inverse, best.shift, levels);
  put_levels(levels, 0, kSubBlocks, task.out);
  for (int b = 0; b < kLanes / kSubBlocks; ++b) {
    const int first = b * kSubBlocks;
    task.out[b].scale = f32_to_f16(unit[first]);
    put_factors(best.factor, task.format.min_factor, first, kSubBlocks, task.out[b].factors);
    put_factors(best.shift > 0.0f ? splat(1) : Lanes{}, 0, first, kSubBlocks,
                task.out[b].factors + 16);
  }
}

// One value of four gets another level, by which the number of their bits becomes even.
struct LevelChange {
  uint8_t* level = nullptr;
  uint8_t other = 0;
  float error = 0;  // added
};

// Values of a sub-block with their weights; null: all have equal weight.
struct ValuesOfSubBlock {
  const float *x, *w;
  uint8_t* levels;
  float scale, shift;

  float error(size_t i, int level) const {
    const float difference = scale * (static_cast<float>(kIq4Levels[level]) + shift) - x[i];
    return (w ? w[i] : 1.0f) * difference * difference;
  }
  void try_change(size_t i, int other, LevelChange& best) const {
    const int level = levels[i];
    if (other < 0 || other > 15) return;
    if (__builtin_popcount(static_cast<unsigned>(level ^ other)) % 2 == 0) return;
    const float added = error(i, other) - error(i, level);
    if (!best.level || added < best.error) {
      best = {&levels[i], static_cast<uint8_t>(other), added};
    }
  }
};

// Makes the number of bits of the four levels of each word of BlockIQ4KSS even.
void make_even(const SearchTask& task) {
  for (size_t s = 0; s < task.values.size() / 32; ++s) {
    BlockNumbers& numbers = task.out[s / 8];
    const float scale =
        task.row->unit * static_cast<float>(numbers.factor(s % 8, task.format.min_factor));
    const ValuesOfSubBlock sub{task.values.data() + 32 * s,
                               task.importance.empty() ? nullptr : task.importance.data() + 32 * s,
                               numbers.levels + 32 * (s % 8), scale,
                               static_cast<float>(kIq4KShift * numbers.factors[16 + s % 8])};
    for (size_t k = 0; k < 16; k += 2) {
      const size_t four[] = {k, k + 16, k + 1, k + 17};
      int bits = 0;
      LevelChange change;
      for (const size_t i : four) {
        bits ^= sub.levels[i];
        for (const int step : {-1, 1}) sub.try_change(i, sub.levels[i] + step, change);
      }
      if (__builtin_popcount(static_cast<unsigned>(bits)) % 2 == 1) *change.level = change.other;
    }
  }
}

KVIK_LANES_INLINE void search_even_table(const SearchTask& task) {
  search_table_factors<32, SingleLevels<kIq4Levels>, kIq4KShift>(task);
  if (task.row->is_known) make_even(task);
}

}  // namespace
}  // namespace encode

constexpr Search kTable2Of16Search = encode::search_of<
    encode::search_table_factors<16, encode::SingleLevels<kIq2KLevels>, kIq2KShift>>(1);
constexpr Search kTable3Of16Search = encode::search_of<
    encode::search_table_factors<16, encode::SingleLevels<kIq3KLevels>, kIq3KShift>>(1);
constexpr Search kTable4Of16Search = encode::search_of<
    encode::search_table_factors<16, encode::SingleLevels<kIq4Levels>, kIq4KShift>>(1);
constexpr Search kTable5Of16Search = encode::search_of<
    encode::search_table_factors<16, encode::SingleLevels<kIq5KLevels>, kIq5KShift>>(1);
constexpr Search kTable6Of16Search = encode::search_of<
    encode::search_table_factors<16, encode::SingleLevels<kIq6KLevels>, kIq6KShift>>(1);
constexpr Search kTable2Of32Search = encode::search_of<
    encode::search_table_factors<32, encode::SingleLevels<kIq2KLevels>, kIq2KShift>>(2);
constexpr Search kTable3Of32Search = encode::search_of<
    encode::search_table_factors<32, encode::SingleLevels<kIq3KLevels>, kIq3KShift>>(2);
constexpr Search kTable4Of32Search = encode::search_of<
    encode::search_table_factors<32, encode::SingleLevels<kIq4Levels>, kIq4KShift>>(2);
constexpr Search kPairsOf32Search =
    encode::search_of<encode::search_table_factors<32, encode::PairLevels, 0>>(2);
constexpr Search kEvenTable4Of32Search = encode::search_of<encode::search_even_table>(2);
constexpr Search kTable5Of32Search = encode::search_of<
    encode::search_table_factors<32, encode::SingleLevels<kIq5KLevels>, kIq5KShift>>(2);

}  // namespace kvik
