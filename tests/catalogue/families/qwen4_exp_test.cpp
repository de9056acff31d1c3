#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "catalogue/config_keys.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"

namespace kvik {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// 12 layers, of which every fourth attends.
Keys qwen4_keys() {
  Keys keys("qwen4exp");
  keys.set("expert_count", uint64_t{8})
      .set("expert_used_count", uint64_t{2})
      .set("expert_feed_forward_length", uint64_t{64})
      .set("expert_shared_feed_forward_length", uint64_t{64});
  keys.set("ssm.conv_kernel", uint64_t{4})
      .set("ssm.state_size", uint64_t{16})
      .set("ssm.group_count", uint64_t{2})
      .set("ssm.time_step_rank", uint64_t{4})
      .set("ssm.inner_size", uint64_t{64});
  keys.set("hyper_connection.count", uint64_t{4}).set("hyper_connection.low_rank", uint64_t{32});
  keys.set("rope.dimension_count", uint64_t{8})
      .set("attention.indexer.head_count", uint64_t{3})
      .set("attention.indexer.key_length", uint64_t{24})
      .set("attention.indexer.top_k", uint64_t{64});
  std::vector<uint64_t> ratios;
  for (uint64_t i = 0; i < 12; ++i) ratios.push_back(i % 4 == 3 ? 4 : 0);
  keys.set("attention.compress_ratios", Metadata::Value(ratios));
  keys.set("ple.layers", Metadata::Value(std::vector<uint64_t>{1}))
      .set("ple.ngram_size", uint64_t{3})
      .set("ple.heads_per_ngram", uint64_t{1})
      .set("ple.conv_kernel", uint64_t{4})
      .set("ple.eos_token_id", uint64_t{7})
      .set("embedding_length_per_layer_input", uint64_t{16});
  return keys
      .set("ple.layer_multipliers", Metadata::Value(std::vector<uint64_t>{5, 23703573157769, 9}))
      .set("ple.head_vocab_sizes", Metadata::Value(std::vector<uint64_t>{101, 103}))
      .set("ple.head_offsets", Metadata::Value(std::vector<uint64_t>{0, 101}));
}

TEST(Qwen4Exp, every_fourth_layer_attends_to_blocks_and_one_has_ngrams_before_it) {
  const ModelConfig c = read(qwen4_keys());
  ASSERT_TRUE(c.hyper && c.ngrams);
  EXPECT_EQ(c.hyper->n, 4u);
  EXPECT_EQ(c.hyper->rank, 32u);
  for (uint32_t i = 0; i < 12; ++i) {
    if (i % 4 != 3) {
      EXPECT_TRUE(std::get<DeltaConfig>(c.layers[i].mixer).has_sigmoid_gate);
      continue;
    }
    const IndexerConfig& indexer = c.layers[i].attention().indexer;
    EXPECT_TRUE(indexer.is_own());
    EXPECT_EQ(indexer.key_tokens, 4u);
    EXPECT_EQ(indexer.n_listed(), 17u);  // with the block that is not complete
    EXPECT_EQ(indexer.n_budget(), 67u);
  }
  EXPECT_EQ(c.ngrams->layer, 1u);
  EXPECT_THAT(c.ngrams->multipliers, ElementsAre(5, 23703573157769, 9));
  EXPECT_THAT(c.ngrams->offsets, ElementsAre(0, 101));
  EXPECT_EQ(c.ngrams->n_rows, 256u);  // 204, padded
  EXPECT_EQ(c.ngrams->end_token, 7u);
  EXPECT_EQ(c.ngrams->n_taps(), 10u);
}

TEST(Qwen4Exp, tensors_of_streams_and_of_ngrams_replace_the_norms) {
  const TensorTable table(read(qwen4_keys()));
  EXPECT_EQ(table.find({TensorRole::kAttentionNorm, 0}), nullptr);
  EXPECT_EQ(table.find({TensorRole::kOutputNorm}), nullptr);
  const auto shape = [&](TensorRole role, uint32_t layer) {
    const TensorSpec* spec = table.find({role, layer});
    return spec ? spec->shape : std::vector<uint64_t>();
  };
  EXPECT_THAT(shape(TensorRole::kHyperUp, 0), ElementsAre(384, 32));
  EXPECT_THAT(shape(TensorRole::kFfnHyperInject, 11), ElementsAre(4, 384));
  EXPECT_THAT(shape(TensorRole::kPerLayerEmbedding, 0), ElementsAre(256, 16));
  EXPECT_THAT(shape(TensorRole::kNgramKey, 1), ElementsAre(384, 32));
  EXPECT_THAT(shape(TensorRole::kNgramKey, 2), ElementsAre());
  EXPECT_THAT(shape(TensorRole::kIndexHeadQuery, 3), ElementsAre(72, 96));
  EXPECT_THAT(shape(TensorRole::kIndexHeadQuery, 2), ElementsAre());
}

TEST(Qwen4Exp, a_file_may_have_no_ngrams_and_a_gate_by_silu) {
  const ModelConfig c =
      read(qwen4_keys().erase("ple.layers").set("ssm.output_gate", std::string("silu")));
  EXPECT_FALSE(c.ngrams);
  EXPECT_FALSE(std::get<DeltaConfig>(c.layers[0].mixer).has_sigmoid_gate);
}

TEST(Qwen4Exp, the_mtp_layer_reads_all_streams_and_attends_to_all_tokens) {
  Keys keys = qwen4_keys();
  std::vector<uint64_t> ratios(12, 0);
  ratios[3] = ratios[7] = 4;
  keys.set("nextn_predict_layers", uint64_t{1})
      .set("attention.compress_ratios", Metadata::Value(ratios));
  const ModelConfig c = read(keys);
  EXPECT_EQ(c.n_layers, 11u);
  ASSERT_TRUE(c.has_mtp_head);
  EXPECT_EQ(c.mtp_streams, StreamNorm::kOwn);
  EXPECT_EQ(c.mtp_hidden_dim(), 384u);
  EXPECT_FALSE(c.layers[11].attention().indexer.is_own());
  EXPECT_TRUE(c.layers[11].experts());
  const TensorTable table(c);
  const auto shape = [&](TensorRole role) { return table.find({role, 11})->shape; };
  EXPECT_THAT(shape(TensorRole::kMtpHiddenNorm), ElementsAre(384));
  EXPECT_THAT(shape(TensorRole::kMtpProjection), ElementsAre(96, 192));
  EXPECT_THAT(shape(TensorRole::kMtpHyperNorm), ElementsAre(384));
  EXPECT_THAT(shape(TensorRole::kMtpHyperDown), ElementsAre(32, 384));
  EXPECT_THAT(shape(TensorRole::kMtpHyperUp), ElementsAre(384, 32));
  EXPECT_THAT(shape(TensorRole::kMixerHyperInject), ElementsAre(4, 384));
  EXPECT_EQ(table.find({TensorRole::kMtpOutputNorm, 11}), nullptr);
  EXPECT_EQ(table.find({TensorRole::kMtpHyperProjection, 11}), nullptr);
  EXPECT_TRUE(table.may_be_unused("blk.11.indexer.q_proj.weight"));
  EXPECT_EQ(read(keys.set("mtp.norms_streams_together", true)).mtp_streams, StreamNorm::kTogether);
}

TEST(Qwen4Exp, impossible_values_are_refused) {
  const auto list = [](std::vector<uint64_t> values) { return Metadata::Value(std::move(values)); };
  const auto message = [](const Keys& keys) { return error_of(keys).message; };
  EXPECT_THAT(message(qwen4_keys().set("full_attention_interval", uint64_t{1})),
              HasSubstr("full_attention_interval' makes all 12 layers attend"));
  EXPECT_THAT(message(qwen4_keys().set("hyper_connection.count", uint64_t{1})),
              HasSubstr("hyper_connection.count' is 1, expected 2 or more"));
  EXPECT_THAT(message(qwen4_keys().set("attention.compress_ratios", uint64_t{3})),
              HasSubstr("compress_ratios' is 3 in layer 3, expected a divisor of 32"));
  EXPECT_THAT(message(qwen4_keys().set("attention.indexer.key_length", uint64_t{6})),
              HasSubstr("key_length' is 6, expected at least the 8 RoPE dimensions"));
  EXPECT_THAT(message(qwen4_keys().set("ple.layers", list({3}))),
              HasSubstr("ple.layers' has layer 3, counted from 0, expected a recurrent layer"));
  EXPECT_THAT(message(qwen4_keys().set("ple.layers", list({1, 2}))),
              HasSubstr("ple.layers' has 2 entries, expected 1"));
  EXPECT_THAT(message(qwen4_keys().set("ple.head_offsets", list({0, 100}))),
              HasSubstr("head_offsets' holds 100 after 101 rows, expected at least 101"));
  EXPECT_THAT(message(qwen4_keys().set("ple.head_vocab_sizes", list({101, 0}))),
              HasSubstr("head_vocab_sizes' holds 0, expected 1 to"));
  EXPECT_THAT(message(qwen4_keys().set("ple.conv_kernel", uint64_t{1})),
              HasSubstr("ple.conv_kernel' is 1, expected at least 2"));
  EXPECT_THAT(message(qwen4_keys().set("ple.eos_token_id", uint64_t{1} << 31)),
              HasSubstr("ple.eos_token_id' is 2147483648, expected 0 to"));
  EXPECT_THAT(message(qwen4_keys().set("ple.row_count", uint64_t{200})),
              HasSubstr("row_count' is 200, expected at least 204"));
  EXPECT_THAT(message(qwen4_keys().set("ssm.output_gate", std::string("tanh"))),
              HasSubstr("output_gate' is tanh, expected sigmoid or silu"));
}

}  // namespace
}  // namespace kvik
