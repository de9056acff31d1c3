#include "model/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "kv/kv_cache.h"
#include "support/memory_source.h"
#include "support/test_presets.h"
#include "support/tiny_model.h"

namespace kvik {
namespace {

using LogitRows = std::vector<std::vector<float>>;

// A list of tokens, and the pages of those that were computed.
struct Fed {
  explicit Fed(std::vector<TokenId> all) : tokens(std::move(all)) {}
  std::vector<TokenId> tokens;
  uint32_t n_fed = 0;
  PageTable table;
};

// A decoder with pages for some sequences.
class Rig {
 public:
  explicit Rig(const TinyModelOptions& options, KvType kv_type = KvType::kInt8)
      : Rig(load_tiny(options), kv_type) {}
  explicit Rig(TinyModel tiny, KvType kv_type = KvType::kInt8)
      : tiny_(std::move(tiny)),
        decoder_(*tiny_.model, *tiny_.backend, kv_type, kRowsMax),
        kv_(tiny_.backend->memory(), 64 * decoder_.groups().n_groups() * decoder_.page_bytes(),
            layout(), clock_) {}

  struct Part {
    Fed& fed;
    uint32_t n_new;
    OutputRows want;
  };

  // Computes the next n_new tokens of each part as one batch.
  LogitRows forward(const std::vector<Part>& parts) {
    const uint32_t n_groups = kv_.layout().n_groups();
    std::vector<std::span<std::byte* const>> tables;
    for (const Part& part : parts) {
      if (part.fed.table.is_empty()) part.fed.table = kv_.make_table();
      CHECK(kv_.grow(part.fed.table, part.fed.n_fed + part.n_new));
      for (uint32_t g = 0; g < n_groups; ++g) tables.push_back(part.fed.table.addresses(g));
    }
    std::vector<BatchSequence> batch;
    for (size_t i = 0; i < parts.size(); ++i) {
      Fed& fed = parts[i].fed;
      batch.push_back({.tokens = std::span(fed.tokens).subspan(fed.n_fed, parts[i].n_new),
                       .first_position = fed.n_fed,
                       .kv = {.groups = std::span(tables).subspan(i * n_groups, n_groups),
                              .open = fed.table.open_pages()},
                       .want = parts[i].want});
      fed.n_fed += parts[i].n_new;
    }
    decoder_.forward(batch);
    LogitRows rows;
    for (size_t i = 0; i < decoder_.n_logits(); ++i) {
      const std::span<const float> row = decoder_.logits(i);
      rows.emplace_back(row.begin(), row.end());
    }
    return rows;
  }

  // Returns all rows of logits of the tokens, computed in chunks.
  LogitRows all_rows(const std::vector<TokenId>& tokens, uint32_t chunk) {
    Fed fed(tokens);
    LogitRows rows;
    while (fed.n_fed < tokens.size()) {
      const auto n = std::min<uint32_t>(chunk, static_cast<uint32_t>(tokens.size()) - fed.n_fed);
      for (auto& row : forward({{fed, n, OutputRows::kAll}})) rows.push_back(std::move(row));
    }
    return rows;
  }

  const Decoder& decoder() const { return decoder_; }
  const Model& model() const { return *tiny_.model; }

  static constexpr uint32_t kRowsMax = 160;

 private:
  KvLayout layout() const {
    KvLayout layout(decoder_.page_bytes(), std::vector<GroupRule>(decoder_.groups().n_groups()));
    layout.open_page_bytes = decoder_.open_page_bytes();
    layout.n_open_slots = 16;
    return layout;
  }

  TinyModel tiny_;
  Decoder decoder_;
  SteadyClock clock_;
  KvCache kv_;
};

void expect_same_rows(const LogitRows& expected, const LogitRows& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same_bits(expected[i], got[i])) << "row " << i;
  }
}

// Long enough to fill three pages and to move a window of 32.
constexpr uint32_t kPromptTokens = 70;

class DecoderBits : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  TinyModelOptions options(uint32_t n_threads) const {
    return {.name = std::string(std::get<0>(GetParam())) + ":" + std::get<1>(GetParam()),
            .n_threads = n_threads};
  }
};

