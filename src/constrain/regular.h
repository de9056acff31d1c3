#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constrain/code_points.h"
#include "constrain/decimal.h"

namespace kvik::constrain {

// A set of texts (a regular language over Unicode characters), as the id of an expression in a
// RegularPool.
enum class Regular : uint32_t { kNothing = 0, kEmptyText = 1 };
inline uint32_t id_of(Regular r) { return static_cast<uint32_t>(r); }

// Stores expressions for regular languages, each once, together with their derivatives: the
// derivative of L by c is the set of texts that may follow c in L (Brzozowski 1964). This makes a
// deterministic automaton of any expression, including intersections and complements, one state at
// a time on demand.
//
// A pool may be based on another pool that is complete. It reads the other pool and never changes
// it. Once a limit of work or memory is exceeded, functions return kNothing and exhausted() is
// true, which callers must check. Use from one thread.
class RegularPool {
 public:
  static constexpr uint32_t kUnbounded = ~uint32_t{0};

  explicit RegularPool(uint32_t max_expressions, const RegularPool* base = nullptr);

  Regular characters(const CodePointSet& set);
  Regular any_character() { return characters(CodePointSet::all()); }
  Regular any_text() { return repeat(any_character(), 0, kUnbounded); }
  Regular literal(std::u32string_view text);
  Regular one_of(std::vector<std::u32string> texts);
  Regular sequence(Regular a, Regular b);
  Regular sequence(std::span<const Regular> parts);
  Regular choice(std::span<const Regular> parts);
  Regular choice(Regular a, Regular b);
  // Returns `part` repeated `min` to `max` times. `max` may be kUnbounded. Returns kNothing if
  // `max` is less than `min`.
  Regular repeat(Regular part, uint32_t min, uint32_t max);
  Regular optional(Regular part) { return choice(part, Regular::kEmptyText); }
  Regular intersection(std::span<const Regular> parts);
  Regular intersection(Regular a, Regular b);
  Regular complement(Regular part);
  Regular difference(Regular a, Regular b) { return intersection(a, complement(b)); }
  // Returns the empty text with a mark, which marks() finds at the end of a text.
  Regular mark(uint32_t number);
  // Returns the plain decimal texts whose comparison with `bound` is in `results`, a set of
  // DecimalComparison::Result. The result is only meaningful in an intersection with a syntax of
  // numbers.
  Regular compared(const Decimal& bound, uint32_t results);
  // Returns the plain decimal texts of the multiples.
  Regular divisible(const DecimalDivision& division);

  bool accepts_empty(Regular r) const { return get(r).nullable; }
  // Returns the texts that may follow `c`; kNothing if `c` is not allowed.
  Regular step(Regular r, char32_t c);
  Regular step(Regular r, std::u32string_view text);
  // Returns whether a character from `first` to `last` may come next.
  bool any_step(Regular r, char32_t first, char32_t last);
  // Returns whether `r` contains any text.
  bool is_alive(Regular r);
  // Returns max if `r` is, or begins with, a repeat part{min,max} of a set of characters that
  // includes all of `set`; otherwise zero.
  uint32_t free_run(Regular r, const CodePointSet& set) const;
  // The bounds of a repeated any_character(), possibly followed by a mark.
  struct AnyRun {
    uint32_t min, max;
    Regular rest;  // the mark, or the empty text
  };
  std::optional<AnyRun> any_run(Regular r) const;
  // Returns an expression with the same beginnings of up to `n_characters` characters, which is the
  // same for many such expressions.
  Regular within(Regular r, uint32_t n_characters);
  // Returns the number of texts; std::nullopt if it is above `limit`.
  std::optional<uint32_t> count_texts(Regular r, uint32_t limit);
  // Returns one of the texts; std::nullopt if there is none or the shortest is longer than
  // `max_length`.
  std::optional<std::u32string> example(Regular r, size_t max_length);
  // Returns the marks found if the text ends here.
  std::vector<uint32_t> marks(Regular r) const;

  // The characters below 0x80 that may come next, as bits, and whether any above may.
  struct Next {
    std::array<uint64_t, 2> ascii = {};
    bool beyond = false;
  };
  Next next(Regular r);

  // Calls take(first, last) with the ranges of characters that may come next, in ascending order.
  template <class Take>
  void each_next(Regular r, const Take& take) {
    each_step(r, [&](char32_t first, char32_t last, Regular to) {
      if (to != Regular::kNothing) take(first, last);
    });
  }

  // Calls take(first, last, target) with ranges that cover all characters, in ascending order. The
  // characters of a range have the same target, which is kNothing if they are not allowed.
  template <class Take>
  void each_step(Regular r, const Take& take) {
    Steps& steps = steps_of(r);
    const size_t n = steps.starts.size();
    for (size_t i = 0; i < n; ++i) {
      const Regular to = target(r, steps, i);
      take(steps.starts[i], i + 1 < n ? steps.starts[i + 1] - 1 : kMaxCodePoint, to);
    }
  }

