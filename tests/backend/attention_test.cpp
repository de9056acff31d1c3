#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>

#include "backend/cpu/attention/attention_plan.h"
#include "backend/cpu/isa/isa.h"
#include "backend/random_matrix.h"
#include "backend/stored_kv.h"

namespace kvik::cpu {
namespace {

using testing::as_stored;
using testing::in_int8;
using testing::random_floats;
using testing::same_bytes;
using testing::sets_here;
using testing::turned;
using testing::turned_back;

struct Case {
  KvType type = KvType::kF32;
  uint32_t head_dim = 64;
  uint32_t group = 4;
  uint32_t n_tokens = 70;
  uint32_t n_rows = 3;  // the last tokens
  uint32_t window = 0;
  float soft_cap = 0;
  uint32_t latent_dim = 0;
  std::optional<float> first_sink = {};  // of the group's heads, each 1 above the one before

  uint32_t value_dim() const { return latent_dim != 0 ? latent_dim : head_dim; }
  uint32_t first_position() const { return n_tokens - n_rows; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name_of(c.type) << " head_dim " << c.head_dim << " group " << c.group << " tokens "
             << c.n_tokens << " rows " << c.n_rows << " window " << c.window << " cap "
             << c.soft_cap << " latent " << c.latent_dim << " sink " << c.first_sink.value_or(NAN);
}

// One head's K and V of one sequence: the values, and pages that hold them among other things.
class Sequence {
 public:
  explicit Sequence(const Case& c)
      : case_(c),
        layout_{c.type, c.head_dim, c.latent_dim},
        q(random_floats(size_t{c.n_rows} * c.group * c.head_dim, 1)),
        k(random_floats(size_t{c.n_tokens} * c.head_dim, 2)),
        v(random_floats(size_t{c.n_tokens} * c.head_dim, 3)) {
    for (uint32_t first = 0; first < c.n_tokens; first += kPageTokens) {
      contents_.emplace_back(kBlockOffset + layout_.head_bytes());
      pages.push_back(contents_.back().data());
    }
    for (uint32_t head = 0; c.first_sink && head < c.group; ++head) {
      sinks_.push_back(*c.first_sink + static_cast<float>(head));
    }
    const AttentionKernels& kernels = instruction_sets().front().attention;
    for (uint32_t t = 0; t < c.n_tokens; ++t) {
      kernels.write_token(layout_, pages[t / kPageTokens] + kBlockOffset, t % kPageTokens,
                          &k[size_t{t} * c.head_dim],
                          c.latent_dim != 0 ? nullptr : &v[size_t{t} * c.head_dim]);
    }
  }

  // Rows [first, first + n) of the case in one call; [n, group · head_dim].
  std::vector<float> attend(const InstructionSet& isa, uint32_t first, uint32_t n) const {
    std::vector<float> scratch = make_scratch(isa);
    std::vector<float> out(size_t{n} * case_.group * case_.value_dim());
    const std::vector<QueryRow> rows = query_rows(first, n, out);
    isa.attention.attend(task(rows, scratch));
    for (size_t i = scratch.size() - kGuard; i < scratch.size(); ++i) {
      EXPECT_TRUE(std::isnan(scratch[i]));
    }
    return out;
  }
  // All rows, n_at_once splits before each merge.
  std::vector<float> attend_by_splits(const InstructionSet& isa, uint32_t n_at_once) const {
    std::vector<float> scratch = make_scratch(isa);
    std::vector<float> out(size_t{case_.n_rows} * case_.group * case_.value_dim());
    const std::vector<QueryRow> rows = query_rows(0, case_.n_rows, out);
    const AttendTask all = task(rows, scratch);
    const SplitRange splits = splits_seen_by(rows, case_.window);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> merged(partial_floats(layout_, rows.size() * case_.group), nan);
    for (uint32_t begin = splits.begin; begin < splits.end; begin += n_at_once) {
      const uint32_t end = std::min(begin + n_at_once, splits.end);
      std::vector<float> partials((end - begin) * merged.size(), nan);
      std::vector<SplitPart> parts;
      for (uint32_t i = 0; i < end - begin; ++i) {
        parts.push_back({&partials[i * merged.size()], case_.n_rows, 0});
      }
      for (uint32_t split = end; split-- > begin;) {
        isa.attention.attend_split(all, split, {}, parts[split - begin].floats);
      }
      isa.attention.merge_splits(all, {begin, end}, parts.data(), merged.data());
    }
    return out;
  }
  std::vector<float> attend(const InstructionSet& isa) const {
    return attend(isa, 0, case_.n_rows);
  }

