#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/isa.h"
#include "backend/random_matrix.h"
#include "backend/stored_kv.h"

namespace kvik::cpu {
namespace {

using testing::as_stored;
using testing::in_int4;
using testing::random_floats;
using testing::rotated;
using testing::sets_here;

TEST(KvLayout, sizes_count_padded_v) {
  EXPECT_EQ((KvBlockLayout{KvType::kF32, 64}.k_bytes()), 32u * 64 * 4);
  EXPECT_EQ((KvBlockLayout{KvType::kBF16, 64}.v_bytes()), 32u * 64 * 2);
  EXPECT_EQ((KvBlockLayout{KvType::kF32, 24}.k_bytes()), 32u * 24 * 4);
  EXPECT_EQ((KvBlockLayout{KvType::kF32, 24}.v_bytes()), 32u * 32 * 4);
  EXPECT_EQ((KvBlockLayout{KvType::kF32, 24}.head_bytes()), 32u * (24 + 32) * 4);
  EXPECT_EQ((KvBlockLayout{KvType::kInt8, 64}.head_bytes()), 2 * 32u * (64 + 4));
  EXPECT_EQ((KvBlockLayout{KvType::kInt8, 21}.k_bytes()), 32u * (24 + 4));
  EXPECT_EQ((KvBlockLayout{KvType::kInt8, 21}.v_bytes()), 32u * (32 + 4));
  EXPECT_EQ((KvBlockLayout{KvType::kInt4, 64}.head_bytes()), 2 * 32u * (32 + 2));
  EXPECT_EQ((KvBlockLayout{KvType::kInt4, 80}.k_bytes()), 32u * (40 + 2 * 2));
  EXPECT_EQ((KvBlockLayout{KvType::kInt4, 80}.v_bytes()), 32u * (48 + 2 * 2));
  EXPECT_EQ((KvBlockLayout{KvType::kInt4, 21}.k_bytes()), 32u * (12 + 2));
  EXPECT_EQ((KvBlockLayout{KvType::kInt4, 1024}.k_bytes()), 32u * (512 + 8 * 2));
  EXPECT_EQ((KvBlockLayout{KvType::kInt4, 64, 0, true}.k_bytes()), 32u * 32 + 4 * 64 + 64);
  EXPECT_EQ((KvBlockLayout{KvType::kInt4, 21, 0, true}.k_bytes()), 32u * 12 + 4 * 24 + 64);
  EXPECT_EQ((KvBlockLayout{KvType::kInt4, 64, 0, true}.v_bytes()),
            (KvBlockLayout{KvType::kInt4, 64}.v_bytes()));
  EXPECT_EQ((KvBlockLayout{KvType::kInt8Int4, 80}.k_bytes()), 32u * (80 + 4));
  EXPECT_EQ((KvBlockLayout{KvType::kInt8Int4, 80}.v_bytes()), 32u * (48 + 2 * 2));
  EXPECT_EQ((KvBlockLayout{KvType::kInt8Int4, 576, 512}.head_bytes()),
            (KvBlockLayout{KvType::kInt8, 576, 512}.head_bytes()));
}

TEST(KvLayout, int8_pages_hold_k_of_all_heads_of_a_layer_before_their_v) {
  const auto of = [](KvType type, uint32_t head_dim) {
    return KvGeometry{.type = type, .n_layers = 3, .n_kv_heads = 5, .head_dim = head_dim};
  };
  const KvGeometry int8 = of(KvType::kInt8, 64);
  const KvBlockLayout apart = layout_of(int8);
  const size_t bytes = 32u * (64 + 4);
  EXPECT_EQ(block_offset({int8, 2, {}}, 3), 2 * 5 * 2 * bytes + 3 * bytes);
  EXPECT_EQ(apart.value_offset(), 5 * bytes);
  EXPECT_EQ(apart.head_stride(), bytes);

  // V follows K of its head in other types, and where the two have different sizes.
  for (const KvGeometry& geometry : {of(KvType::kInt8, 24), of(KvType::kInt4, 64),
                                     of(KvType::kInt8Int4, 64), of(KvType::kBF16, 64)}) {
    const KvBlockLayout layout = layout_of(geometry);
    EXPECT_EQ(block_offset({geometry, 2, {}}, 3), (2 * 5 + 3) * layout.head_bytes());
    EXPECT_EQ(layout.value_offset(), layout.k_bytes());
    EXPECT_EQ(layout.head_stride(), layout.head_bytes());
  }
}

// Reads elements of one head's page at the addresses documented in kernels.h.
class PageReader {
 public:
  PageReader(const KvBlockLayout& layout, const std::vector<std::byte>& block)
      : layout_(layout), block_(block) {}

