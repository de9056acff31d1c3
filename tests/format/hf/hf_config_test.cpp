// config.json of a folder becomes the keys of a GGUF file, including defaults that config.json
// leaves out.
#include "format/hf/config.h"

#include <gmock/gmock.h>

#include <random>

#include "format/hf/small_configs.h"

namespace kvik::hf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HfConfig, geometry_becomes_the_keys_of_a_gguf_file) {
  const FolderConfig c = read(config("llama", R"("num_key_value_heads":2,"rms_norm_eps":1e-5)"));
  EXPECT_EQ(real_of(c, "llama.block_count"), 6);
  EXPECT_EQ(real_of(c, "llama.embedding_length"), 64);
  EXPECT_EQ(real_of(c, "llama.feed_forward_length"), 160);
  EXPECT_EQ(real_of(c, "llama.attention.head_count"), 4);
  EXPECT_EQ(real_of(c, "llama.attention.head_count_kv"), 2);
  EXPECT_EQ(real_of(c, "llama.attention.key_length"), 16);
  EXPECT_EQ(real_of(c, "llama.context_length"), 2048);
  EXPECT_EQ(real_of(c, "llama.vocab_size"), 260);
  EXPECT_EQ(real_of(c, "llama.rope.freq_base"), 10000);
  EXPECT_EQ(real_of(c, "llama.rope.dimension_count"), 16);
  EXPECT_EQ(real_of(c, "llama.attention.layer_norm_rms_epsilon"), double{1e-5f});
  EXPECT_EQ(*c.metadata.get_string("general.architecture"), "llama");
  EXPECT_EQ(c.ties_embedding, false);
}

TEST(HfConfig, quantization_is_read_as_gptq_and_awq_write_it) {
  EXPECT_EQ(read(config("llama")).quantization.has_value(), false);
  const auto of = [](std::string_view quantization) {
    return *read(config("llama", fmt::format(R"("quantization_config":{})", quantization)))
                .quantization;
  };
  const Quantization gptq = of(R"({"quant_method":"gptq","bits":8,"group_size":64,"desc_act":true,
    "damp_percent":0.01,"sym":true,"true_sequential":true,"static_groups":false})");
  EXPECT_EQ(gptq.packing, Quantization::Packing::kAlongInputs);
  EXPECT_EQ(gptq.bits, 8u);
  EXPECT_EQ(gptq.group_size, 64u);
  EXPECT_EQ(gptq.added_to_zeros, 1u);
  EXPECT_TRUE(gptq.is_ordered);
  const Quantization v2 = of(R"({"quant_method":"gptq","bits":4,"group_size":-1,"desc_act":false,
    "checkpoint_format":"gptq_v2"})");
  EXPECT_EQ(v2.group_size, std::nullopt);
  EXPECT_EQ(v2.added_to_zeros, 0u);
  EXPECT_FALSE(v2.is_ordered);
  const Quantization awq = of(R"({"quant_method":"awq","bits":4,"group_size":128,"version":"GEMM",
    "zero_point":true,"modules_to_not_convert":null})");
  EXPECT_EQ(awq.packing, Quantization::Packing::kAlongOutputs);
  EXPECT_EQ(awq.bits, 4u);
  EXPECT_EQ(awq.group_size, 128u);
  EXPECT_EQ(awq.added_to_zeros, 0u);
}