  // Whatever lies in the page at and after token n_tokens.
  void fill_unwritten(float value) {
    const std::vector<float> row(case_.head_dim, value);
    for (uint32_t t = case_.n_tokens; t % kPageTokens != 0; ++t) {
      instruction_sets().front().attention.write_token(
          layout_, pages[t / kPageTokens] + kBlockOffset, t % kPageTokens, row.data(), row.data());
    }
  }

  static constexpr size_t kBlockOffset = 192;

 private:
  static constexpr size_t kGuard = 64;

  std::vector<float> make_scratch(const InstructionSet& isa) const {
    return std::vector<float>(isa.attention.scratch_floats(layout_, case_.group) + kGuard,
                              std::numeric_limits<float>::quiet_NaN());
  }
  std::vector<QueryRow> query_rows(uint32_t first, uint32_t n, std::vector<float>& out) const {
    const size_t width = size_t{case_.group} * case_.head_dim;
    const size_t out_width = size_t{case_.group} * case_.value_dim();
    std::vector<QueryRow> rows;
    for (uint32_t i = 0; i < n; ++i) {
      rows.push_back(
          {&q[(first + i) * width], &out[i * out_width], case_.first_position() + first + i});
    }
    return rows;
  }
  AttendTask task(const std::vector<QueryRow>& rows, std::vector<float>& scratch) const {
    return {.layout = layout_,
            .block_offset = kBlockOffset,
            .pages = pages.data(),
            .rows = rows.data(),
            .n_rows = static_cast<uint32_t>(rows.size()),
            .first_column = 0,
            .first_out_column = 0,
            .group = case_.group,
            .scale = case_.scale(),
            .soft_cap = case_.soft_cap,
            .window = case_.window,
            .scratch = scratch.data(),
            .sinks = sinks_.empty() ? nullptr : sinks_.data()};
  }

  Case case_;
  KvBlockLayout layout_;
  std::vector<float> sinks_;
  std::vector<std::vector<std::byte>> contents_;

 public:
  std::vector<float> q, k, v;
  std::vector<std::byte*> pages;
};

// Softmax attention of one row and head in double, over what is stored; over int8 pages queries
// are int8 too, over int4 pages after turning.
class Reference {
 public:
  Reference(const Case& c, const Sequence& s)
      : case_(c),
        q_(in_parts(
            c, s.q,
            [&](auto part, uint32_t n) { return query_as_seen(key_type(c.type), part, n); })),
        k_(in_parts(c, s.k,
                    [&](auto part, uint32_t n) { return as_stored(key_type(c.type), part, n); })),
        v_(c.latent_dim == 0 ? as_stored(value_type(c.type), s.v, c.head_dim) : beginnings(c, k_)) {
  }

  static std::vector<float> query_as_seen(KvType type, const std::vector<float>& q, uint32_t n) {
    if (type == KvType::kInt8) return in_int8(q, n);
    if (type != KvType::kInt4) return q;
    return turned_back(in_int8(turned(q, n), n), n);
  }
  // The latent part of each head and the rest are stored each for itself.
  template <class Store>
  static std::vector<float> in_parts(const Case& c, const std::vector<float>& x,
                                     const Store& store) {
    if (c.latent_dim == 0) return store(x, c.head_dim);
    std::vector<float> all;
    for (size_t begin = 0; begin < x.size(); begin += c.head_dim) {
      const auto first = x.begin() + static_cast<ptrdiff_t>(begin);
      for (const auto& [from, to] : {std::pair(0u, c.latent_dim), {c.latent_dim, c.head_dim}}) {
        const auto part = store(std::vector<float>(first + from, first + to), to - from);
        all.insert(all.end(), part.begin(), part.end());
      }
    }
    return all;
  }
  static std::vector<float> beginnings(const Case& c, const std::vector<float>& k) {
    std::vector<float> v;
    for (auto head = k.begin(); head != k.end(); head += c.head_dim) {
      v.insert(v.end(), head, head + c.latent_dim);
    }
    return v;
  }

