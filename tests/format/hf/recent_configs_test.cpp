// Keys of config.json that only recent families have.
#include <gmock/gmock.h>

#include "format/hf/small_configs.h"

namespace kvik::hf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HfConfig, step_3_5_lists_values_of_layers_also_for_its_mtp_layers) {
  const auto step = [](std::string_view more) {
    std::string text =
        config("step3p5", fmt::format(R"("head_dim":16,"num_attention_groups":2,"sliding_window":8,
                   "moe_num_experts":8,"moe_top_k":2,"moe_intermediate_size":32,
                   "num_nextn_predict_layers":1,"rope_theta":[5e6,1e4,5e6],
                   "layer_types":["full_attention","sliding_attention","full_attention"]{}{})",
                                      more.empty() ? "" : ",", more));
    return text.replace(text.find("layers\":6"), 9, "layers\":2");
  };
  constexpr const char* kShares = R"("partial_rotary_factors":[0.5,1.0,0.5])";
  const FolderConfig c =
      read(step(fmt::format(R"({},"swiglu_limits":[null,7,null],"moe_layers_enum":"1,2",
          "attention_other_setting":{{"num_attention_heads":6,"num_attention_groups":2,"head_dim":16}})",
                            kShares)));
  EXPECT_EQ(c.n_left_out_layers, 1u);
  EXPECT_EQ(c.metadata.find("step35.nextn_predict_layers"), nullptr);
  EXPECT_EQ(real_of(c, "step35.rope.freq_base_swa"), 1e4);
  EXPECT_EQ(real_of(c, "step35.rope.dimension_count"), 16);
  EXPECT_EQ(real_of(c, "step35.leading_dense_block_count"), 1);
  const auto model = read_config(c.metadata);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers[1].attention().n_heads, 6u);
  EXPECT_EQ(model->layers[1].experts()->limit, 7.0f);
  EXPECT_EQ(model->layers[0].attention().window, 0u);
  EXPECT_EQ(model->layers[1].attention().window, 8u);
  for (const auto& [more, message] : {
           std::pair(R"("swiglu_limits":[0,0,0,0])", "expected one for each of 2 layers"),
           std::pair(R"("swiglu_limits":[7])", "expected one for each of 2 layers"),
           std::pair(R"("moe_layers_enum":"1;2")", "numbers of layers, separated by commas"),
           std::pair(R"("partial_rotary_factors":[0.5,1.0],"moe_layers_enum":"0")",
                     "dense for the first layers"),
           std::pair(R"("use_rope_layers":[true,false])", "expected all layers"),
           std::pair(R"("query_pre_attn_scalar":64)", "expected the 16 of head_dim"),
           std::pair(R"("attention_other_setting":{"num_attention_heads":6,"head_dim":32})",
                     "expected the 16 of all layers"),
           std::pair(R"("partial_rotary_factors":[1.0,1.0,1.0])", "expected 0.5"),

       }) {
    EXPECT_THAT(error_of(step(more)).message, HasSubstr(message)) << more;
  }
}