TEST(HfConfig, compressed_tensors_are_floats_of_8_bits_or_integers_in_groups) {
  const auto of = [](std::string_view format, std::string_view weights) {
    return read(
        config("llama", fmt::format(R"("quantization_config":{{"quant_method":"compressed-tensors",
    "format":"{}","ignore":["lm_head","re:.*self_attn.*"],"kv_cache_scheme":null,"config_groups":{{
    "group_0":{{"targets":["Linear"],"input_activations":{{"dynamic":true}},"weights":{{{}}}}},
    "group_1":{{"targets":["Attention"],"weights":null}}}}}})",
                                    format, weights)));
  };
  const FolderConfig rows =
      of("float-quantized", R"("num_bits":8,"type":"float","strategy":"channel","symmetric":true)");
  EXPECT_EQ(rows.block_floats, BlockFloats{.block_rows = 1});
  EXPECT_FALSE(rows.quantization);
  EXPECT_EQ(
      of("naive-quantized", R"("num_bits":8,"type":"float","strategy":"tensor")").block_floats,
      BlockFloats());
  const FolderConfig blocks = of("float-quantized", R"("num_bits":8,"type":"float",
    "strategy":"block","block_structure":[128,64])");
  EXPECT_EQ(blocks.block_floats, (BlockFloats{.block_rows = 128, .block_cols = 64}));

  const FolderConfig kimi = of("pack-quantized", R"("num_bits":4,"type":"int","strategy":"group",
    "group_size":32,"symmetric":true,"actorder":null)");
  EXPECT_FALSE(kimi.block_floats);
  EXPECT_EQ(kimi.quantization->packing, Quantization::Packing::kRowByRow);
  EXPECT_EQ(kimi.quantization->bits, 4u);
  EXPECT_EQ(kimi.quantization->group_size, 32u);
  EXPECT_FALSE(kimi.quantization->has_zeros);
  EXPECT_FALSE(kimi.quantization->is_ordered);
  const FolderConfig bytes =
      of("int-quantized", R"("num_bits":8,"type":"int","strategy":"channel","symmetric":true)");
  EXPECT_TRUE(bytes.quantization->is_unpacked);
  EXPECT_EQ(bytes.quantization->group_size, std::nullopt);
  const FolderConfig whole = of("pack-quantized", R"("num_bits":8,"type":"int","symmetric":false,
    "strategy":"channel","group_size":null,"actorder":"group")");
  EXPECT_EQ(whole.quantization->group_size, std::nullopt);
  EXPECT_TRUE(whole.quantization->has_zeros);
  EXPECT_TRUE(whole.quantization->is_ordered);
}

TEST(HfConfig, absent_keys_have_the_defaults_of_transformers) {
  const FolderConfig gemma =
      read(R"({"model_type":"gemma3","text_config":{"model_type":"gemma3_text",
    "hidden_size":2560,"intermediate_size":10240,"num_hidden_layers":34,"sliding_window":1024,
    "rope_scaling":{"factor":8.0,"rope_type":"linear"}},"eos_token_id":[1,106]})");
  EXPECT_EQ(real_of(gemma, "gemma3.attention.head_count"), 8);
  EXPECT_EQ(real_of(gemma, "gemma3.attention.head_count_kv"), 4);
  EXPECT_EQ(real_of(gemma, "gemma3.attention.key_length"), 256);
  EXPECT_EQ(real_of(gemma, "gemma3.rope.freq_base"), 1e6);
  EXPECT_EQ(real_of(gemma, "gemma3.rope.scaling.factor"), 8);
  EXPECT_EQ(real_of(gemma, "gemma3.attention.sliding_window"), 1024);
  EXPECT_EQ(real_of(gemma, "gemma3.vocab_size"), 262208);
  EXPECT_EQ(gemma.ties_embedding, true);
  EXPECT_THAT(gemma.end_ids, ElementsAre(1, 106));
  EXPECT_EQ(real_of(read(config("gemma2")), "gemma2.attn_logit_softcapping"), 50);
  EXPECT_EQ(real_of(read(config("mixtral", R"("num_local_experts":8,"num_experts_per_tok":2)")),
                    "llama.rope.freq_base"),
            1e6);
}

TEST(HfConfig, null_is_not_the_default) {
  EXPECT_EQ(real_of(read(config("mistral")), "llama.attention.sliding_window"), 4096);
  EXPECT_EQ(real_of(read(config("mistral", R"("sliding_window":null)")),
                    "llama.attention.sliding_window"),
            -1);
}

TEST(HfConfig, windows_need_use_sliding_window) {
  const char* window = R"("sliding_window":32,"use_sliding_window":{},"max_window_layers":{})";
  const auto window_of = [&](const char* uses, int from) {
    return real_of(read(config("qwen2", fmt::format(fmt::runtime(window), uses, from))),
                   "qwen2.attention.sliding_window");
  };
  EXPECT_EQ(window_of("false", 0), -1);
  EXPECT_EQ(window_of("true", 6), -1);
  EXPECT_EQ(window_of("true", 0), 32);
  const Error some = error_of(config("qwen2", fmt::format(fmt::runtime(window), "true", 3)));
  EXPECT_EQ(some.code, ErrorCode::kUnsupported);
  EXPECT_THAT(some.message, HasSubstr("'max_window_layers' is 3"));
}