TEST_P(DecoderBits, of_a_row_do_not_depend_on_chunks) {
  const auto tokens = some_tokens(kPromptTokens);
  for (const KvType kv_type : kAllKvTypes) {
    Rig rig(options(1), kv_type);
    const LogitRows whole = rig.all_rows(tokens, kPromptTokens);
    ASSERT_EQ(whole.size(), kPromptTokens);
    for (const uint32_t chunk : {1u, 7u, 32u, 33u}) {
      SCOPED_TRACE(chunk);
      expect_same_rows(whole, rig.all_rows(tokens, chunk));
    }
  }
}

TEST_P(DecoderBits, of_a_row_do_not_depend_on_threads) {
  const auto tokens = some_tokens(kPromptTokens);
  Rig one(options(1));
  Rig two(options(2));
  const LogitRows whole = one.all_rows(tokens, kPromptTokens);
  for (const uint32_t chunk : {kPromptTokens, 33u, 7u}) {
    SCOPED_TRACE(chunk);
    expect_same_rows(whole, two.all_rows(tokens, chunk));
  }
}

TEST_P(DecoderBits, of_a_row_do_not_depend_on_the_batch) {
  const auto tokens = some_tokens(kPromptTokens);
  for (const uint32_t n_threads : {1u, 2u}) {
    Rig rig(options(n_threads));
    const LogitRows alone = rig.all_rows(tokens, kPromptTokens);
    Fed fed(tokens);
    Fed decoding(some_tokens(60, 2));
    Fed prefilling(some_tokens(120, 3));
    rig.forward({{decoding, 40, OutputRows::kNone}});
    LogitRows rows;
    // The sequence is first before the others, then between them, then after them.
    for (auto& row : rig.forward({{fed, 20, OutputRows::kAll},
                                  {decoding, 1, OutputRows::kLast},
                                  {prefilling, 33, OutputRows::kNone}})) {
      if (rows.size() < 20) rows.push_back(std::move(row));
    }
    const LogitRows second = rig.forward({{decoding, 1, OutputRows::kLast},
                                          {fed, 1, OutputRows::kAll},
                                          {prefilling, 5, OutputRows::kAll}});
    rows.push_back(second.at(1));
    const LogitRows third = rig.forward({{prefilling, 64, OutputRows::kNone},
                                         {decoding, 1, OutputRows::kLast},
                                         {fed, 49, OutputRows::kAll}});
    rows.insert(rows.end(), third.begin() + 1, third.end());
    expect_same_rows(alone, rows);
  }
}

TEST_P(DecoderBits, of_wanted_rows_do_not_depend_on_what_else_is_wanted) {
  const auto tokens = some_tokens(kPromptTokens);
  Rig rig(options(1));
  const LogitRows all = rig.all_rows(tokens, kPromptTokens);
  for (const uint32_t n : {1u, 32u, 33u, kPromptTokens}) {
    Fed last(tokens);
    expect_same_rows({all[n - 1]}, rig.forward({{last, n, OutputRows::kLast}}));
  }
  Fed nothing(tokens);
  EXPECT_TRUE(rig.forward({{nothing, 69, OutputRows::kNone}}).empty());
  expect_same_rows({all[69]}, rig.forward({{nothing, 1, OutputRows::kLast}}));
}

std::string name_of_case(const testing::TestParamInfo<DecoderBits::ParamType>& info) {
  std::string name = std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    all, DecoderBits,
    testing::Combine(testing::Values("test-llama", "test-mqa", "test-qwen2", "test-qwen3",
                                     "test-gemma2", "test-gemma3", "test-qwen3moe", "test-qwen2moe",
                                     "test-olmo2", "test-dense-first", "test-granitemoe",
                                     "test-gemma4", "test-gemma4-e", "test-gemma4-moe",
                                     "test-gemma3n", "test-deepseek32", "test-glmdsa",
                                     "test-minimaxm3", "test-minimaxm3-small",
                                     "test-mistrallarge4"),
                     testing::Values("f32", "bf16", "q8_0", "q4_0")),
    name_of_case);

// Far more threads than cores: most loops end before all workers have joined them.
TEST(Decoder, bits_of_a_row_are_the_same_with_64_threads) {
  const auto tokens = some_tokens(kPromptTokens);
  for (const char* const name : {"test-llama:q4_0", "test-gemma3:f32", "test-qwen3moe:q8_0"}) {
    SCOPED_TRACE(name);
    Rig one(TinyModelOptions{.name = name, .n_threads = 1});
    Rig many(TinyModelOptions{.name = name, .n_threads = 64});
    const LogitRows whole = one.all_rows(tokens, kPromptTokens);
    for (const uint32_t chunk : {kPromptTokens, 7u}) {
      SCOPED_TRACE(chunk);
      expect_same_rows(whole, many.all_rows(tokens, chunk));
    }
  }
}