TEST(HfConfig, factors_of_falcon_h1_become_keys) {
  const auto falcon = [](std::string_view more) {
    return config("falcon_h1",
                  fmt::format(R"("mamba_d_ssm":96,"mamba_n_heads":6,"num_key_value_heads":4{}{})",
                              more.empty() ? "" : ",", more));
  };
  const FolderConfig c = read(falcon(
      R"("attention_in_multiplier":2,"key_multiplier":0.5,"attention_out_multiplier":0.25,
         "ssm_in_multiplier":2,"ssm_multipliers":[1,2,3,4,5],"ssm_out_multiplier":0.5,
         "mlp_multipliers":[3,6],"embedding_multiplier":7,"lm_head_multiplier":0.125)"));
  EXPECT_EQ(real_of(c, "falcon-h1.attention.scale"), 0.5);  // 2 · 2 · 0.5 / √16
  EXPECT_EQ(real_of(c, "falcon-h1.attention.value_scale"), 0.5);
  EXPECT_EQ(real_of(c, "falcon-h1.ssm.out_scale"), 0.5);
  EXPECT_EQ(real_of(c, "falcon-h1.feed_forward.gate_scale"), 3);
  EXPECT_EQ(real_of(c, "falcon-h1.logit_scale"), 0.125);
  EXPECT_EQ(real_of(c, "falcon-h1.ssm.inner_size"), 96);
  const auto model = read_config(c.metadata);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers[0].beside->in_scales[4], 10.0f);
  EXPECT_EQ(model->embedding_scale, 7.0f);
  EXPECT_EQ(real_of(read(config("falcon_h1", R"("mamba_d_ssm":null,"mamba_n_heads":8)")),
                    "falcon-h1.ssm.inner_size"),
            128);
  for (const auto& [more, message] : {
           std::pair(R"("ssm_multipliers":[1,2])", "expected 5 numbers > 0"),
           std::pair(R"("mlp_multipliers":[1,0])", "expected 2 numbers > 0"),
           std::pair(R"("key_multiplier":-1)", "expected a number > 0"),
           std::pair(R"("mamba_rms_norm":true,"mamba_norm_before_gate":true)", "expected false"),
           std::pair(R"("projectors_bias":true)", "expected false"),
       }) {
    EXPECT_THAT(error_of(falcon(more)).message, HasSubstr(message)) << more;
  }
  EXPECT_THAT(error_of(config("falcon_h1", R"("mamba_n_heads":7)")).message,
              HasSubstr("a divisor of the 1024 channels"));
}

TEST(HfConfig, gemma_3_with_attention_on_both_sides_is_an_encoder) {
  const FolderConfig c =
      read(config("gemma3_text", R"("use_bidirectional_attention":true,"sliding_window":512)"));
  EXPECT_EQ(c.architecture, "gemma-embedding");
  const auto model = read_config(c.metadata);
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_TRUE(model->encoder);
  EXPECT_EQ(model->encoder->dense_dim, 0u);
  EXPECT_EQ(model->layers[0].attention().window, 513u);  // 256 tokens on each side
  EXPECT_EQ(model->layers[5].attention().window, 0u);
  EXPECT_EQ(model->pooling, Pooling::kMean);
  EXPECT_EQ(read(config("gemma3_text", R"("use_bidirectional_attention":false)")).architecture,
            "gemma3");
  EXPECT_THAT(error_of(config("llama", R"("use_bidirectional_attention":true)")).message,
              HasSubstr("'llama (bidirectional)' is not supported"));
}

TEST(HfConfig, layers_of_jamba_have_periods_and_offsets) {
  const FolderConfig c = read(
      config("jamba", R"("num_key_value_heads":2,"attn_layer_period":4,"attn_layer_offset":1)"));
  const auto model = read_config(c.metadata);
  ASSERT_TRUE(model) << model.error().message;
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(model->layers[i].if_attention() != nullptr, i % 4 == 1) << i;
    EXPECT_EQ(model->layers[i].experts() != nullptr, i % 2 == 1) << i;
  }
  EXPECT_EQ(real_of(c, "jamba.ssm.time_step_rank"), 4);  // 64 / 16
  EXPECT_EQ(real_of(read(config("jamba", R"("num_experts":1)")), "jamba.expert_count"), 0);
  for (const auto& [more, message] : {
           std::pair(R"("attn_layer_offset":8)", "expected less than 8"),
           std::pair(R"("expert_layer_offset":0)", "expected 1"),
           std::pair(R"("mamba_conv_bias":false)", "expected true"),
       }) {
    EXPECT_THAT(error_of(config("jamba", more)).message, HasSubstr(message)) << more;
  }
}