TEST(HfConfig, layer_types_must_be_those_of_the_family) {
  const char* types = R"("layer_types":["{0}","{0}","{0}","{0}","{0}","{1}"])";
  read(config("gemma3_text",
              fmt::format(fmt::runtime(types), "sliding_attention", "full_attention")));
  const Error other = error_of(
      config("gemma3_text", fmt::format(fmt::runtime(types), "full_attention", "full_attention")));
  EXPECT_EQ(other.code, ErrorCode::kUnsupported);
  EXPECT_THAT(other.message, HasSubstr("layer 0"));
  EXPECT_THAT(error_of(config("gemma2", R"("layer_types":["full_attention"])")).message,
              HasSubstr("6 layers"));
}

// Written by transformers from 5.20 on.
TEST(HfConfig, layers_with_a_window_are_those_that_layer_types_lists) {
  const auto listed = [](std::string_view types) {
    return config("cohere2", fmt::format(R"("sliding_window":32,"layer_types":[{}])", types));
  };
  constexpr std::string_view kS = R"("sliding_attention")", kF = R"("full_attention")";
  const FolderConfig c = read(listed(fmt::format("{},{},{},{},{},{}", kS, kF, kS, kS, kS, kF)));
  const auto* pattern =
      std::get_if<std::vector<bool>>(c.metadata.find("cohere2.attention.sliding_window_pattern"));
  ASSERT_NE(pattern, nullptr);
  EXPECT_EQ(*pattern, (std::vector<bool>{true, false, true, true, true, false}));
  EXPECT_EQ(real_of(c, "cohere2.attention.sliding_window"), 32);
  EXPECT_EQ(real_of(read(listed(fmt::format("{0},{0},{0},{0},{0},{0}", kF))),
                    "cohere2.attention.sliding_window"),
            -1);
  EXPECT_THAT(error_of(listed(kS)).message, HasSubstr("expected one for each of 6 layers"));
  EXPECT_THAT(error_of(listed(R"("chunked_attention")")).message,
              HasSubstr("expected sliding_attention or full_attention"));
}

TEST(HfConfig, layers_without_rope_must_be_those_of_the_family) {
  const auto of = [](std::string_view layers) {
    return config("smollm3", fmt::format(R"("no_rope_layers":[{}])", layers));
  };
  EXPECT_TRUE(read_folder_config(of("1,1,1,0,1,1")));
  EXPECT_THAT(error_of(of("1,1,0,1,1,0")).message, HasSubstr("'no_rope_layers' is"));
}