  std::vector<double> attend(uint32_t row, uint32_t head) const {
    const uint32_t dim = case_.head_dim;
    const uint32_t position = case_.first_position() + row;
    const bool cut = case_.window != 0 && position + 1 > case_.window;
    const uint32_t begin = cut ? position + 1 - case_.window : 0;
    std::vector<double> scores;
    for (uint32_t t = begin; t <= position; ++t) {
      double score = 0;
      for (uint32_t d = 0; d < dim; ++d) {
        score += double{q_[(size_t{row} * case_.group + head) * dim + d]} * k_[t * dim + d];
      }
      score *= case_.scale();
      if (case_.soft_cap != 0) score = case_.soft_cap * std::tanh(score / case_.soft_cap);
      scores.push_back(score);
    }
    double top = *std::max_element(scores.begin(), scores.end());
    const double sink = case_.first_sink.value_or(-INFINITY) + head;
    top = std::max(top, sink);
    double total = std::exp(sink - top);
    const uint32_t value_dim = case_.value_dim();
    std::vector<double> out(value_dim);
    for (uint32_t t = begin; t <= position; ++t) {
      const double p = std::exp(scores[t - begin] - top);
      total += p;
      for (uint32_t d = 0; d < value_dim; ++d) out[d] += p * v_[t * value_dim + d];
    }
    for (double& x : out) x /= total;
    return out;
  }