TEST(HfConfig, layers_of_kimi_linear_are_listed_in_two_ways) {
  constexpr const char* kLatent = R"("kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,
      "v_head_dim":16,"num_experts":8,"num_experts_per_token":2,"moe_intermediate_size":32,
      "linear_num_heads":4,"linear_head_dim":16)";
  const auto kimi = [&](std::string_view more) {
    return config("kimi_linear", fmt::format("{},{}", kLatent, more));
  };
  const FolderConfig by_types = read(kimi(
      R"("layer_types":["linear_attention","linear_attention","full_attention","linear_attention",
         "linear_attention","linear_attention"])"));
  const FolderConfig by_numbers = read(kimi(
      R"("linear_attn_config":{"num_heads":4,"head_dim":16,"short_conv_kernel_size":4,
         "full_attn_layers":[3],"kda_layers":[1,2,4,5,6]})"));
  for (const FolderConfig* c : {&by_types, &by_numbers}) {
    const auto model = read_config(c->metadata);
    ASSERT_TRUE(model) << model.error().message;
    for (uint32_t i = 0; i < 6; ++i) {
      EXPECT_EQ(model->layers[i].if_attention() != nullptr, i == 2) << i;
    }
    EXPECT_EQ(real_of(*c, "kimi-linear.kda.head_dim"), 16);
    EXPECT_EQ(real_of(*c, "kimi-linear.expert_gating_func"), 2);
  }
  EXPECT_THAT(error_of(kimi(R"("linear_attn_config":{"num_heads":4,"head_dim":16,
                                "short_conv_kernel_size":4,"full_attn_layers":[7]})"))
                  .message,
              HasSubstr("expected 1 to 6"));
  EXPECT_THAT(error_of(kimi(R"("linear_attn_config":{"num_heads":2,"head_dim":16,
                                "short_conv_kernel_size":4,"full_attn_layers":[3]})"))
                  .message,
              HasSubstr("expected the 4 of attention"));
  EXPECT_THAT(error_of(kimi(R"("layer_types":["linear_attention"])")).message,
              HasSubstr("for each of 6 layers"));
}

TEST(HfConfig, ling_3_states_a_bound_of_decays_and_limits_of_experts) {
  const auto ling = [](std::string_view more) {
    return config("bailing_hybrid",
                  fmt::format(R"("kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,
      "v_head_dim":16,"head_dim":16,"num_experts":8,"num_experts_per_tok":2,"n_group":4,
      "topk_group":2,"moe_intermediate_size":32,{})",
                              more));
  };
  const FolderConfig c = read(ling(R"("layer_group_size":3,"num_nextn_predict_layers":1,
      "partial_rotary_factor":0.5,"expert_swiglu_limit_list":[0,null,4,0,0,0],
      "share_expert_swiglu_limit_list":[0,0,0,0,5,7,9,9])"));
  const auto model = read_config(c.metadata);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->n_layers, 6u);
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(model->layers[i].if_attention() != nullptr, i == 2 || i == 5) << i;
  }
  EXPECT_EQ(std::get<KdaConfig>(model->layers[0].mixer).bound, -5.0f);
  EXPECT_EQ(model->ropes.front().n_dims, 8u);
  EXPECT_EQ(model->layers[2].experts()->limit, 4.0f);
  EXPECT_EQ(model->layers[3].experts()->limit, 0.0f);
  EXPECT_EQ(model->layers[5].experts()->shared_limit, 7.0f);
  EXPECT_EQ(model->layers[6].experts()->shared_limit, 9.0f);
  for (const auto& [more, message] : {
           std::pair(R"("architectures":["BailingMoeV2_5ForCausalLM"])", "BailingMoeV3ForCausalLM"),
           std::pair(R"("layer_group_size":4)", "expected a divisor of the 6 layers"),
           std::pair(R"("kda_lower_bound":0)", "expected a number < 0"),
           std::pair(R"("no_kda_lora":false)", "expected true"),
           std::pair(R"("expert_swiglu_limit_list":[-1,0,0,0,0,0])", "a number of at least 0"),
           std::pair(R"("expert_swiglu_limit_list":[1e39,0,0,0,0,0])",
                     "'expert_swiglu_limit_list' is [1E39,0,0,0,0,0], expected a number"),
           std::pair(R"("expert_swiglu_limit_list":[1,2])", "a number for each of 6 layers"),
           std::pair(R"("kda_safe_gate":2)", "'kda_safe_gate' is 2, expected true"),
       }) {
    EXPECT_THAT(error_of(ling(more)).message, HasSubstr(message)) << more;
  }
}