TEST(HfConfig, keys_under_other_names_and_lists_of_one_number_are_read) {
  const FolderConfig c = read(config("hunyuan_v1_moe", R"("num_experts":8,"moe_topk":[2,2,2],
    "num_shared_expert":[1,1,1])"));
  EXPECT_EQ(real_of(c, "hunyuan-moe.expert_used_count"), 2);
  EXPECT_EQ(real_of(c, "hunyuan-moe.expert_shared_count"), 1);
  EXPECT_THAT(error_of(config("hunyuan_v1_moe", R"("num_experts":8,"moe_topk":[2,3])")).message,
              HasSubstr("num_experts_per_tok"));
}

TEST(HfConfig, a_key_of_which_one_value_is_supported_must_have_it) {
  EXPECT_TRUE(read_folder_config(config("olmoe", R"("clip_qkv":null)")));
  const Error error = error_of(config("olmoe", R"("clip_qkv":8.0)"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("'clip_qkv' is 8"));
  EXPECT_THAT(error.message, HasSubstr("expected null"));
}

TEST(HfConfig, gelu_by_tanh_has_several_names) {
  for (const char* type : {"gemma", "gemma2", "starcoder2", "phi"}) {
    read(config(type, R"("hidden_act":"gelu_pytorch_tanh")"));
    read(config(type, R"("hidden_act":"gelu_new")"));
  }
  read(config("gemma", R"("hidden_act":"gelu")"));  // Gemma's first folders mean the same
  EXPECT_THAT(error_of(config("starcoder2", R"("hidden_act":"gelu")")).message,
              HasSubstr("expected gelu_pytorch_tanh"));
}

TEST(HfConfig, a_fixed_alpha_stretches_the_base_of_rope) {
  const FolderConfig c = read(config("hunyuan_v1_dense", R"("rope_theta":10000,
    "rope_scaling":{"type":"dynamic","alpha":1000,"factor":1})"));
  // Heads of 16 dimensions: 10000 · 1000^(16 / 14).
  EXPECT_NEAR(real_of(c, "hunyuan-dense.rope.freq_base"), 26826957.95, 10);
  EXPECT_THAT(error_of(config("llama", R"("rope_scaling":{"type":"dynamic","factor":2})")).message,
              HasSubstr("expected default, linear, llama3, yarn or longrope"));
}

TEST(HfConfig, gemma_4_has_keys_per_layer) {
  constexpr const char* kMore =
      R"("head_dim":16,"num_key_value_heads":2,"sliding_window":32,"vocab_size_per_layer_input":260,
         "per_layer_config":{)";
  const FolderConfig c = read(config(
      "gemma4_text", std::string(kMore) + R"("5":{"head_dim":32,"num_key_value_heads":1}})"));
  EXPECT_EQ(real_of(c, "gemma4.attention.key_length"), 32);
  EXPECT_EQ(real_of(c, "gemma4.attention.key_length_swa"), 16);
  const auto heads = *c.metadata.get_ints("gemma4.attention.head_count_kv");
  ASSERT_TRUE(heads);
  EXPECT_THAT(*heads, ElementsAre(2, 2, 2, 2, 2, 1));
  for (const char* wrong :
       {R"("1":{"head_dim":32}})", R"("6":{"head_dim":32}})", R"("x":{"head_dim":32}})",
        R"("5":{"intermediate_size":32}})", R"("5":7})"}) {
    EXPECT_THAT(error_of(config("gemma4_text", std::string(kMore) + wrong)).message,
                HasSubstr("per_layer_config"));
  }
}

TEST(HfConfig, gemma_3n_states_shares_of_the_gate_and_mlp_sizes_per_layer) {
  const FolderConfig c = read(config("gemma3n_text", R"("intermediate_size":[96,64,96,96,96,32],
    "num_kv_shared_layers":2,"activation_sparsity_pattern":[0.95,0.5,0,0,0,0])"));
  const auto cutoffs = *c.metadata.get_floats("gemma3n.activation_sparsity_scale");
  ASSERT_TRUE(cutoffs);
  EXPECT_FLOAT_EQ(static_cast<float>((*cutoffs)[0]), 1.6448536f);
  EXPECT_NEAR((*cutoffs)[1], 0, 1e-9);
  EXPECT_EQ((*cutoffs)[2], -std::numeric_limits<double>::infinity());
  const auto sizes = *c.metadata.get_ints("gemma3n.feed_forward_length");
  ASSERT_TRUE(sizes);
  EXPECT_THAT(*sizes, ElementsAre(96, 64, 96, 96, 96, 32));
  EXPECT_EQ(real_of(c, "gemma3n.vocab_size_per_layer_input"), 262144);
  for (const char* wrong : {"[0.95]", "[1,0,0,0,0,0]", "[-0.5,0,0,0,0,0]"}) {
    const std::string keys =
        fmt::format(R"("num_kv_shared_layers":2,"activation_sparsity_pattern":{})", wrong);
    EXPECT_THAT(error_of(config("gemma3n_text", keys)).message,
                HasSubstr("expected numbers from 0 to below 1 for 6 layers"));
  }
}

TEST(HfConfig, a_soft_cap_of_null_is_none) {
  constexpr const char* kShared = R"("num_kv_shared_layers":0)";
  const auto cap_with = [&](std::string_view more) {
    const FolderConfig c = read(config("gemma3n_text", std::string(kShared) + std::string(more)));
    const auto model = read_config(c.metadata);
    EXPECT_TRUE(model) << model.error().message;
    return model ? model->logit_soft_cap : -1.0f;
  };
  EXPECT_EQ(cap_with(""), 30.0f);
  EXPECT_EQ(cap_with(R"(,"final_logit_softcapping":20.0)"), 20.0f);
  EXPECT_EQ(cap_with(R"(,"final_logit_softcapping":null)"), 0.0f);
  EXPECT_EQ(real_of(read(config("gemma2", R"("attn_logit_softcapping":null)")),
                    "gemma2.attn_logit_softcapping"),
            0);
}

TEST(HfConfig, infinite_numbers_are_read_as_python_and_transformers_write_them) {
  const auto with = [](std::string_view limit) {
    return config("nemotron_h", fmt::format(R"("layers_block_type":["linear_attention","mlp",
      "full_attention","mlp","mamba","attention"],"time_step_limit":{},"name":"NaN Infinity \\")",
                                            limit));
  };
  for (const char* limit :
       {"[0.0, Infinity]", R"([0.0, {"__float__": "Infinity"}])", "[-Infinity, Infinity]"}) {
    const FolderConfig c = read(with(limit));
    const auto heads = *c.metadata.get_ints("nemotron_h_moe.attention.head_count_kv");
    ASSERT_TRUE(heads);
    EXPECT_THAT(*heads, ElementsAre(0, 0, 8, 0, 0, 8));
  }
  for (const char* limit : {"[0.001, Infinity]", "[0.0, 0.1]", "[Infinity, 0.0]", "[0.0]",
                            R"([0.0, {"__float__": "NaN"}])", "[0.0, Infinit]", "Infinity"}) {
    EXPECT_NE(error_of(with(limit)).message, "");
  }
  EXPECT_THAT(error_of(with("NaN")).message, testing::HasSubstr("is NaN, expected"));
}

TEST(HfConfig, a_yarn_that_says_its_own_magnitude_keeps_it) {
  const char* yarn =
      R"("rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":512)";
  EXPECT_EQ(
      real_of(read(config("qwen2", std::string(yarn) + "}")), "qwen2.rope.scaling.attn_factor"),
      -1);
  const FolderConfig own = read(config("qwen2", std::string(yarn) + R"(,"attention_factor":1.0})"));
  EXPECT_NEAR(real_of(own, "qwen2.rope.scaling.attn_factor"), 1 / (1 + 0.1 * std::log(4.0)), 1e-7);
}

TEST(HfConfig, both_sets_of_a_long_rope_have_a_divisor_for_each_pair) {
  const char* rope =
      R"("original_max_position_embeddings":512,"rope_scaling":{{"type":"longrope","long_factor":[{0}],"short_factor":[{0}]}})";
  const FolderConfig c = read(config("phi3", fmt::format(fmt::runtime(rope), "1,1,1,1,2.5,3,4,5")));
  ASSERT_EQ(c.vectors.size(), 2u);
  EXPECT_EQ(c.vectors[0].role, TensorRole::kLongRopeDivisors);
  EXPECT_EQ(c.vectors[0].values[4], 2.5f);
  EXPECT_EQ(real_of(c, "phi3.rope.scaling.original_context_length"), 512);
  EXPECT_THAT(error_of(config("phi3", fmt::format(fmt::runtime(rope), "1,1"))).message,
              HasSubstr("expected 8 numbers"));
}

TEST(HfConfig, a_missing_size_of_minicpm5_is_named_and_not_that_of_other_layers) {
  const auto with = [](std::string_view more) {
    return error_of(config("minicpm5_moe", fmt::format(R"("head_dim":16,"n_routed_experts":8,
        "num_experts_per_tok":2,"moe_intermediate_size":32,"first_k_dense_replace":1,{})",
                                                       more)))
        .message;
  };
  for (const char* key : {"intermediate_size", "moe_intermediate_size", "n_routed_experts"}) {
    EXPECT_THAT(with(fmt::format(R"("{}":null)", key)),
                HasSubstr(fmt::format("config.json: '{}' is missing", key)));
  }
  constexpr const char* kRope = R"("rope_scaling":{"type":"longrope","long_factor":[1],
      "short_factor":[1]},"original_max_position_embeddings":512)";
  for (const int head_dim : {1, 17}) {
    EXPECT_EQ(with(fmt::format(R"("head_dim":{},{})", head_dim, kRope)),
              fmt::format("config.json: 'head_dim' is {}, expected an even number", head_dim));
  }
  EXPECT_EQ(with(fmt::format(R"({},"original_max_position_embeddings":1)", kRope)),
            "config.json: 'original_max_position_embeddings' is 1, expected at least 2");
}

