#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/layout/attention_plan.h"
#include "backend/random_matrix.h"
#include "backend/stored_kv.h"

// Computes one head's attention over pages with the kernels and, as a reference, in double.
namespace kvik::cpu::testing {

using kvik::testing::as_stored;
using kvik::testing::by_channel;
using kvik::testing::in_int8;
using kvik::testing::random_floats;
using kvik::testing::rotated;
using kvik::testing::rotated_back;

struct Case {
  KvType type = KvType::kF32;
  bool open = false;  // each row reads its own page from an open page
  uint32_t head_dim = 64;
  uint32_t group = 4;
  uint32_t n_tokens = 70;
  uint32_t n_rows = 3;  // the last tokens
  uint32_t window = 0;
  float soft_cap = 0;
  uint32_t latent_dim = 0;
  std::optional<float> first_sink = {};  // of the group's heads; each is 1 above the previous one
  float sharpness = 1.0f;                // factor of the scores
  // Rows attend to every n-th token and the last one of their range alone; 0: to all of it.
  uint32_t every = 0;

  // Models with open pages use this layout.
  bool keys_by_channel() const { return open && type == KvType::kInt4 && latent_dim == 0; }
  uint32_t value_dim() const { return latent_dim != 0 ? latent_dim : head_dim; }
  uint32_t first_position() const { return n_tokens - n_rows; }
  uint32_t first_seen(uint32_t position) const {
    return window != 0 && position + 1 > window ? position + 1 - window : 0;
  }
  // Returns the end of the tokens that a row reads from closed pages.
  uint32_t sealed_end(uint32_t position) const {
    return open ? position / kPageTokens * kPageTokens : position + 1;
  }
  bool sees(uint32_t token, uint32_t position) const {
    return every == 0 || token % every == 0 || token == position;
  }
  float scale() const { return sharpness / std::sqrt(static_cast<float>(head_dim)); }
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name_of(c.type) << (c.open ? " open" : "") << " head_dim " << c.head_dim
             << " group " << c.group << " tokens " << c.n_tokens << " rows " << c.n_rows
             << " window " << c.window << " cap " << c.soft_cap << " latent " << c.latent_dim
             << " sink " << c.first_sink.value_or(NAN) << " sharpness " << c.sharpness << " every "
             << c.every;
}

// One head's K and V of one sequence: the values, and pages that hold them among other data.
class Sequence {
 public:
  explicit Sequence(const Case& c)
      : case_(c),
        layout_{c.type, c.head_dim, c.latent_dim, c.keys_by_channel()},
        q(random_floats(size_t{c.n_rows} * c.group * c.head_dim, 1)),
        k(random_floats(size_t{c.n_tokens} * c.head_dim, 2)),
        v(random_floats(size_t{c.n_tokens} * c.head_dim, 3)) {
    for (uint32_t first = 0; first < c.n_tokens; first += kPageTokens) {
      contents_.emplace_back(kBlockOffset + layout_.head_bytes());
      pages.push_back(contents_.back().data());
      contents_.emplace_back(kOpenBlockOffset + layout_.open_layout().head_bytes());
      open.push_back(contents_.back().data());
    }
    for (uint32_t head = 0; c.first_sink && head < c.group; ++head) {
      sinks_.push_back(*c.first_sink + static_cast<float>(head));
    }
    for (uint32_t t = 0; t < c.n_tokens; ++t) {
      write(t, &k[size_t{t} * c.head_dim], &v[size_t{t} * c.head_dim]);
    }
  }

  // Writes a token to its page and its open page. With K by channel, the closed page is written
  // with the page's last token.
  void write(uint32_t t, const float* key, const float* value) {
    if (case_.latent_dim != 0) value = nullptr;
    const AttentionKernels& kernels = instruction_sets().front().attention;
    const uint32_t page = t / kPageTokens;
    kernels.write_token(layout_, pages[page] + kBlockOffset, t % kPageTokens, key, value);
    kernels.write_token(layout_.open_layout(), open[page] + kOpenBlockOffset, t % kPageTokens, key,
                        value);
    if (layout_.keys_by_channel && t % kPageTokens == kPageTokens - 1) {
      kernels.write_channels(layout_, open[page] + kOpenBlockOffset, pages[page] + kBlockOffset);
    }
  }