  float k(uint32_t token, uint32_t d) const {
    if (layout_.keys_by_channel) return k_by_channel(token, d);
    if (layout_.key_type() == KvType::kInt4) {
      const size_t n_words = (layout_.head_dim + 7) / 8;
      const size_t at = ((token / 16 * n_words + d / 8) * 16 + token % 16) * 4 + d % 4;
      return int4(at, d / 4 % 2, n_words * 4 * kPageTokens + (d / 64 * kPageTokens + token) * 2);
    }
    if (layout_.key_type() != KvType::kInt8) {
      return element(0, (size_t{token / 16} * layout_.head_dim + d) * 16 + token % 16);
    }
    const size_t n_words = (layout_.head_dim + 3) / 4;
    const size_t at = ((token / 16 * n_words + d / 4) * 16 + token % 16) * 4 + d % 4;
    const float scale = at_byte<float>(n_words * 4 * kPageTokens + token * 4);
    return scale == 0 ? 0 : scale * static_cast<float>(at_byte<uint8_t>(at) - 128);
  }
  float v(uint32_t token, uint32_t d) const {
    const size_t begin = layout_.k_bytes();
    if (layout_.value_type() == KvType::kInt4) {
      const size_t n_vectors = (layout_.head_dim + 31) / 32;
      const size_t at = ((d / 32 * size_t{8} + token / 4) * 16 + d % 16) * 4 + token % 4;
      return int4(begin + at, d / 16 % 2,
                  begin + n_vectors * 16 * kPageTokens + (d / 64 * kPageTokens + token) * 2);
    }
    if (layout_.value_type() != KvType::kInt8) {
      return element(begin, (size_t{d / 16} * kPageTokens + token) * 16 + d % 16);
    }
    const size_t at = ((d / 16 * size_t{8} + token / 4) * 16 + d % 16) * 4 + token % 4;
    const float scale = at_byte<float>(layout_.head_bytes() - (kPageTokens - token) * 4);
    return scale * static_cast<float>(at_byte<int8_t>(begin + at));
  }

 private:
  float k_by_channel(uint32_t token, uint32_t d) const {
    const size_t n_words = (layout_.head_dim + 7) / 8;
    const size_t at = ((token / 16 * n_words + d / 8) * 16 + token % 16) * 4 + d % 4;
    const uint32_t nibble = at_byte<uint8_t>(at) >> (d / 4 % 2 * 4) & 15u;
    const size_t channels = n_words * 4 * kPageTokens;
    const size_t firsts = channels + token / 16 * 16 * n_words;
    const uint32_t first = at_byte<uint8_t>(firsts + d);
    const uint32_t step = at_byte<uint8_t>(firsts + 8 * n_words + d);
    const auto level = static_cast<int>((256 * first + 128 + 17 * step * nibble) / 256) - 128;
    return at_byte<float>(channels + 32 * n_words + d / 64 * 4) * static_cast<float>(level);
  }
  template <class T>
  T at_byte(size_t offset) const {
    T value;
    std::memcpy(&value, &block_.at(offset), sizeof(value));
    return value;
  }
  float int4(size_t at, uint32_t nibble, size_t scale_at) const {
    const int level = 2 * (at_byte<uint8_t>(at) >> (4 * nibble) & 15) - 15;
    return bf16_to_f32(at_byte<uint16_t>(scale_at)) * static_cast<float>(level);
  }
  float element(size_t begin, size_t index) const {
    return layout_.type == KvType::kF32 ? at_byte<float>(begin + 4 * index)
                                        : bf16_to_f32(at_byte<uint16_t>(begin + 2 * index));
  }