TEST(HfConfig, layers_with_an_indexer_are_a_list_a_pattern_or_a_distance) {
  const auto glm = [](std::string_view more) {
    return config("glm_moe_dsa",
                  fmt::format(R"("kv_lora_rank":32,"q_lora_rank":24,"qk_nope_head_dim":16,
                                 "qk_rope_head_dim":8,"v_head_dim":16,"n_routed_experts":8,
                                 "num_experts_per_tok":2,"moe_intermediate_size":32{}{})",
                              more.empty() ? "" : ",", more));
  };
  const auto own_of = [&](std::string_view more) {
    const auto model = read_config(read(glm(more)).metadata);
    EXPECT_TRUE(model) << model.error().message;
    std::string own;
    for (const LayerConfig& layer : model->layers) {
      own += layer.attention().indexer.is_own() ? 'F' : 'S';
    }
    return own;
  };
  EXPECT_EQ(own_of(""), "FFFFFF");
  EXPECT_EQ(own_of(R"("indexer_types":["full","shared","full","full","shared","shared"])"),
            "FSFFSS");
  EXPECT_EQ(own_of(R"("index_topk_pattern":"FFSSFS")"), "FFSSFS");
  EXPECT_EQ(own_of(R"("index_topk_freq":4)"), "FFSSSF");
  EXPECT_EQ(own_of(R"("index_topk_freq":3,"index_skip_topk_offset":1)"), "FSSFSS");
  const auto model = read_config(read(glm(R"("index_topk":16,"index_n_heads":4)")).metadata);
  EXPECT_EQ(model->attention().indexer.n_top, 16u);
  EXPECT_EQ(model->attention().indexer.n_heads, 4u);
  EXPECT_EQ(model->attention().indexer.head_dim, 128u);
  for (const auto& [more, message] :
       {std::pair(R"("indexer_types":["full"])", "full or shared for each of 6 layers"),
        std::pair(R"("index_topk_pattern":"FFSSFX")", "full or shared for each of 6 layers")}) {
    EXPECT_THAT(error_of(glm(more)).message, HasSubstr(message)) << more;
  }
}

TEST(HfConfig, the_mtp_layer_of_k_exaone_has_the_type_that_is_listed_or_that_of_the_first_layer) {
  const auto is_windowed = [](std::string_view first, std::string_view more) {
    const FolderConfig c = read(
        config("exaone_moe",
               fmt::format(R"("num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":32,
                       "sliding_window":32,"layer_types":["{}","full_attention",
                       "sliding_attention","full_attention","sliding_attention","full_attention"]{})",
                           first, more)));
    return c.metadata.get_bool("exaone-moe.mtp.is_windowed").value();
  };
  EXPECT_EQ(is_windowed("sliding_attention", ""), true);
  EXPECT_EQ(is_windowed("full_attention", ""), false);
  EXPECT_EQ(is_windowed("full_attention", R"(,"mtp_layer_types":["sliding_attention"])"), true);
  EXPECT_EQ(is_windowed("sliding_attention", R"(,"mtp_layer_types":["full_attention"])"), false);
}