TEST(Decoder, rows_come_in_the_order_of_the_batch_also_past_one_buffer_of_logits) {
  Rig rig(TinyModelOptions{});
  const auto a_tokens = some_tokens(50, 1);
  const auto b_tokens = some_tokens(40, 2);
  const auto c_tokens = some_tokens(45, 3);
  const LogitRows a_alone = rig.all_rows(a_tokens, 50);
  const LogitRows c_alone = rig.all_rows(c_tokens, 45);
  Fed b_fed(b_tokens);
  const LogitRows b_alone = rig.forward({{b_fed, 40, OutputRows::kLast}});

  Fed a(a_tokens), b(b_tokens), c(c_tokens), silent(some_tokens(9, 4));
  const LogitRows rows = rig.forward({{a, 50, OutputRows::kAll},
                                      {silent, 9, OutputRows::kNone},
                                      {b, 40, OutputRows::kLast},
                                      {c, 45, OutputRows::kAll}});
  LogitRows expected = a_alone;
  expected.push_back(b_alone[0]);
  expected.insert(expected.end(), c_alone.begin(), c_alone.end());
  expect_same_rows(expected, rows);
}

TEST(Decoder, a_token_changes_the_rows_from_its_place_on_and_none_before) {
  Rig rig(TinyModelOptions{});
  auto tokens = some_tokens(40);
  const LogitRows before = rig.all_rows(tokens, 40);
  tokens[20] = (tokens[20] + 1) % 256;
  const LogitRows after = rig.all_rows(tokens, 40);
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(static_cast<bool>(same_bits(before[i], after[i])), i < 20) << "row " << i;
  }
}

TEST(Decoder, tokens_outside_all_windows_have_no_effect) {
  const auto source = make_synthetic("synthetic:test-llama:f32");
  ASSERT_TRUE(source.has_value());
  MemorySource windowed(**source);
  windowed.set("llama.attention.sliding_window", uint64_t{32});
  Rig rig(load_tiny(windowed));

  auto tokens = some_tokens(120);
  const LogitRows before = rig.all_rows(tokens, 120);
  tokens[0] = (tokens[0] + 1) % 256;
  const LogitRows after = rig.all_rows(tokens, 120);
  // Two layers that look back 31 tokens each.
  for (size_t i = 0; i < 120; ++i) {
    EXPECT_EQ(static_cast<bool>(same_bits(before[i], after[i])), i > 62) << "row " << i;
  }
}

TEST(Decoder, logits_are_finite_and_differ_between_tokens) {
  for (const std::string& family : test_presets()) {
    Rig rig({.name = family + ":f32"});
    if (rig.model().config().has_state()) continue;  // tests/engine/state_test.cpp tests these
    for (const auto& row : rig.all_rows(some_tokens(40), 40)) {
      ASSERT_EQ(row.size(), rig.model().config().n_vocab);
      const auto [low, high] = std::ranges::minmax(row);
      EXPECT_TRUE(std::isfinite(low) && std::isfinite(high));
      EXPECT_GT(high - low, 0.1f);
    }
  }
}

TEST(Decoder, logits_with_a_soft_cap_stay_below_it) {
  Rig rig({.name = "test-gemma2:f32"});
  ASSERT_EQ(rig.model().config().logit_soft_cap, 30.0f);
  for (const auto& row : rig.all_rows(some_tokens(40), 40)) {
    for (const float logit : row) EXPECT_LE(std::abs(logit), 30.0f);
  }
}

TEST(Decoder, its_buffers_grow_with_its_rows_and_hold_one_row_of_each_kind_at_least) {
  const TinyModel tiny = load_tiny();
  const auto bytes = [&](uint32_t n_rows_max) {
    const Decoder decoder(*tiny.model, *tiny.backend, KvType::kF32, n_rows_max);
    EXPECT_EQ(decoder.n_rows_max(), n_rows_max);
    return Decoder::buffer_bytes(tiny.model->config(), KvType::kF32, n_rows_max, *tiny.backend);
  };
  const uint64_t per_row = (bytes(128) - bytes(64)) / 64;
  EXPECT_EQ(bytes(256) - bytes(128), 128 * per_row);
  // x, its norm and the output of the heads: 64 each; Q, K and V: 128; gate and up: 320.
  EXPECT_GE(per_row, (3 * 64 + 128 + 320) * sizeof(float));
}