  // Copies an expression of another pool to this one.
  Regular copy(const RegularPool& from, Regular r);

  bool exhausted() const { return exhausted_; }
  // Returns true if the limit of work was exceeded, so that more work might suffice.
  bool is_out_of_work() const { return is_out_of_work_; }
  // Limits the work from here on to `n_steps` steps of about ten nanoseconds. More work exhausts
  // the pool.
  void allow_work(uint64_t n_steps) { work_left_ = n_steps; }
  uint64_t work_left() const { return work_left_; }
  // Counts work that was done elsewhere for these expressions.
  void spend(uint64_t n_steps) {
    if (n_steps > work_left_) exhausted_ = is_out_of_work_ = true;
    work_left_ -= std::min(n_steps, work_left_);
  }
  // Limits the memory in bytes. More memory exhausts the pool.
  void allow_bytes(size_t n_bytes) { max_bytes_ = n_bytes; }
  uint32_t size() const { return base_size_ + static_cast<uint32_t>(expressions_.size()); }
  size_t bytes() const;
  // Returns the memory of sets and numbers, which depends only on the size of the grammar.
  size_t bytes_of_sets() const;

 private:
  enum class Kind : uint8_t {
    kNothing,
    kEmptyText,
    kCharacters,
    kSequence,
    kChoice,
    kIntersection,
    kComplement,
    kRepeat,
    kMark,
    kCompared,
    kDivisible,
  };
  // The meaning of a, b and c depends on the kind: ids of parts, offset and length of a list in
  // lists_, bounds of a repeat, or the index and the state of a number.
  struct Expression {
    Kind kind;
    bool nullable;
    bool may_be_dead;  // contains an intersection or a complement, so that it may match no text
    bool finite;       // whether the length of its texts is bounded
    uint32_t depth;
    uint32_t a, b, c;
  };
  struct Steps {
    std::vector<char32_t> starts;  // first characters of the ranges with a common target
    std::vector<Regular> targets;
  };
  static constexpr Regular kUnknown{~uint32_t{0}};
  static constexpr uint32_t kMaxDepth = 2000;
  static constexpr uint64_t kDefaultWork = 4'000'000;

  const Expression& get(Regular r) const {
    const auto id = static_cast<uint32_t>(r);
    return id < base_size_ ? base_->get(r) : expressions_[id - base_size_];
  }
  std::span<const uint32_t> list(Regular r) const;
  const CodePointSet& set(uint32_t id) const;
  const Decimal& bound(uint32_t id) const;
  const DecimalDivision& division(uint32_t id) const;

  Regular intern(Expression e, std::span<const uint32_t> list = {});
  std::optional<Regular> find(uint64_t hash, const Expression& e,
                              std::span<const uint32_t> list) const;
  bool same(Regular r, const Expression& e, std::span<const uint32_t> list) const;
  // Returns the parts sorted and without duplicates. Nested lists of the same kind are expanded.
  std::vector<uint32_t> flatten(Kind kind, std::span<const Regular> parts) const;
  void merge_repeats(std::vector<uint32_t>& parts);
  void drop_syntax(std::vector<uint32_t>& parts);
  Regular from_sorted(std::span<const std::u32string> texts, size_t depth);

  // Returns the steps of an expression. The reference stays valid.
  Steps& steps_of(Regular r);
  Regular target(Regular r, Steps& steps, size_t i);
  void find_starts(Regular r, std::vector<char32_t>& starts) const;
  Regular derive(Regular r, char32_t c);
  Regular derive_compared(const Expression& e, char32_t c);
  Regular make_compared(uint32_t bound_id, uint32_t state, uint32_t results);
  Regular make_divisible(uint32_t division_id, DecimalDivision::State state);
  enum class Liveness : uint8_t { kUnknown, kAlive, kDead };
  Liveness known_liveness(Regular r) const;
  bool explore(Regular r);
  // Both visit at most `n_left` expressions and subtract the visited ones.
  std::optional<uint32_t> longest_need(Regular r, uint32_t& n_left) const;
  std::optional<uint32_t> shortest(Regular r, uint32_t& n_left) const;
  Regular within_intersection(Regular r, uint32_t n_characters);

  const RegularPool* base_;
  uint32_t base_size_;
  uint32_t max_expressions_;
  bool exhausted_ = false;
  bool is_out_of_work_ = false;
  uint64_t work_left_ = kDefaultWork;
  size_t max_bytes_ = SIZE_MAX;
  size_t steps_bytes_ = 0;  // memory of steps_
  std::vector<Expression> expressions_;
  std::vector<uint32_t> lists_;
  std::vector<uint32_t> table_;  // hash → id + 1, open addressing
  std::vector<CodePointSet> sets_;
  std::vector<Decimal> bounds_;
  std::vector<DecimalDivision> divisions_;
  uint32_t base_sets_ = 0, base_bounds_ = 0, base_divisions_ = 0;
  std::unordered_map<uint32_t, Steps> steps_;
  std::unordered_map<uint32_t, Liveness> liveness_;
};

}  // namespace kvik::constrain