TEST(HfConfig, scales_of_granite_become_its_keys) {
  const FolderConfig c = read(config(
      "granite",
      R"("embedding_multiplier":12,"residual_multiplier":0.22,"attention_multiplier":0.015625,"logits_scaling":8)"));
  EXPECT_EQ(real_of(c, "granite.embedding_scale"), 12);
  EXPECT_EQ(real_of(c, "granite.attention.scale"), 0.015625);
  EXPECT_EQ(real_of(c, "granite.logit_scale"), 8);
}

TEST(HfConfig, experts_in_some_layers_only_are_refused) {
  const char* experts = R"("num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":96)";
  read(config("qwen3_moe", experts));
  EXPECT_THAT(
      error_of(config("qwen3_moe", std::string(experts) + R"(,"mlp_only_layers":[0])")).message,
      HasSubstr("mlp_only_layers"));
  EXPECT_THAT(
      error_of(config("qwen3_moe", std::string(experts) + R"(,"decoder_sparse_step":2)")).message,
      HasSubstr("decoder_sparse_step"));
}

TEST(HfConfig, a_number_may_stand_for_a_fixed_boolean) {
  const auto tuned = [](std::string_view value) {
    return config("llama4_text", fmt::format(R"("attn_temperature_tuning":{})", value));
  };
  EXPECT_TRUE(read_folder_config(tuned("4")).has_value());
  EXPECT_TRUE(read_folder_config(tuned("true")).has_value());
  EXPECT_TRUE(read_folder_config(tuned("1")).has_value());
  for (const char* other : {"0", "5", "-1"})
    EXPECT_THAT(error_of(tuned(other)).message, HasSubstr("expected true"));
}