  // Attends rows [first, first + n) of the case in one call; returns [n, group · head_dim].
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
  // Attends all rows, with n_at_once splits before each merge. Rows that see no split are attended
  // in one call.
  std::vector<float> attend_by_splits(const InstructionSet& isa, uint32_t n_at_once) const {
    std::vector<float> scratch = make_scratch(isa);
    std::vector<float> out(size_t{case_.n_rows} * case_.group * case_.value_dim());
    const std::vector<QueryRow> rows = query_rows(0, case_.n_rows, out);
    const AttendTask all = task(rows, scratch);
    const SplitRange splits = visible_splits(rows, case_.window);
    if (splits.begin == splits.end) isa.attention.attend(all);
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

  // Fills the rest of the last page, from token n_tokens on, with a value.
  void fill_unwritten(float value) {
    const std::vector<float> row(case_.head_dim, value);
    for (uint32_t t = case_.n_tokens; t % kPageTokens != 0; ++t) write(t, row.data(), row.data());
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr size_t kBlockOffset = 192, kOpenBlockOffset = 320;

  std::vector<float> make_scratch(const InstructionSet& isa) const {
    return std::vector<float>(isa.attention.scratch_floats(layout_, case_.group) + kGuard,
                              std::numeric_limits<float>::quiet_NaN());
  }
  std::vector<QueryRow> query_rows(uint32_t first, uint32_t n, std::vector<float>& out) const {
    const size_t width = size_t{case_.group} * case_.head_dim;
    const size_t out_width = size_t{case_.group} * case_.value_dim();
    masks_.clear();
    std::vector<QueryRow> rows;
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t position = case_.first_position() + first + i;
      rows.push_back({&q[(first + i) * width], &out[i * out_width], position,
                      case_.open ? open[position / kPageTokens] : nullptr});
      if (case_.every == 0) continue;
      masks_.emplace_back(pages.size());
      for (uint32_t t = 0; t < case_.n_tokens; ++t) {
        masks_.back()[t / kPageTokens] |= uint32_t{case_.sees(t, position)} << t % kPageTokens;
      }
      rows.back().masks = masks_.back().data();
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
            .sinks = sinks_.empty() ? nullptr : sinks_.data(),
            .open_block_offset = kOpenBlockOffset};
  }

  Case case_;
  KvBlockLayout layout_;
  std::vector<float> sinks_;
  std::vector<std::vector<std::byte>> contents_;
  mutable std::vector<std::vector<uint32_t>> masks_;  // of the rows of the last call

 public:
  std::vector<float> q, k, v;
  std::vector<std::byte*> pages, open;
};

// Computes softmax attention of one row and head in double, from the stored values. Queries are
// int8 for int8 pages and for K by channel, and rotated for other int4 pages. For open pages they
// are not converted.
class Reference {
 public:
  Reference(const Case& c, const Sequence& s)
      : case_(c),
        q_(in_parts(c, s.q,
                    [&](auto part, uint32_t n) {
                      return query_as_seen(c.keys_by_channel() ? KvType::kInt8 : key_type(c.type),
                                           part, n);
                    })),
        k_(c.keys_by_channel() ? by_channel(s.k, c.head_dim)
                               : in_parts(c, s.k,
                                          [&](auto part, uint32_t n) {
                                            return as_stored(key_type(c.type), part, n);
                                          })),
        v_(c.latent_dim == 0 ? as_stored(value_type(c.type), s.v, c.head_dim) : beginnings(c, k_)),
        open_q_(s.q),
        open_k_(as_stored(kOpenType, s.k, c.head_dim)),
        open_v_(c.latent_dim == 0 ? as_stored(kOpenType, s.v, c.head_dim)
                                  : beginnings(c, open_k_)) {}

  static std::vector<float> query_as_seen(KvType type, const std::vector<float>& q, uint32_t n) {
    if (type == KvType::kInt8) return in_int8(q, n);
    if (type != KvType::kInt4) return q;
    return rotated_back(in_int8(rotated(q, n), n), n);
  }
  // Stores the latent part and the rest of each head separately.
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
    const uint32_t begin = case_.first_seen(position);
    const uint32_t sealed_end = case_.sealed_end(position);
    std::vector<double> scores;
    for (uint32_t t = begin; t <= position; ++t) {
      if (!case_.sees(t, position)) {
        scores.push_back(-INFINITY);
        continue;
      }
      const std::vector<float>& q = t < sealed_end ? q_ : open_q_;
      const std::vector<float>& k = t < sealed_end ? k_ : open_k_;
      double score = 0;
      for (uint32_t d = 0; d < dim; ++d) {
        score += double{q[(size_t{row} * case_.group + head) * dim + d]} * k[t * dim + d];
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
      const std::vector<float>& v = t < sealed_end ? v_ : open_v_;
      const double p = std::exp(scores[t - begin] - top);
      total += p;
      for (uint32_t d = 0; d < value_dim; ++d) out[d] += p * v[t * value_dim + d];
    }
    for (double& x : out) x /= total;
    return out;
  }

  // Returns the allowed deviation of the kernels. For int8 pages, attention weights are quantized
  // as well: in 255 to 32767 steps, fewer if they are similar.
  double tolerance(uint32_t row) const {
    const uint32_t position = case_.first_position() + row;
    const bool reads_levels = case_.first_seen(position) < case_.sealed_end(position);
    return is_quantized(case_.type) && reads_levels ? 2e-3 : 3e-6 * std::max(1.0f, case_.sharpness);
  }

 private:
  Case case_;
  std::vector<float> q_, k_, v_;
  std::vector<float> open_q_, open_k_, open_v_;
};

// Compares the scalar kernels with double, and all other kernels with the scalar ones byte by byte.
inline void check(const Case& c) {
  SCOPED_TRACE(c);
  const Sequence sequence(c);
  const Reference reference(c, sequence);
  const std::vector<float> expected = sequence.attend(instruction_sets().front());
  for (uint32_t row = 0; row < c.n_rows; ++row) {
    for (uint32_t head = 0; head < c.group; ++head) {
      const std::vector<double> exact = reference.attend(row, head);
      for (uint32_t d = 0; d < c.value_dim(); ++d) {
        ASSERT_NEAR(expected[(size_t{row} * c.group + head) * c.value_dim() + d], exact[d],
                    reference.tolerance(row))
            << "row " << row << " head " << head << " d " << d;
      }
    }
  }
  for (const InstructionSet* isa : kvik::testing::sets_here()) {
    EXPECT_TRUE(kvik::testing::same_bytes(sequence.attend(*isa), expected)) << isa->name;
  }
}

}  // namespace kvik::cpu::testing