  const KvBlockLayout& layout_;
  const std::vector<std::byte>& block_;
};

void check_written(const InstructionSet& isa, KvType type, uint32_t head_dim) {
  const KvBlockLayout layout{type, head_dim};
  std::vector<std::byte> block(layout.head_bytes());
  const auto k = random_floats(size_t{kPageTokens} * head_dim, 20);
  const auto v = random_floats(size_t{kPageTokens} * head_dim, 21);
  for (uint32_t t = 0; t < kPageTokens; t += 3) {
    isa.attention.write_token(layout, block.data(), t, &k[t * head_dim], &v[t * head_dim]);
  }
  // An int4 page holds rotated values.
  const auto in_page = [&](KvType of, const std::vector<float>& x) {
    return of == KvType::kInt4 ? in_int4(rotated(x, head_dim), head_dim)
                               : as_stored(of, x, head_dim);
  };
  const std::vector<float> k_stored = in_page(key_type(type), k);
  const std::vector<float> v_stored = in_page(value_type(type), v);
  const PageReader page(layout, block);
  for (uint32_t t = 0; t < kPageTokens; ++t) {
    for (uint32_t d = 0; d < (head_dim + 15) / 16 * 16; ++d) {
      const bool holds = t % 3 == 0 && d < head_dim;
      // Beyond the head, int4 holds levels that are not read.
      if (value_type(type) == KvType::kInt4 && d >= head_dim) continue;
      ASSERT_FLOAT_EQ(page.v(t, d), holds ? v_stored[t * head_dim + d] : 0.0f);
      if (d >= head_dim) continue;
      ASSERT_FLOAT_EQ(page.k(t, d), holds ? k_stored[t * head_dim + d] : 0.0f);
    }
  }
}

// A page of one head with K by channel, and the bf16 page from which it is made.
struct ChannelPage {
  ChannelPage(const InstructionSet& isa, const std::vector<float>& k, uint32_t head_dim)
      : layout{KvType::kInt4, head_dim, 0, true}, block(layout.head_bytes(), std::byte{0xff}) {
    std::vector<std::byte> open(layout.open_layout().head_bytes());
    for (uint32_t t = 0; t < kPageTokens; ++t) {
      const float* row = &k[size_t{t} * head_dim];
      isa.attention.write_token(layout.open_layout(), open.data(), t, row, row);
      isa.attention.write_token(layout, block.data(), t, row, row);
    }
    isa.attention.write_channels(layout, open.data(), block.data());
  }
  const KvBlockLayout layout;
  std::vector<std::byte> block;
};

TEST(KvLayout, k_by_channel_is_within_half_a_step_of_its_channel_and_half_a_level) {
  for (const uint32_t head_dim : {8u, 21u, 64u, 80u, 128u, 512u}) {
    auto k = random_floats(size_t{kPageTokens} * head_dim, 20);
    for (size_t i = 0; i < k.size(); ++i) {  // channels differ in offset and in size
      const size_t d = i % head_dim;
      k[i] = k[i] * (d % 5 == 0 ? 3.0f : d % 7 == 0 ? 0.01f : 0.5f) + (d % 3 == 0 ? -4.0f : 1.0f);
      k[i] = bf16_to_f32(f32_to_bf16(k[i]));
    }
    const std::vector<float> expected = testing::by_channel(k, head_dim);
    std::vector<std::byte> first;
    for (const InstructionSet* isa : sets_here()) {
      const ChannelPage written(*isa, k, head_dim);
      const PageReader page(written.layout, written.block);
      if (first.empty()) first = written.block;
      EXPECT_EQ(first, written.block) << isa->name;
      for (uint32_t d = 0; d < head_dim; ++d) {
        float peak = 0;
        float low[2] = {k[d], k[size_t{16} * head_dim + d]}, high[2] = {low[0], low[1]};
        for (uint32_t t = 0; t < kPageTokens; ++t) {
          low[t / 16] = std::min(low[t / 16], k[size_t{t} * head_dim + d]);
          high[t / 16] = std::max(high[t / 16], k[size_t{t} * head_dim + d]);
          const size_t group = d / 64 * 64;
          for (size_t i = group; i < std::min<size_t>(group + 64, head_dim); ++i) {
            peak = std::max(peak, std::fabs(k[size_t{t} * head_dim + i]));
          }
        }
        const float level = peak / 127;
        for (uint32_t t = 0; t < kPageTokens; ++t) {
          const float exact = k[size_t{t} * head_dim + d];
          const float step = (high[t / 16] - low[t / 16]) / 15;
          // A grid may be 4% wider than the range.
          ASSERT_NEAR(page.k(t, d), exact, 0.51f * (1.04f * step + level) + 0.07f * level)
              << head_dim << " d " << d << " token " << t;
          ASSERT_FLOAT_EQ(page.k(t, d), expected[size_t{t} * head_dim + d]);
        }
      }
    }
  }
}

TEST(KvLayout, k_by_channel_takes_any_number_without_harm) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float odd : {inf, -inf, nan, 0.0f, 1e-44f, std::numeric_limits<float>::max()}) {
    std::vector<float> k(size_t{kPageTokens} * 16, 1.0f);
    for (uint32_t t = 0; t < kPageTokens; ++t) {
      k[t * 16] = odd;                      // a whole channel
      k[t * 16 + 1] = t == 5 ? odd : 2.0f;  // one value of a channel
      k[t * 16 + 2] = t == 9 ? -odd : odd;
    }
    std::vector<std::byte> first;
    for (const InstructionSet* isa : sets_here()) {
      const ChannelPage written(*isa, k, 16);
      const PageReader page(written.layout, written.block);
      for (uint32_t t = 0; t < kPageTokens; ++t) {
        for (uint32_t d = 0; d < 16; ++d) EXPECT_TRUE(std::isfinite(page.k(t, d))) << odd;
      }
      const bool hides_others = std::fabs(odd) > 1e30f;
      EXPECT_NEAR(page.k(7, 3), hides_others ? 0.0f : 1.0f, 0.01f) << odd;
      if (first.empty()) first = written.block;
      EXPECT_EQ(first, written.block) << isa->name << " " << odd;
    }
  }
}