// A prompt that needs the logits of every token has more rows than the decoder keeps.
TEST(Decoder, logits_are_the_same_asked_for_in_any_order) {
  const TinyModel tiny = load_tiny();
  Decoder decoder(*tiny.model, *tiny.backend, KvType::kF32, 160);
  KvCache kv(tiny.backend->memory(), 8 * decoder.page_bytes(), decoder.page_bytes());
  PageTable table;
  ASSERT_TRUE(kv.grow(table, 100));
  const auto tokens = some_tokens(100);
  const auto pages = table.addresses();
  const BatchSequence sequence{tokens, 0, {.groups = std::span(&pages, 1)}, OutputRows::kAll};
  decoder.forward(std::span(&sequence, 1));
  ASSERT_EQ(decoder.n_logits(), 100u);
  LogitRows rows;
  for (size_t i = 0; i < 100; ++i) {
    const std::span<const float> row = decoder.logits(i);
    rows.emplace_back(row.begin(), row.end());
  }
  for (size_t i = 100; i-- > 0;) EXPECT_TRUE(same_bits(rows[i], decoder.logits(i))) << i;
}

TEST(DecoderDeathTest, a_batch_past_its_rows_is_a_bug) {
  Rig rig(TinyModelOptions{});
  Fed fed(some_tokens(Rig::kRowsMax + 1));
  EXPECT_DEATH(rig.forward({{fed, Rig::kRowsMax + 1, OutputRows::kLast}}), "does not hold");
}

// Returns the root mean square of the change that pages of this type make in the logits.
double page_noise(MemorySource& source, KvType type) {
  const auto tokens = some_tokens(120);
  const LogitRows exact = Rig(load_tiny(source), KvType::kF32).all_rows(tokens, 120);
  const LogitRows rows = Rig(load_tiny(source), type).all_rows(tokens, 120);
  double squares = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < rows[i].size(); ++j) {
      squares += std::pow(double{rows[i][j]} - exact[i][j], 2);
    }
  }
  return std::sqrt(squares / static_cast<double>(rows.size() * rows[0].size()));
}

TEST(Decoder, k_in_int8_with_v_in_int4_is_nearer_than_both_in_int4) {
  const auto original = make_synthetic("synthetic:test-qwen3:f32");
  ASSERT_TRUE(original.has_value());
  MemorySource source(**original);
  const double mixed = page_noise(source, KvType::kInt8Int4);
  EXPECT_LT(page_noise(source, KvType::kInt8), 0.5 * mixed);
  EXPECT_LT(mixed, 0.9 * page_noise(source, KvType::kInt4));
}

// Qwen 2.5 has such biases: some dimensions of K are much larger than the others, by the same
// amount at all positions.
TEST(Decoder, a_large_bias_of_k_costs_compact_pages_little) {
  const auto original = make_synthetic("synthetic:test-qwen2:f32");
  ASSERT_TRUE(original.has_value());
  MemorySource plain(**original);
  MemorySource biased(**original);
  const auto config = load_tiny(plain).model->config();
  const uint32_t head_dim = config.attention().head_dim;
  for (uint32_t layer = 0; layer < config.n_layers; ++layer) {
    auto bias = biased.take("blk." + std::to_string(layer) + ".attn_k.bias");
    std::vector<float> values(bias.bytes.size() / sizeof(float));
    std::memcpy(values.data(), bias.bytes.data(), bias.bytes.size());
    // The bias is on the pair of each head that rotates most slowly.
    for (size_t d = head_dim; d <= values.size(); d += head_dim) {
      values[d - 1] += 60.0f;
      values[d - 1 - head_dim / 2] -= 80.0f;
    }
    biased.add_vector(bias.info.name, values);
  }
  for (const KvType type : {KvType::kInt8, KvType::kInt8Int4, KvType::kInt4}) {
    EXPECT_LT(page_noise(biased, type), 3 * page_noise(plain, type)) << name_of(type);
  }
}

}  // namespace
}  // namespace kvik
