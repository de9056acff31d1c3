#include <cstring>
#include <limits>
#include <random>

#include "backend/attention_case.h"
#include "backend/page_kinds.h"

namespace kvik::cpu {
namespace {

using kvik::testing::kPageKinds;
using kvik::testing::PageKind;
using kvik::testing::same_bytes;
using kvik::testing::sets_here;
using testing::Case;
using testing::check;
using testing::Sequence;

TEST(Attention, equals_the_formula_at_every_head_dim_and_group) {
  for (const auto& [type, open] : kPageKinds) {
    for (const uint32_t head_dim : {16, 24, 40, 64, 80, 96, 128, 256}) {
      for (const uint32_t group : {1, 2, 3, 4, 7, 8}) {
        check({.type = type, .open = open, .head_dim = head_dim, .group = group});
      }
    }
  }
}

TEST(Attention, equals_the_formula_around_every_border_of_tile_page_and_split) {
  for (const auto& [type, open] : kPageKinds) {
    for (const uint32_t n : {1, 15, 16, 17, 31, 32, 33, 511, 512, 513, 1024, 1025, 1500}) {
      check({.type = type, .open = open, .head_dim = 32, .n_tokens = n, .n_rows = 1});
      if (n <= 40) continue;
      check({.type = type, .open = open, .head_dim = 32, .group = 1, .n_tokens = n, .n_rows = 40});
    }
  }
}

TEST(Attention, equals_the_formula_within_a_window) {
  for (const auto& [type, open] : kPageKinds) {
    for (const uint32_t window : {1, 5, 16, 31, 32, 512, 700}) {
      for (const uint32_t group : {1, 4}) {
        check({.type = type,
               .open = open,
               .head_dim = 32,
               .group = group,
               .n_tokens = 1300,
               .n_rows = 20,
               .window = window});
        check({.type = type,
               .open = open,
               .head_dim = 16,
               .group = group,
               .n_rows = 70,
               .window = window});
      }
    }
  }
}

TEST(Attention, equals_the_formula_with_a_soft_cap) {
  for (const auto& [type, open] : kPageKinds) {
    for (const float cap : {1.0f, 30.0f}) {
      check({.type = type, .open = open, .soft_cap = cap});
      check({.type = type,
             .open = open,
             .group = 2,
             .n_tokens = 600,
             .n_rows = 30,
             .window = 100,
             .soft_cap = cap});
    }
  }
}

TEST(Attention, equals_the_formula_over_latent_keys_whose_beginning_is_v) {
  for (const auto& [type, open] : kPageKinds) {
    for (const auto& [latent, turning] :
         {std::pair(32u, 16u), {48u, 8u}, {64u, 32u}, {192u, 64u}, {32u, 0u}, {192u, 0u}}) {
      for (const uint32_t group : {1, 3, 20, 50}) {
        check({.type = type,
               .open = open,
               .head_dim = latent + turning,
               .group = group,
               .latent_dim = latent});
      }
      check({.type = type,
             .open = open,
             .head_dim = latent + turning,
             .group = 4,
             .n_tokens = 1100,
             .n_rows = 20,
             .latent_dim = latent});
    }
  }
}

TEST(Attention, equals_the_formula_with_a_sink_below_among_and_above_the_scores) {
  for (const auto& [type, open] : kPageKinds) {
    for (const float sink : {-100.0f, -1.0f, 0.5f, 6.0f, 60.0f}) {
      check({.type = type, .open = open, .first_sink = sink});
      check({.type = type,
             .open = open,
             .n_tokens = 1100,
             .n_rows = 20,
             .window = 128,
             .first_sink = sink});
    }
  }
}

TEST(Attention, equals_the_formula_where_few_tokens_have_most_of_the_weight) {
  for (const auto& [type, open] : kPageKinds) {
    for (const float sharpness : {0.1f, 3.0f, 8.0f}) {
      for (const uint32_t head_dim : {64, 80}) {
        check({.type = type,
               .open = open,
               .head_dim = head_dim,
               .n_tokens = 1300,
               .n_rows = 20,
               .window = 900,
               .sharpness = sharpness});
      }
    }
  }
}

TEST(Attention, equals_the_formula_over_the_tokens_that_masks_leave) {
  for (const auto& [type, open] : kPageKinds) {
    for (const uint32_t every : {2, 31}) {
      for (const uint32_t n : {20, 75, 513}) {
        check({.type = type, .open = open, .n_tokens = n, .n_rows = 13, .every = every});
      }
      check({.type = type,
             .open = open,
             .head_dim = 128,
             .group = 16,
             .n_tokens = 1100,
             .n_rows = 1,
             .soft_cap = 2.0f,
             .every = every});
      check({.type = type,
             .open = open,
             .head_dim = 40,
             .group = 2,
             .n_tokens = 700,
             .n_rows = 40,
             .window = 100,
             .every = every});
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
    const PageKind kind = kPageKinds[any(0, std::size(kPageKinds) - 1)];
    Case c{.type = kind.type,
           .open = kind.open,
           .head_dim = any(1, 20) * 4,
           .group = any(1, 9),
           .n_tokens = any(1, 1100),
           .window = any(0, 1) * any(1, 900),
           .soft_cap = static_cast<float>(any(0, 1)) * 20.0f};
    c.n_rows = any(1, std::min(c.n_tokens, 25u));
    check(c);
  }
}

void check_blocking(KvType type, bool open = false) {
  for (const uint32_t group : {1, 4, 7, 8}) {
    for (const uint32_t window : {0, 5, 32, 200, 700}) {
      const Case c{.type = type,
                   .open = open,
                   .head_dim = 32,
                   .group = group,
                   .n_tokens = 1050,
                   .n_rows = 90,
                   .window = window};
      SCOPED_TRACE(c);
      const Sequence sequence(c);
      const size_t width = size_t{group} * c.head_dim;
      for (const InstructionSet* isa : sets_here()) {
        if (isa->name == "scalar") continue;  // slow, and covered by the other sets
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
  check_blocking(KvType::kInt8Int4, true);
  check_blocking(KvType::kInt4, true);
}

TEST(Attention, splits_attended_one_by_one_and_merged_give_the_bits_of_the_whole) {
  for (const auto& [type, open] : kPageKinds) {
    for (const uint32_t window : {0, 5, 600, 1100}) {
      for (const uint32_t n_rows : {1, 20}) {
        for (const uint32_t n_tokens : {40, 512, 2100}) {
          const Case c{.type = type,
                       .open = open,
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

TEST(Attention, data_after_the_last_token_changes_no_bit) {
  for (const auto& [type, open] : kPageKinds) {
    for (const uint32_t n_tokens : {1, 5, 17, 40, 530}) {
      const Case c{.type = type, .open = open, .n_tokens = n_tokens, .n_rows = 1};
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
  for (const auto& [type, open] : kPageKinds) {
    const Case c{.type = type, .open = open, .group = 1, .n_tokens = 100, .n_rows = 100};
    Sequence sequence(c);
    const std::vector<float> clean = sequence.attend(instruction_sets().front());
    Sequence changed(c);
    const std::vector<float> row(c.head_dim, -1e30f);
    for (uint32_t t = 60; t < c.n_tokens; ++t) changed.write(t, row.data(), row.data());
    for (const InstructionSet* isa : sets_here()) {
      const std::vector<float> out = changed.attend(*isa);
      EXPECT_EQ(0, std::memcmp(out.data(), clean.data(), 60 * c.head_dim * sizeof(float)))
          << isa->name;
    }
  }
}

TEST(Attention, pages_outside_the_window_are_not_touched) {
  for (const auto& [type, open] : kPageKinds) {
    for (const uint32_t window : {1, 33, 500}) {
      const Case c{.type = type, .open = open, .n_tokens = 1300, .n_rows = 7, .window = window};
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

TEST(Attention, huge_scores_give_finite_results_and_the_same_bits_on_all_sets) {
  for (const auto& [type, open] : kPageKinds) {
    for (const float sharpness : {1e6f, 1e12f, 1e25f}) {
      const Case c{
          .type = type, .open = open, .n_tokens = 700, .n_rows = 20, .sharpness = sharpness};
      const Sequence sequence(c);
      const std::vector<float> expected = sequence.attend(instruction_sets().front());
      for (const float x : expected) ASSERT_TRUE(std::isfinite(x)) << c;
      for (const InstructionSet* isa : sets_here()) {
        EXPECT_TRUE(same_bytes(sequence.attend(*isa), expected)) << isa->name << " " << c;
      }
    }
  }
}

TEST(Attention, overflowing_scores_do_not_crash) {
  for (const auto& [type, open] : kPageKinds) {
    const Case c{.type = type, .open = open, .n_tokens = 600, .n_rows = 9};
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