TEST(KvLayout, int8_takes_any_number_without_harm) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const KvBlockLayout layout{KvType::kInt8, 16};
  for (const float odd : {inf, -inf, nan, 1e-44f, std::numeric_limits<float>::max()}) {
    std::vector<float> row(16, odd);
    row[3] = 1.0f;
    std::vector<std::byte> first;
    for (const InstructionSet* isa : sets_here()) {
      std::vector<std::byte> block(layout.head_bytes());
      isa->attention.write_token(layout, block.data(), 7, row.data(), row.data());
      const PageReader page(layout, block);
      for (uint32_t d = 0; d < 16; ++d) {
        EXPECT_TRUE(std::isfinite(page.k(7, d)) && std::isfinite(page.v(7, d)));
      }
      const bool counts = std::fabs(odd) > 1;
      EXPECT_EQ(page.k(7, 3), counts ? 0.0f : 1.0f);
      if (first.empty()) first = block;
      EXPECT_EQ(first, block) << isa->name << " " << odd;
    }
  }
}

TEST(KvLayout, int4_takes_any_number_without_harm) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const KvBlockLayout layout{KvType::kInt4, 16};
  for (const float odd : {inf, -inf, nan, 0.0f, 1e-44f, std::numeric_limits<float>::max()}) {
    std::vector<float> row(16, odd);
    row[3] = -odd;
    std::vector<std::byte> first;
    for (const InstructionSet* isa : sets_here()) {
      std::vector<std::byte> block(layout.head_bytes());
      isa->attention.write_token(layout, block.data(), 7, row.data(), row.data());
      const PageReader page(layout, block);
      for (uint32_t d = 0; d < 16; ++d) {
        EXPECT_TRUE(std::isfinite(page.k(7, d)) && std::isfinite(page.v(7, d)));
      }
      if (first.empty()) first = block;
      EXPECT_EQ(first, block) << isa->name << " " << odd;
    }
  }
}

TEST(KvLayout, a_token_lands_where_the_layout_says_and_touches_no_other) {
  for (const InstructionSet* isa : sets_here()) {
    for (const KvType type : kAllKvTypes) {
      for (const uint32_t head_dim : {16, 24, 64, 80, 100}) {
        SCOPED_TRACE(isa->name);
        check_written(*isa, type, head_dim);
      }
    }
  }
}

}  // namespace
}  // namespace kvik::cpu