TEST(HfConfig, the_numbers_of_ngrams_follow_from_a_seed_and_a_least_number_of_rows) {
  const auto qwen4 = [](std::string_view more) {
    return config("qwen4_exp_text",
                  fmt::format(R"("num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":32,
                                 "shared_expert_intermediate_size":32,"indexer_n_heads":2,
                                 "indexer_head_dim":256,"indexer_budget":64,
                                 "indexer_compress_ratio":4,"full_attention_interval":3,
                                 "ngram_vocab_size_base":50,"heads_per_ngram":2{}{})",
                              more.empty() ? "" : ",", more));
  };
  const auto model =
      read_config(read(qwen4(R"("ple_layer_ids":[2],"eos_token_id":[5,6])")).metadata);
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_TRUE(model->ngrams);
  EXPECT_EQ(model->ngrams->layer, 1u);
  EXPECT_EQ(model->ngrams->end_token, 5u);
  EXPECT_THAT(model->ngrams->rows, testing::ElementsAre(53, 59, 61, 67));
  EXPECT_THAT(model->ngrams->offsets, testing::ElementsAre(0, 53, 112, 173));
  EXPECT_EQ(model->ngrams->n_rows, 256u);
  EXPECT_EQ(model->layers[2].attention().indexer.key_tokens, 4u);
  EXPECT_FALSE(std::get<DeltaConfig>(model->layers[0].mixer).has_sigmoid_gate);
  EXPECT_FALSE(read_config(read(qwen4("")).metadata)->ngrams);
  for (const auto& [more, message] :
       {std::pair(R"("ple_layer_ids":[1,2],"eos_token_id":1)",
                  "expected one layer, counted from 1"),
        std::pair(R"("ple_layer_ids":[2])", "eos_token_id"),
        std::pair(R"("ple_layer_ids":[2],"eos_token_id":1,"ple_embed_dim":30)",
                  "'ple_embed_dim' is 30, expected a multiple of the 4 heads"),
        std::pair(R"("ple_layer_ids":[2],"eos_token_id":1,"ngram_size":1)",
                  "'ngram_size' is 1, expected 2 to 8"),
        std::pair(R"("ple_layer_ids":[2],"eos_token_id":1,"ngram_size":8,"heads_per_ngram":200)",
                  "'heads_per_ngram' is 200, expected at most 256 heads for 7 sizes"),
        std::pair(R"("ple_layer_ids":[2],"eos_token_id":1,"ngram_vocab_size_base":2000000000)",
                  "'ngram_vocab_size_base' is 2000000000, expected at most")}) {
    EXPECT_THAT(error_of(qwen4(more)).message, HasSubstr(message)) << more;
  }
}