 private:
  Case case_;
  std::vector<float> q_, k_, v_;
};

// Weights over int8 pages are levels themselves: 32767 of them, or 255 where they are much alike.
double tolerance(KvType type) { return is_quantized(type) ? 2e-3 : 3e-6; }

// Against double in the scalar kernels, then all others by bytes against those.
void check(const Case& c) {
  SCOPED_TRACE(c);
  const Sequence sequence(c);
  const Reference reference(c, sequence);
  const std::vector<float> expected = sequence.attend(instruction_sets().front());
  for (uint32_t row = 0; row < c.n_rows; ++row) {
    for (uint32_t head = 0; head < c.group; ++head) {
      const std::vector<double> exact = reference.attend(row, head);
      for (uint32_t d = 0; d < c.value_dim(); ++d) {
        ASSERT_NEAR(expected[(size_t{row} * c.group + head) * c.value_dim() + d], exact[d],
                    tolerance(c.type))
            << "row " << row << " head " << head << " d " << d;
      }
    }
  }
  for (const InstructionSet* isa : sets_here()) {
    EXPECT_TRUE(same_bytes(sequence.attend(*isa), expected)) << isa->name;
  }
}

TEST(Attention, equals_the_formula_at_every_head_dim_and_group) {
  for (const KvType type : kAllKvTypes) {
    for (const uint32_t head_dim : {16, 24, 40, 64, 80, 128, 256}) {
      for (const uint32_t group : {1, 2, 3, 4, 7, 8}) {
        check({.type = type, .head_dim = head_dim, .group = group});
      }
    }
  }
}

TEST(Attention, equals_the_formula_around_every_border_of_tile_page_and_split) {
  for (const KvType type : kAllKvTypes) {
    for (const uint32_t n : {1, 15, 16, 17, 31, 32, 33, 511, 512, 513, 1024, 1025, 1500}) {
      check({.type = type, .head_dim = 32, .n_tokens = n, .n_rows = 1});
      if (n > 40) check({.type = type, .head_dim = 32, .group = 1, .n_tokens = n, .n_rows = 40});
    }
  }
}

TEST(Attention, equals_the_formula_within_a_window) {
  for (const KvType type : kAllKvTypes) {
    for (const uint32_t window : {1, 5, 16, 31, 32, 512, 700}) {
      for (const uint32_t group : {1, 4}) {
        check({.type = type,
               .head_dim = 32,
               .group = group,
               .n_tokens = 1300,
               .n_rows = 20,
               .window = window});
        check({.type = type, .head_dim = 16, .group = group, .n_rows = 70, .window = window});
      }
    }
  }
}

TEST(Attention, equals_the_formula_with_a_soft_cap) {
  for (const float cap : {1.0f, 30.0f}) {
    check({.soft_cap = cap});
    check({.group = 2, .n_tokens = 600, .n_rows = 30, .window = 100, .soft_cap = cap});
  }
}

TEST(Attention, equals_the_formula_over_latent_keys_whose_beginning_is_v) {
  for (const KvType type : kAllKvTypes) {
    for (const auto& [latent, turning] :
         {std::pair(32u, 16u), {48u, 8u}, {64u, 32u}, {192u, 64u}}) {
      for (const uint32_t group : {1, 3, 20, 50}) {
        check({.type = type, .head_dim = latent + turning, .group = group, .latent_dim = latent});
      }
      check({.type = type,
             .head_dim = latent + turning,
             .group = 4,
             .n_tokens = 1100,
             .n_rows = 20,
             .latent_dim = latent});
    }
  }
}

TEST(Attention, equals_the_formula_with_a_sink_below_among_and_above_the_scores) {
  for (const KvType type : kAllKvTypes) {
    for (const float sink : {-100.0f, -1.0f, 0.5f, 6.0f, 60.0f}) {
      check({.type = type, .first_sink = sink});
      check({.type = type, .n_tokens = 1100, .n_rows = 20, .window = 128, .first_sink = sink});
    }
  }
}

TEST(Attention, equals_the_formula_where_a_group_is_larger_than_a_block) {
  check({.head_dim = 16, .group = 71, .n_tokens = 40, .n_rows = 5});
}

TEST(Attention, equals_the_formula_in_any_mixture) {
  std::mt19937 generator(11);
  const auto any = [&](uint32_t from, uint32_t to) {
    return std::uniform_int_distribution<uint32_t>(from, to)(generator);
  };
  for (int i = 0; i < 40; ++i) {
    Case c{.type = kAllKvTypes[any(0, std::size(kAllKvTypes) - 1)],
           .head_dim = any(1, 20) * 4,
           .group = any(1, 9),
           .n_tokens = any(1, 1100),
           .window = any(0, 1) * any(1, 900),
           .soft_cap = static_cast<float>(any(0, 1)) * 20.0f};
    c.n_rows = any(1, std::min(c.n_tokens, 25u));
    check(c);
  }
}

void check_blocking(KvType type) {
  for (const uint32_t group : {1, 4, 7, 8}) {
    for (const uint32_t window : {0, 5, 32, 200, 700}) {
      const Case c{.type = type,
                   .head_dim = 32,
                   .group = group,
                   .n_tokens = 1050,
                   .n_rows = 90,
                   .window = window};
      SCOPED_TRACE(c);
      const Sequence sequence(c);
      const size_t width = size_t{group} * c.head_dim;
      for (const InstructionSet* isa : sets_here()) {
        if (isa->name == "scalar") continue;  // slow, and the same as the others
        const std::vector<float> together = sequence.attend(*isa);
        for (const uint32_t n : {1, 2, 13}) {
          for (uint32_t row = 0; row + n <= c.n_rows; row += n) {
            const std::vector<float> part = sequence.attend(*isa, row, n);
            ASSERT_EQ(0,
                      std::memcmp(part.data(), &together[row * width], part.size() * sizeof(float)))
                << isa->name << " rows " << row << " + " << n;
          }
        }
      }
    }
  }
}

TEST(Attention, a_row_alone_has_the_bits_it_has_among_others) {
  check_blocking(KvType::kF32);
  check_blocking(KvType::kInt8);
  check_blocking(KvType::kInt4);
}

TEST(Attention, splits_attended_one_by_one_and_merged_give_the_bits_of_the_whole) {
  for (const KvType type : kAllKvTypes) {
    for (const uint32_t window : {0, 5, 600, 1100}) {
      for (const uint32_t n_rows : {1, 20}) {
        for (const uint32_t n_tokens : {40, 512, 2100}) {
          const Case c{.type = type,
                       .group = 8,
                       .n_tokens = n_tokens,
                       .n_rows = n_rows,
                       .window = window,
                       .first_sink = window == 600 ? std::optional(0.5f) : std::nullopt};
          SCOPED_TRACE(c);
          const Sequence sequence(c);
          for (const InstructionSet* isa : sets_here()) {
            const std::vector<float> whole = sequence.attend(*isa);
            for (const uint32_t n_at_once : {1, 2, 100}) {
              EXPECT_TRUE(same_bytes(sequence.attend_by_splits(*isa, n_at_once), whole))
                  << isa->name << " " << n_at_once;
            }
          }
        }
      }
    }
  }
}

TEST(Attention, what_lies_behind_the_last_token_changes_no_bit) {
  for (const KvType type : kAllKvTypes) {
    for (const uint32_t n_tokens : {1, 5, 17, 40, 530}) {
      const Case c{.type = type, .n_tokens = n_tokens, .n_rows = 1};
      Sequence sequence(c);
      const std::vector<float> clean = sequence.attend(instruction_sets().front());
      for (const float garbage : {1e30f, -1e30f, std::numeric_limits<float>::infinity(),
                                  std::numeric_limits<float>::quiet_NaN()}) {
        sequence.fill_unwritten(garbage);
        for (const InstructionSet* isa : sets_here()) {
          EXPECT_TRUE(same_bytes(sequence.attend(*isa), clean)) << isa->name << " " << garbage;
        }
      }
    }
  }
}

TEST(Attention, later_tokens_of_the_same_chunk_change_no_bit) {
  for (const KvType type : kAllKvTypes) {
    const Case c{.type = type, .group = 1, .n_tokens = 100, .n_rows = 100};
    Sequence sequence(c);
    const std::vector<float> clean = sequence.attend(instruction_sets().front());
    Sequence changed(c);
    const std::vector<float> row(c.head_dim, -1e30f);
    for (uint32_t t = 60; t < c.n_tokens; ++t) {
      instruction_sets().front().attention.write_token(
          {c.type, c.head_dim}, changed.pages[t / kPageTokens] + Sequence::kBlockOffset,
          t % kPageTokens, row.data(), row.data());
    }
    for (const InstructionSet* isa : sets_here()) {
      const std::vector<float> out = changed.attend(*isa);
      EXPECT_EQ(0, std::memcmp(out.data(), clean.data(), 60 * c.head_dim * sizeof(float)))
          << isa->name;
    }
  }
}

TEST(Attention, pages_outside_the_window_are_not_touched) {
  for (const KvType type : kAllKvTypes) {
    for (const uint32_t window : {1, 33, 500}) {
      const Case c{.type = type, .n_tokens = 1300, .n_rows = 7, .window = window};
      Sequence sequence(c);
      const std::vector<float> before = sequence.attend(instruction_sets().front());
      const uint32_t first_seen = c.first_position() + 1 - window;
      for (uint32_t page = 0; page < first_seen / kPageTokens; ++page) {
        sequence.pages[page] = nullptr;
      }
      for (const InstructionSet* isa : sets_here()) {
        EXPECT_TRUE(same_bytes(sequence.attend(*isa), before)) << isa->name << " " << window;
      }
    }
  }
}

TEST(Attention, overflowing_scores_do_not_crash) {
  for (const KvType type : kAllKvTypes) {
    const Case c{.type = type, .n_tokens = 600, .n_rows = 9};
    Sequence sequence(c);
    for (size_t i = 0; i < sequence.q.size(); ++i) {
      if (i % 3 == 0) sequence.q[i] = 1e38f;
      if (i % 7 == 0) sequence.q[i] = -std::numeric_limits<float>::infinity();
      if (i % 900 == 0) sequence.q[i] = std::numeric_limits<float>::quiet_NaN();
    }
    for (const InstructionSet* isa : sets_here()) {
      EXPECT_EQ(sequence.attend(*isa).size(), sequence.q.size());
    }
  }
}

}  // namespace
}  // namespace kvik::cpu