TEST(HfConfig, values_of_other_families_have_keys_of_gguf_files) {
  const auto has = [](const std::string& text, const char* key) {
    const auto read = read_folder_config(text);
    return read && read->metadata.find(key) != nullptr;
  };
  EXPECT_TRUE(
      has(config("gpt_neox", R"("use_parallel_residual":false)"), "gptneox.use_parallel_residual"));
  EXPECT_TRUE(has(config("mimo_v2_flash", R"("v_head_dim":16,"num_experts":16,"head_dim":32)"),
                  "mimo2.attention.value_scale"));
  EXPECT_TRUE(has(config("laguna", R"("gating":"per-element")"), "laguna.attention.gating"));
}

TEST(HfConfig, unknown_values_are_rejected_with_the_known_ones) {
  const Error type = error_of(config("rwkv"));
  EXPECT_EQ(type.code, ErrorCode::kUnsupported);
  EXPECT_THAT(type.message, HasSubstr("'rwkv'"));
  EXPECT_THAT(type.message, HasSubstr("qwen3_moe"));
  const Error scaling =
      error_of(config("llama", R"("rope_scaling":{"type":"dynamic","factor":2})"));
  EXPECT_EQ(scaling.code, ErrorCode::kUnsupported);
  EXPECT_THAT(scaling.message, HasSubstr("'rope_scaling.type' is \"dynamic\""));
  EXPECT_THAT(scaling.message, HasSubstr("longrope"));
}

TEST(HfConfig, values_that_cannot_be_are_named_with_their_key) {
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "vocab_size", "max_position_embeddings"}) {
    for (const char* value :
         {"0", "-1", "1.5", "\"64\"", "[]", "{}", "null", "9223372036854775808", "1e30", "true"}) {
      std::string json = config("llama");
      const size_t at = json.find(':', json.find(key)) + 1;
      json.replace(at, json.find_first_of(",}", at) - at, value);
      const Error error = error_of(json);
      EXPECT_EQ(error.code, ErrorCode::kCorrupt);
      EXPECT_THAT(error.message, HasSubstr(fmt::format("'{}'", key)));
    }
  }
  for (const char* more :
       {R"("head_dim":0)", R"("rope_theta":-1)", R"("rope_theta":"x")", R"("rope_scaling":[])",
        R"("rope_scaling":{"type":"linear"})", R"("rope_scaling":{"type":"linear","factor":0})",
        R"("rope_scaling":{"type":"llama3","factor":8})", R"("partial_rotary_factor":2)",
        R"("layer_types":"all","sliding_window":1)", R"("eos_token_id":"x")",
        R"("tie_word_embeddings":1)", R"("rms_norm_eps":[])", R"("quantization_config":7)"}) {
    EXPECT_EQ(error_of(config("mistral", more)).code, ErrorCode::kCorrupt) << more;
  }
}

TEST(HfConfig, any_cut_and_any_change_is_one_sentence_or_a_config) {
  const std::string whole = config(
      "qwen3_moe",
      R"("num_experts":8,"num_experts_per_tok":2,"rope_scaling":{"rope_type":"yarn","factor":4.0})");
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(error_of(whole.substr(0, n)).message.empty());
  }
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string changed = whole;
    changed[random() % changed.size()] = static_cast<char>(random());
    const auto config = read_folder_config(changed);
    if (config) continue;
    EXPECT_THAT(config.error().message, HasSubstr("config.json"));
  }
}

}  // namespace
}  // namespace kvik::hf