TEST(HfConfig, glm_5_3_states_kda_in_a_part_or_under_keys_of_its_own) {
  const auto glm = [](std::string_view more) {
    return config("glm5_next_text",
                  fmt::format(R"("kv_lora_rank":32,"q_lora_rank":24,"qk_nope_head_dim":16,
      "v_head_dim":16,"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32,
      "index_kpool":4,{})",
                              more));
  };
  const auto of = [&](std::string_view more) {
    auto model = read_config(read(glm(more)).metadata);
    EXPECT_TRUE(model) << model.error().message;
    return model ? std::move(*model) : ModelConfig();
  };
  const auto kda = [](const ModelConfig& model) {
    return std::get<KdaConfig>(model.layers[0].mixer);
  };
  constexpr const char* kOwn = R"("linear_num_heads":4,"linear_head_dim":16{})";
  const ModelConfig plain = of(fmt::format(kOwn, R"(,"num_nextn_predict_layers":1)"));
  EXPECT_EQ(plain.n_layers, 6u);
  for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(!plain.layers[i].has_state(), i == 3) << i;
  EXPECT_EQ(kda(plain).bound, -5.0f);
  EXPECT_EQ(plain.hyper->n, 4u);
  EXPECT_EQ(plain.hyper->sinkhorn->n_iterations, 20u);
  EXPECT_EQ(plain.layers[3].attention().indexer.n_top, 2048u);
  EXPECT_EQ(plain.layers[3].experts()->limit, 10.0f);
  EXPECT_TRUE(plain.layers[3].experts()->limits_gate);
  EXPECT_EQ(kda(of(fmt::format(kOwn, R"(,"linear_lower_bound":null)"))).bound, 0.0f);
  constexpr const char* kPart = R"("linear_attn_config":{{"num_heads":4,"head_dim":16,
      "short_conv_kernel_size":3,"gate_lower_bound":{}}},"mhc":true,"layer_types":[
      "linear_attention","deepseek_sparse_attention","linear_attention","linear_attention",
      "linear_attention","deepseek_sparse_attention"])";
  const ModelConfig parted = of(fmt::format(kPart, "-3"));
  EXPECT_EQ(kda(parted).bound, -3.0f);
  EXPECT_EQ(kda(parted).kernel_size, 3u);
  EXPECT_TRUE(parted.layers[1].attention().indexer.is_own());
  EXPECT_EQ(kda(of(fmt::format(kPart, "null"))).bound, -5.0f);
  EXPECT_EQ(kda(of(fmt::format(kPart, R"(null,"safe_gate":false)"))).bound, 0.0f);
  for (const auto& [more, message] : {
           std::pair(R"(,"qk_rope_head_dim":8)", "'qk_rope_head_dim' is 8, expected 0"),
           std::pair(R"(,"mhc":false)", "'mhc' is false, expected true"),
           std::pair(R"(,"swiglu_limit":-1)", "'swiglu_limit' is -1, expected a number from 0 to"),
           std::pair(R"(,"linear_lower_bound":1)",
                     "'linear_lower_bound' is 1, expected a number <"),
           std::pair(R"(,"layer_types":["linear_attention"])", "for each of 6 layers"),
           std::pair(R"(,"layer_types":["full_attention","full_attention","full_attention",
                         "full_attention","full_attention","full_attention"])",
                     "expected layers of both kinds"),
           std::pair(R"(,"indexer_types":["full"])", "full or shared for each of 6 layers"),
       }) {
    EXPECT_THAT(error_of(glm(fmt::format(kOwn, more))).message, HasSubstr(message)) << more;
  }
  EXPECT_THAT(error_of(glm(R"("linear_num_heads":2,"linear_head_dim":16)")).message,
              HasSubstr("'linear_num_heads' is 2, expected the 4 of attention"));
}

TEST(HfConfig, indexers_of_minimax_m3_are_flat_or_in_a_part_of_their_own) {
  const auto m3 = [](std::string_view more) {
    return config("minimax_m3_vl_text",
                  fmt::format(R"("head_dim":16,"num_key_value_heads":2,"num_local_experts":8,
                                 "num_experts_per_tok":2,
                                 "dense_intermediate_size":96,"rotary_dim":8{}{})",
                              more.empty() ? "" : ",", more));
  };
  const auto layers_of = [](const FolderConfig& c) {
    const auto model = read_config(c.metadata);
    EXPECT_TRUE(model) << model.error().message;
    std::string layers;
    for (const LayerConfig& layer : model->layers) {
      layers += layer.attention().indexer.is_own() ? 'S' : 'F';
    }
    return layers;
  };
  EXPECT_EQ(layers_of(read(m3(""))), "FFFFFF");
  constexpr const char* kFlat =
      R"("index_n_heads":2,"index_head_dim":16,"index_block_size":64,"index_topk_blocks":3,
         "layer_types":["full_attention","minimax_m3_sparse","minimax_m3_sparse","full_attention",
                        "minimax_m3_sparse","minimax_m3_sparse"])";
  EXPECT_EQ(layers_of(read(m3(kFlat))), "FSSFSS");
  constexpr const char* kPart =
      R"("hidden_act":"swigluoai","swiglu_limit":7.0,"sparse_attention_config":{{
         "sparse_num_index_heads":2,"sparse_index_dim":16,"sparse_block_size":64,
         "sparse_topk_blocks":3,"sparse_local_block":2,
         "sparse_attention_freq":[0,0,0,1,1,1]{}}})";
  const FolderConfig parted = read(m3(fmt::format(kPart, "")));
  EXPECT_EQ(layers_of(parted), "FFFSSS");
  const auto model = read_config(parted.metadata);
  const IndexerConfig& indexer = model->layers[5].attention().indexer;
  EXPECT_EQ(indexer.n_budget(), 192u);
  EXPECT_EQ(indexer.n_local, 2u);
  EXPECT_EQ(model->ffn_dim, 96u);
  EXPECT_EQ(model->widest_experts().ffn_dim, 160u);
  for (const auto& [more, message] : {std::pair(R"("sparse_init_block":1)", "expected 0"),
                                      std::pair(R"("use_sparse_attention":false)", "expected true"),
                                      std::pair(R"("sparse_score_type":"mean")", "expected max")}) {
    EXPECT_THAT(error_of(m3(fmt::format(kPart, std::string(",") + more))).message,
                HasSubstr(message));
  }
  EXPECT_THAT(error_of(m3(R"("layer_types":["full_attention","sliding_attention"])")).message,
              HasSubstr("for each of 6 layers"));
  EXPECT_THAT(error_of(m3(R"("swiglu_alpha":1.5)")).message, HasSubstr("expected 1.702"));
  EXPECT_THAT(error_of(m3(R"("moe_layer_freq":[0,1])")).message,
              HasSubstr("'moe_layer_freq' is [0,1], expected an entry for each of 6 layers"));
  EXPECT_THAT(error_of(m3(R"("moe_layer_freq":[0,1,0,1,1,1])")).message,
              HasSubstr("expected 0 for the first layers"));
}

std::string large4(std::string_view more) {
  return config("mistral_large4_text",
                fmt::format(R"("kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,
                               "v_head_dim":16,"n_routed_experts":8,"num_experts_per_tok":2,
                               "moe_intermediate_size":32{}{})",
                            more.empty() ? "" : ",", more));
}

TEST(HfConfig, layers_of_mistral_large_4_without_rope_are_a_list_or_an_interval) {
  const auto rotated_of = [](std::string_view more) {
    const auto model = read_config(read(large4(more)).metadata);
    EXPECT_TRUE(model) << model.error().message;
    std::string rotated;
    for (const LayerConfig& layer : model->layers) {
      rotated += layer.attention().has_rope ? 'R' : '-';
    }
    return rotated;
  };
  EXPECT_EQ(rotated_of(""), "RRR-RR");
  EXPECT_EQ(rotated_of(R"("no_rope_layer_interval":2)"), "R-R-R-");
  EXPECT_EQ(rotated_of(R"("no_rope_layers":[0,1,1,0,1,1,0,0])"), "-RR-RR");
  const auto model = read_config(read(large4("")).metadata);
  EXPECT_EQ(model->logit_soft_cap, 30.0f);
  EXPECT_EQ(model->ropes.front().yarn.n_ctx_original, 512u);
  EXPECT_NEAR(model->ropes.front().magnitude, 1, 1e-6);
  EXPECT_FALSE(model->layers[0].experts());
  EXPECT_EQ(model->layers[1].experts()->shared_ffn_dim, 32u);
  for (const auto& [more, message] :
       {std::pair(R"("no_rope_layers":[1,1])", "0 or 1 for each of 6 layers"),
        std::pair(R"("no_rope_layers":[1,1,1,2,1,1])", "0 or 1 for each of 6 layers"),
        std::pair(R"("kv_source_layers":[0,0])", "an earlier one for each of 6 layers"),
        std::pair(R"("kv_source_layers":[0,2,2,3,4,5])", "an earlier one for each of 6 layers"),
        std::pair(R"("n_group":2)", "'n_group' is 2, expected 1"),
        std::pair(R"("attention_bias":true)", "'attention_bias' is true, expected false"),
        std::pair(R"("rope_parameters":{"rope_type":"llama3","factor":8,"low_freq_factor":1,
                     "high_freq_factor":4,"original_max_position_embeddings":512})",
                  "expected default, linear or yarn")}) {
    EXPECT_THAT(error_of(large4(more)).message, HasSubstr(message)) << more;
  }
}

}  // namespace
}  // namespace kvik::hf
