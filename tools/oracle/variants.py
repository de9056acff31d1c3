"""The small models whose logits Transformers computes for tests/e2e/transformers_test.py.

VARIANTS: {name: (model type, settings of its configuration, change of the written config.json)}. A change converts keys to an older
spelling that Transformers also reads, and the values are computed from the converted file.
"""

SMALL = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
         "pad_token_id": 0}
MOE = {"moe_intermediate_size": 32, "num_experts_per_tok": 2}
VISION = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def old_rope(config):
    """Converts rope_parameters to rope_theta and rope_scaling, as before Transformers 5."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    if rope.get("rope_type", "default") != "default":
        config["rope_scaling"] = rope


def old_rope_type(config):
    """Converts to the form before Transformers 4.43: rope_scaling with "type"."""
    old_rope(config)
    config["rope_scaling"]["type"] = config["rope_scaling"].pop("rope_type")


def old_gemma3_rope(config):
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope["full_attention"]["rope_theta"]
    config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    config["sliding_window_pattern"] = 6
    config.pop("layer_types", None)
    config.pop("_sliding_window_pattern", None)


def old_neox(config):
    """Converts to the keys before Transformers 5."""
    old_rope(config)
    config["rotary_pct"] = config.pop("partial_rotary_factor")
    config["rotary_emb_base"] = config.pop("rope_theta")


def published_m3(config):
    """Converts to the keys of MiniMax's files."""
    text = config["text_config"]
    text["sparse_attention_config"] = {"use_sparse_attention": True, **{name: text.pop(key) for name, key in (
        ("sparse_num_index_heads", "index_n_heads"), ("sparse_index_dim", "index_head_dim"), ("sparse_block_size", "index_block_size"),
        ("sparse_topk_blocks", "index_topk_blocks"), ("sparse_local_block", "index_local_blocks"))},
        "sparse_attention_freq": [int(kind != "full_attention") for kind in text.pop("layer_types")]}
    text["moe_layer_freq"] = [int(kind == "sparse") for kind in text.pop("mlp_layer_types")]
    text["hidden_act"] = "swigluoai"
    old_rope(text)


def published_v4(config):
    """Converts to the keys of DeepSeek's files, with an entry for an MTP layer."""
    ratios = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    config["compress_ratios"] = [ratios[kind] for kind in config.pop("layer_types")] + [0]
    config["num_hash_layers"] = config.pop("mlp_layer_types").count("hash_moe")
    config["compress_rope_theta"] = config.pop("rope_parameters")["compress"]["rope_theta"]
    config["rope_scaling"] = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32, "beta_slow": 1}
    config.pop("compress_rates")
    config.pop("partial_rotary_factor")


def published_glm5_next(config):
    """Converts to the keys of the published files."""
    text = config["text_config"]
    text["layer_types"] = [kind if kind == "linear_attention" else "full_attention" for kind in text["layer_types"]]
    text["linear_attn_config"] = {"num_heads": text.pop("linear_num_heads"), "head_dim": text.pop("linear_head_dim"), "safe_gate": False,
                                  "short_conv_kernel_size": text.pop("linear_conv_kernel_dim"), "gate_lower_bound": text.pop("linear_lower_bound")}
    text |= {"mhc": True, "mla_use_nope": True, "index_kpool_compress": True}


def short_context(config):
    config["rope_parameters"]["original_max_position_embeddings"] = config["original_max_position_embeddings"] = 64


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=32)
LONG = rope("longrope", long_factor=[1.5, 2.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0], short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
            original_max_position_embeddings=32)
MLA = {"kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "num_key_value_heads": 4, "head_dim": 8,
       "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1, **MOE}
BAILING = {**{k: v for k, v in MLA.items() if k != "n_routed_experts"}, "head_dim": 16, "num_hidden_layers": 4, "layer_group_size": 2,
           "num_local_experts": 8, "n_group": 4, "topk_group": 2, "short_conv_kernel_size": 4}
DELTA = {"head_dim": 16, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
         "linear_conv_kernel_dim": 4, "num_hidden_layers": 4}
DELTA_MOE = {**DELTA, **MOE, "num_experts": 4, "shared_expert_intermediate_size": 32}
NEMOTRON = {"hidden_size": 64, "intermediate_size": 96, "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 16,
            "conv_kernel": 4, "head_dim": 16, "chunk_size": 16, "num_hidden_layers": None}
NEMOTRON_MOE = {**NEMOTRON, **MOE, "n_routed_experts": 4, "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 48}
PUZZLE_BLOCKS = [{"block_type": "mamba"}, *({"block_type": kind, "n_routed_experts": n, "num_experts_per_tok": n_used, "moe_intermediate_size": size,
                                             "moe_shared_expert_intermediate_size": shared, "moe_latent_size": latent} if kind == "moe" else {"block_type": kind}
                                            for kind, n, n_used, size, shared, latent in (
                                                ("moe", 4, 2, 32, 48, 24), ("attention", 0, 0, 0, 0, 0), ("moe", 8, 3, 48, 32, 16), ("mamba", 0, 0, 0, 0, 0),
                                                ("moe", 6, 1, 16, 48, 24)))]
# An indexer that selects 16 tokens, fewer than the 56 of the values.
SPARSE = {**MLA, "q_lora_rank": 24, "index_n_heads": 8, "index_head_dim": 24, "index_topk": 16, "rms_norm_eps": 1e-6}
# The end of a text cuts the n-grams; "eos_token_id" is one of the tokens. The indexer selects 4 blocks of 4 tokens.
QWEN4 = {**DELTA_MOE, "full_attention_interval": 2, "hc_count": 4, "hc_lowrank": 32, "ple_layer_ids": [3], "ple_embed_dim": 64, "heads_per_ngram": 2,
         "ngram_vocab_size_base": 50, "make_ngram_vocab_size_divisible_by": 16, "split_ngram_parts": 4, "eos_token_id": 65, "indexer_n_heads": 4,
         "indexer_kv_heads": 1, "indexer_head_dim": 24, "indexer_budget": 16, "indexer_compress_ratio": 4}
# An indexer whose heads select 3 blocks of 4 tokens for each KV head.
M3 = {"head_dim": 16, "num_hidden_layers": 4, "layer_types": ["full_attention", *["minimax_m3_sparse"] * 3], "mlp_layer_types": ["dense", *["sparse"] * 3],
      "dense_intermediate_size": 96, "intermediate_size": 32, "shared_intermediate_size": 48, "num_local_experts": 8, "num_experts_per_tok": 3,
      "index_n_heads": 2, "index_head_dim": 24, "index_block_size": 4, "index_topk_blocks": 3, "index_local_blocks": 1, "rotary_dim": 8,
      "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5}}
LARGE4 = {**{k: v for k, v in SPARSE.items() if k not in ("q_lora_rank", "head_dim", "rms_norm_eps")}, "model_type": "mistral_large4_text", "num_hidden_layers": 4,
          "max_position_embeddings": 4096}
LARGE4_SHARED = {**LARGE4, "num_hidden_layers": 7, "rms_norm_eps": 1e-6, "no_rope_layers": [1, 1, 0, 1, 1, 0, 1], "kv_source_layers": [0, 0, 2, 0, 4, 2, 4],
                 "indexer_types": ["full", "shared", "full", "full", "full", "full", "shared"], "final_logit_softcapping": 20.0}
# An indexer that selects 4 blocks of 4 tokens, by weighted means of their keys.
GLM5_NEXT = {**{k: v for k, v in SPARSE.items() if k not in ("first_k_dense_replace", "head_dim", "rms_norm_eps")}, "model_type": "glm5_next_text",
             "num_hidden_layers": 4, "qk_rope_head_dim": 0, "linear_head_dim": 16, "linear_num_heads": 4, "index_kpool": 4, "swiglu_limit": 0.5,
             "mlp_layer_types": ["dense", *["sparse"] * 3], "layer_types": ["linear_attention", "indexed_attention", "linear_attention", "indexed_attention"]}
GLM5_VISION = {**VISION, "model_type": "glm5_next_vision", "depth": 1, "num_heads": 2, "out_hidden_size": 64, "projection_intermediate_size": 32}
PIXTRAL = {**VISION, "model_type": "pixtral", "image_size": 28, "patch_size": 14, "head_dim": 16}
# Entries of 4 and of 8 tokens beside a window of 16; an indexer selects 3 of the former. With 8 heads, no two scores are 0, which are equal.
DEEPSEEK4 = {"num_hidden_layers": 5, "num_key_value_heads": 1, "head_dim": 48, "partial_rotary_factor": 1 / 3, "q_lora_rank": 24, **MOE,
             "n_routed_experts": 8, "o_groups": 2, "o_lora_rank": 24, "sliding_window": 16, "index_n_heads": 8, "index_head_dim": 32, "index_topk": 3,
             "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
             "layer_types": ["sliding_attention", *["compressed_sparse_attention", "heavily_compressed_attention"] * 2],
             "mlp_layer_types": ["hash_moe"] * 2 + ["moe"] * 3, "rms_norm_eps": 1e-6, "eos_token_id": 2}
GRANITE = {"embedding_multiplier": 3.0, "attention_multiplier": 0.25, "residual_multiplier": 0.5, "logits_scaling": 4.0}
GRANITE_HYBRID = {**GRANITE, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_d_conv": 4,
                  "mamba_expand": 2, "mamba_chunk_size": 16, "shared_intermediate_size": 48, "num_hidden_layers": 3,
                  "layer_types": ["mamba", "attention", "mamba"]}
COHERE_MOE = {"num_hidden_layers": 5, "sliding_window": 16, "head_dim": 16, "logit_scale": 0.25, "num_experts": 8, "num_experts_per_tok": 3,
              "num_shared_experts": 2, "intermediate_size": 32, "prefix_dense_intermediate_size": 96, "first_k_dense_replace": 1}
LLAMA4 = {"model_type": "llama4_text", "head_dim": 16, "num_hidden_layers": 4, "attention_chunk_size": 32, "intermediate_size": 32,
          "intermediate_size_mlp": 96, "num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "floor_scale": 8}
LAGUNA = {"num_hidden_layers": 5, "head_dim": 16, "sliding_window": 16, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
          "shared_expert_intermediate_size": 48, "moe_routed_scaling_factor": 2.5,
          "layer_types": ["full_attention", *["sliding_attention"] * 3, "full_attention"]}
STEP = {"num_hidden_layers": 5, "head_dim": 16, "sliding_window": 16, "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
        "share_expert_dim": 48, "moe_router_scaling_factor": 2.5, "swiglu_limits": [None, None, 0.5, 0.5, None],
        "swiglu_limits_shared": [0.25, None, 0.25, None, None], "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 3,
        "layer_types": ["full_attention", *["sliding_attention"] * 3, "full_attention"]}
FALCON = {"mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_d_state": 16, "mamba_chunk_size": 16}
JAMBA = {"num_hidden_layers": 4, "num_experts": 4, "attn_layer_period": 4, "attn_layer_offset": 1}
GPT2 = {"intermediate_size": None, "num_key_value_heads": None}
GEMMA = {"head_dim": 16, "num_hidden_layers": 6, "sliding_window": 16}
GEMMA3N = {**GEMMA, "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 80, "laurel_rank": 8, "altup_num_inputs": 4,
           "num_kv_shared_layers": 2, "activation_sparsity_pattern": [0.95, 0.8, 0.0, 0.0, 0.0, 0.0],
           "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2, "tie_word_embeddings": True}
GEMMA4 = {**GEMMA, "global_head_dim": 32, "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 96}

VARIANTS = {
    "llama": ("llama", {}, None),
    "llama-tied": ("llama", {"tie_word_embeddings": True}, None),
    "llama-head-dim": ("llama", {"head_dim": 32}, None),
    "llama-rope3": ("llama", LLAMA3, None),
    "llama-rope3-old-keys": ("llama", LLAMA3, old_rope),
    "llama-linear": ("llama", rope("linear", factor=4.0), None),
    "llama-linear-old-keys": ("llama", rope("linear", factor=4.0), old_rope_type),
    "llama-yarn": ("llama", YARN, None),
    "llama-mlp-bias": ("llama", {"mlp_bias": True}, None),
    "llama-attention-bias": ("llama", {"attention_bias": True}, None),
    "llama-all-biases": ("llama", {"mlp_bias": True, "attention_bias": True, "tie_word_embeddings": True}, None),
    # heads wider than the model together, one KV head for eight of them
    "minicpm5": ("llama", {"head_dim": 16, "num_attention_heads": 8, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "eos_token_id": [1, 2],
                           **rope("default", rope_theta=5000000.0)}, old_rope),
    "mistral-window": ("mistral", {"sliding_window": 16}, None),
    "mistral": ("mistral", {"sliding_window": None, "head_dim": 32}, None),
    "mistral3-with-vision": ("mistral3", {
        "text_config": {**SMALL, "model_type": "ministral3", "head_dim": 16, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0,
            "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}},
        "vision_config": {**VISION, "model_type": "pixtral", "image_size": 28, "patch_size": 14, "head_dim": 16},
        "tie_word_embeddings": False}, None),
    "mixtral-window": ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16}, None),
    "mixtral": ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}, None),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}, None),
    "qwen2-window": ("qwen2", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 0}, None),
    "qwen2-yarn-old-keys": ("qwen2", YARN, old_rope_type),
    "qwen2-moe": ("qwen2_moe", {**MOE, "num_experts": 4, "shared_expert_intermediate_size": 48}, None),
    "qwen2-moe-normed": ("qwen2_moe", {**MOE, "num_experts": 4, "shared_expert_intermediate_size": 48, "norm_topk_prob": True}, None),
    "qwen3": ("qwen3", {"head_dim": 32, "tie_word_embeddings": True}, None),
    "qwen3-moe": ("qwen3_moe", {**MOE, "num_experts": 8, "head_dim": 16, "norm_topk_prob": True}, None),
    "qwen3-moe-raw-weights": ("qwen3_moe", {**MOE, "num_experts": 8, "head_dim": 16, "norm_topk_prob": False}, None),
    "qwen3-vl": ("qwen3_vl", {"text_config": {**SMALL, "head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 5e6,
                                                                                          "mrope_section": [4, 2, 2]}},
                              "vision_config": {**VISION, "depth": 1, "num_heads": 2, "out_hidden_size": 64, "deepstack_visual_indexes": [0]}},
                 None),
    "qwen3-vl-moe": ("qwen3_vl_moe",
                     {"text_config": {**SMALL, **MOE, "num_experts": 4, "head_dim": 16,
                                      "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [4, 2, 2]}},
                      "vision_config": {**VISION, "depth": 1, "num_heads": 2, "out_hidden_size": 64, "deepstack_visual_indexes": [0]}}, None),
    "gemma2": ("gemma2", {**GEMMA, "num_hidden_layers": 2, "query_pre_attn_scalar": 16, "tie_word_embeddings": True}, None),
    "gemma3": ("gemma3_text", {**GEMMA, "query_pre_attn_scalar": 16, "tie_word_embeddings": True}, None),
    "gemma3-old-keys": ("gemma3_text", {**GEMMA, "query_pre_attn_scalar": 16, "tie_word_embeddings": True}, old_gemma3_rope),
    "gemma3-linear": ("gemma3_text", {**GEMMA, "query_pre_attn_scalar": 16, "tie_word_embeddings": True, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}, None),
    "gemma3-with-vision": ("gemma3", {"text_config": {**SMALL, **GEMMA, "query_pre_attn_scalar": 16, "tie_word_embeddings": True},
                                      "vision_config": {**VISION, "image_size": 28, "patch_size": 14, "model_type": "siglip_vision_model"},
                                      "mm_tokens_per_image": 4, "tie_word_embeddings": True}, None),
    "gemma3n": ("gemma3n_text", GEMMA3N, None),
    "gemma3n-mlp-sizes": ("gemma3n_text", {**GEMMA3N, "intermediate_size": [96, 64, 96, 96, 32, 128], "num_kv_shared_layers": 0,
                                           "altup_num_inputs": 3}, None),
    "gemma4": ("gemma4_text", {**GEMMA4, "tie_word_embeddings": True}, None),
    "gemma4-shared-kv": ("gemma4_text", {**GEMMA4, "tie_word_embeddings": True, "num_hidden_layers": 12, "num_kv_shared_layers": 6,
                                         "use_double_wide_mlp": True}, None),
    "gemma4-with-vision": ("gemma4", {
        "text_config": {**SMALL, **GEMMA4, "tie_word_embeddings": True},
        "vision_config": {**VISION, "model_type": "gemma4_vision", "num_key_value_heads": 2, "head_dim": 16, "patch_size": 4,
                          "pooling_kernel_size": 2, "position_embedding_size": 16}, "audio_config": None, "tie_word_embeddings": True}, None),
    "gemma4-moe": ("gemma4_text", {**GEMMA4, "tie_word_embeddings": True, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2,
                                   "moe_intermediate_size": 32, "hidden_size_per_layer_input": 0, "attention_k_eq_v": True,
                                   "num_global_key_value_heads": 1}, None),
    "phi3": ("phi3", {"sliding_window": None}, None),
    "phi3-window": ("phi3", {"sliding_window": 16}, None),
    "phi3-partial": ("phi3", {"sliding_window": None, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
                     None),
    "phi3-longrope": ("phi3", {"sliding_window": None, "original_max_position_embeddings": 32, **LONG}, None),
    "phi3-longrope-short": ("phi3", {"sliding_window": None, "original_max_position_embeddings": 64, "max_position_embeddings": 64, **LONG,
                                     }, short_context),
    "granite": ("granite", GRANITE, None),
    # two adapters, and a token that ends them; all three are among the tokens
    "granite-switch": ("granite_switch", {**GRANITE, "num_hidden_layers": 4, "shared_intermediate_size": 96, "num_adapters": 2,
                                          "adapter_ranks": [4, 8], "max_lora_rank": 8, "adapter_token_ids": [10, 40, 70],
                                          "adapter_substitute_token_ids": [7, 90, 5]}, None),
    "granite-tied": ("granite", {**GRANITE, "tie_word_embeddings": True}, None),
    "granite-moe": ("granitemoe", {**GRANITE, "num_local_experts": 4, "num_experts_per_tok": 2}, None),
    "olmo2": ("olmo2", {}, None),
    "ministral3": ("ministral3", {"head_dim": 16, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}}, None),
    "glm4-moe": ("glm4_moe", {**MOE, "head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1,
                              "use_qk_norm": True, "attention_bias": True, "n_group": 2, "topk_group": 1, "routed_scaling_factor": 1.5}, None),
    "glm4-moe-plain": ("glm4_moe", {**MOE, "head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1,
                                    "use_qk_norm": False, "attention_bias": False, "n_group": 1, "topk_group": 1}, None),
    "minimax-m2": ("minimax_m2", {"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}, None),
    "minimax-m3": ("minimax_m3_vl_text", M3, None),
    "minimax-m3-local": ("minimax_m3_vl_text", {**M3, "num_hidden_layers": 3, "layer_types": ["minimax_m3_sparse"] * 3, "mlp_layer_types": ["sparse"] * 3,
                                                "num_key_value_heads": 4, "index_n_heads": 4, "index_head_dim": 16, "index_block_size": 8,
                                                "index_topk_blocks": 4, "index_local_blocks": 2}, None),
    "minimax-m3-with-vision": ("minimax_m3_vl", {
        "text_config": {**SMALL, **M3, "model_type": "minimax_m3_vl_text", "index_block_size": 32, "index_topk_blocks": 1},
        "vision_config": {**VISION, "model_type": "minimax_m3_vl_vision", "image_size": 28, "patch_size": 14}, "projector_hidden_size": 64,
        "tie_word_embeddings": False}, published_m3),
    "gpt-oss": ("gpt_oss", {"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 150000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 32}}, None),
    "deepseek-v2-lite": ("deepseek_v2", {**MLA, "q_lora_rank": None, "topk_method": "greedy", "n_group": 1, "topk_group": 1}, None),
    "deepseek-v2-groups": ("deepseek_v2", {**MLA, "q_lora_rank": 24, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2,
                                           "routed_scaling_factor": 2.0, "num_experts_per_tok": 3}, None),
    "deepseek-v3": ("deepseek_v3", {**MLA, "q_lora_rank": 24, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5}, None),
    "deepseek-v3-yarn": ("deepseek_v3", {**MLA, "q_lora_rank": 24, "n_group": 1, "topk_group": 1, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0}}, None),
    "deepseek-v3-no-q-rank": ("deepseek_v3", {**MLA, "q_lora_rank": None, "n_group": 4, "topk_group": 2}, None),
    # Transformers normalizes the two latent vectors with an epsilon of 1e-6 and ignores rms_norm_eps; vLLM, SGLang and llama.cpp use rms_norm_eps.
    "glm4-moe-lite": ("glm4_moe_lite", {**MLA, "q_lora_rank": 24, "n_group": 1, "topk_group": 1, "rms_norm_eps": 1e-6}, None),
    "glm4-moe-lite-epsilon": ("glm4_moe_lite", {**MLA, "q_lora_rank": 24, "n_group": 1, "topk_group": 1}, None),
    "deepseek-v32": ("deepseek_v32", {**SPARSE, "num_hidden_layers": 3, "n_group": 4, "topk_group": 2}, None),
    "deepseek-v32-yarn": ("deepseek_v32", {**SPARSE, "n_group": 1, "topk_group": 1, "index_head_dim": 8, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0}}, None),
    "glm-moe-dsa": ("glm_moe_dsa", {**SPARSE, "num_hidden_layers": 3}, None),
    "glm-moe-dsa-shared": ("glm_moe_dsa", {**SPARSE, "num_hidden_layers": 5, "indexer_types": ["full", "shared", "full", "shared", "shared"]}, None),
    "lfm2": ("lfm2", {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "block_multiple_of": 32}, None),
    "lfm2-with-vision": ("lfm2_vl", {
        "text_config": {**SMALL, "model_type": "lfm2", "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"],
                        "block_multiple_of": 32},
        "vision_config": {**VISION, "model_type": "siglip2_vision_model", "patch_size": 4, "num_patches": 16}}, None),
    "lfm3": ("lfm3", {"head_dim": 16, "num_hidden_layers": 6, "sliding_window": 16, "tie_word_embeddings": True,
                      "layer_types": ["conv", "conv", "full_attention", "conv", "sliding_attention", "conv"]}, None),
    "lfm2-moe": ("lfm2_moe", {**MOE, "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "num_experts": 4,
                              "num_dense_layers": 1, "use_expert_bias": True, "norm_topk_prob": True}, None),
    "granite-hybrid-dense": ("granitemoehybrid", {**GRANITE_HYBRID, "num_local_experts": 0, "num_experts_per_tok": 0, "num_hidden_layers": 2,
                                                  "layer_types": ["attention"] * 2, "position_embedding_type": "rope", "shared_intermediate_size": 96},
                             None),
    "lfm2.5": ("lfm2", {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "block_multiple_of": 32, "tie_word_embeddings": True,
                        "block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": 1.0}, None),
    "granite-hybrid": ("granitemoehybrid", {**GRANITE_HYBRID, "num_local_experts": 0, "num_experts_per_tok": 0}, None),
    "granite-hybrid-moe": ("granitemoehybrid", {**GRANITE_HYBRID, "num_local_experts": 4, "num_experts_per_tok": 2,
                                                "position_embedding_type": "rope"}, None),
    "nemotron-h": ("nemotron_h", {**NEMOTRON, "layers_block_type": ["mamba", "mlp", "attention", "mlp", "mamba"]}, None),
    "nemotron-h-latent": ("nemotron_h", {**NEMOTRON_MOE, "moe_latent_size": 24, "layers_block_type": ["mamba", "moe", "attention", "moe"]}, None),
    "nemotron-h-moe": ("nemotron_h", {**NEMOTRON_MOE, "layers_block_type": ["mamba", "moe", "attention", "moe"]}, None),
    "nemotron-h-puzzle": ("nemotron_h_puzzle", {**NEMOTRON_MOE, "block_configs": PUZZLE_BLOCKS}, None),
    "qwen3-next": ("qwen3_next", DELTA_MOE, None),
    "qwen3.5": ("qwen3_5_text", DELTA, None),
    "qwen3.5-with-vision": ("qwen3_5", {
        "text_config": {**SMALL, **DELTA}, "vision_config": {**VISION, "depth": 1, "num_heads": 2, "out_hidden_size": 64,
                                                             "deepstack_visual_indexes": [0]}, "tie_word_embeddings": False}, None),
    "qwen3.5-moe": ("qwen3_5_moe_text", DELTA_MOE, None),
    "deepseek-v4": ("deepseek_v4", {**DEEPSEEK4, "swiglu_limit": 0.5}, None),
    "deepseek-v4-yarn": ("deepseek_v4", {
        **DEEPSEEK4, "hc_mult": 2, "hc_sinkhorn_iters": 3, "hc_eps": 1e-3, "o_groups": 4, "index_topk": 40,
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 16},
        "mlp_layer_types": ["moe"] * 5, **rope("yarn", factor=4.0, original_max_position_embeddings=32)}, None),
    "deepseek-v4-published": ("deepseek_v4", {
        **DEEPSEEK4, "compress_rates": None, "layer_types": ["compressed_sparse_attention", "heavily_compressed_attention",
                                                             *["compressed_sparse_attention"] * 3]}, published_v4),
    "qwen4-exp": ("qwen4_exp_text", {**QWEN4, **rope("default", partial_rotary_factor=0.5)}, None),
    "qwen4-exp-bigrams": ("qwen4_exp_text", {
        **QWEN4, "ple_layer_ids": [1], "ngram_size": 2, "heads_per_ngram": 4, "output_gate_type": "sigmoid", "eos_token_id": [73, 2],
        "indexer_compress_ratio": 8}, None),
    "smollm3": ("smollm3", {"num_hidden_layers": 4}, None),
    "smollm3-biases": ("smollm3", {"num_hidden_layers": 4, "attention_bias": True, "mlp_bias": True, **YARN}, None),
    "olmo3": ("olmo3", {"num_hidden_layers": 4, "sliding_window": 16}, None),
    "olmo3-yarn": ("olmo3", {"num_hidden_layers": 4, "sliding_window": 16, "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}, "full_attention": YARN["rope_parameters"]}}, None),
    "olmoe": ("olmoe", {"num_experts": 8, "num_experts_per_tok": 3}, None),
    "olmoe-normed": ("olmoe", {"num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": True}, None),
    "seed-oss": ("seed_oss", {"head_dim": 32}, None),
    "seed-oss-biases": ("seed_oss", {"head_dim": 16, "attention_out_bias": True, "mlp_bias": True}, None),
    "exaone4": ("exaone4", {"num_hidden_layers": 4, "sliding_window": 16}, None),
    "exaone4-full": ("exaone4", {"num_hidden_layers": 4, "sliding_window": None, "layer_types": ["full_attention"] * 4, **LLAMA3}, None),
    "exaone-moe": ("exaone_moe", {**MOE, "num_hidden_layers": 4, "sliding_window": 16, "head_dim": 16, "num_experts": 8, "n_group": 2, "topk_group": 1},
                   None),
    "ernie4.5": ("ernie4_5", {"head_dim": 32, "tie_word_embeddings": True}, None),
    "ernie4.5-moe": ("ernie4_5_moe", {"num_hidden_layers": 3, "moe_intermediate_size": 32, "moe_num_experts": 8, "moe_k": 3, "moe_num_shared_experts": 2,
                                      "moe_layer_start_index": 1, "moe_layer_end_index": 2}, None),
    "glm4": ("glm4", {"head_dim": 16}, None),
    "glm4-plain": ("glm4", {"head_dim": 16, "attention_bias": False}, None),
    "gemma": ("gemma", {"head_dim": 32, "num_key_value_heads": 1, "tie_word_embeddings": True}, None),
    "apertus": ("apertus", {"head_dim": 16}, None),
    "arcee": ("arcee", {"head_dim": 16, **YARN}, None),
    "arcee-biases": ("arcee", {"head_dim": 16, "attention_bias": True, "mlp_bias": True}, None),
    "dots1": ("dots1", {**MOE, "head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 2, "first_k_dense_replace": 1, "norm_topk_prob": True,
                        "routed_scaling_factor": 2.5}, None),
    "hunyuan": ("hunyuan_v1_dense", {"head_dim": 16, "tie_word_embeddings": True}, None),
    "hunyuan-alpha": ("hunyuan_v1_dense", {"head_dim": 16, **rope("dynamic", alpha=50.0, factor=1.0)}, None),
    "hunyuan-moe": ("hunyuan_v1_moe", {"head_dim": 16, "num_experts": 4, "moe_topk": 2}, None),
    "cohere": ("cohere", {"logit_scale": 0.25}, None),
    "cohere-plus": ("cohere", {"logit_scale": 0.25, "use_qk_norm": True}, None),
    "cohere2-moe": ("cohere2_moe", {**COHERE_MOE, "expert_selection_fn": "sigmoid"}, None),
    "cohere2-moe-rms": ("cohere2_moe", {**COHERE_MOE, "expert_selection_fn": "softmax", "rms_norm_eps": 1e-5}, None),
    "llama4": ("llama4", {"text_config": {**SMALL, **LLAMA4, **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=1.0,
                                                                    original_max_position_embeddings=32)},
                          "vision_config": {**VISION, "image_size": 28, "patch_size": 14, "vision_output_dim": 32, "projector_input_dim": 32,
                                            "projector_output_dim": 32}}, None),
    "llama4-text": ("llama4_text", {**LLAMA4, "use_qk_norm": False, "interleave_moe_layer_step": 1}, None),
    "laguna": ("laguna", {**LAGUNA, "num_attention_heads_per_layer": [4, 6, 6, 6, 4], "rope_parameters": {
        "full_attention": {**YARN["rope_parameters"], "rope_theta": 5e5, "partial_rotary_factor": 0.5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}}}, None),
    "laguna-per-element": ("laguna", {**LAGUNA, "gating": "per-element", "layer_types": ["full_attention"] * 5, "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": 0.5}}}, None),
    "mimo-v2-flash": ("mimo_v2_flash", {
        **MOE, "num_hidden_layers": 6, "num_key_value_heads": 1, "head_dim": 32, "v_head_dim": 16, "sliding_window": 17, "n_routed_experts": 8,
        "num_experts_per_tok": 3, "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": 0.334}
            for kind, base in (("full_attention", 5e6), ("sliding_attention", 1e4))}}, None),
    "step3.7": ("step3p7", {
        "text_config": {**SMALL, **STEP, "num_sliding_attention_heads": 6, "rope_parameters": {
            "full_attention": {**LLAMA3["rope_parameters"], "rope_theta": 5e6, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}}},
        "vision_config": {"width": 32, "layers": 1, "heads": 2, "image_size": 28, "patch_size": 14}}, None),
    "falcon-h1": ("falcon_h1", {  # powers of two, with which weights of 16 bits stay exact
        **FALCON, "key_multiplier": 0.5, "attention_in_multiplier": 2.0, "attention_out_multiplier": 0.25, "ssm_in_multiplier": 0.5,
        "ssm_out_multiplier": 0.25, "ssm_multipliers": [2.0, 0.5, 1.0, 4.0, 0.25], "mlp_multipliers": [0.5, 0.125],
        "embedding_multiplier": 4.0, "lm_head_multiplier": 0.0625}, None),
    "falcon-h1-norm": ("falcon_h1", {**FALCON, "mamba_rms_norm": True, "mamba_norm_before_gate": False, "mamba_n_groups": 2, "head_dim": 32}, None),
    "jamba": ("jamba", JAMBA, None),
    "jamba-dense": ("jamba", {**JAMBA, "num_experts": 1, "mamba_dt_rank": 12, "tie_word_embeddings": True}, None),
    "kimi-linear": ("kimi_linear", {
        **{k: v for k, v in MLA.items() if k not in ("n_routed_experts", "first_k_dense_replace")}, "q_lora_rank": None, "num_hidden_layers": 4,
        "num_local_experts": 8, "n_group": 1, "topk_group": 1, "linear_num_heads": 4, "linear_head_dim": 16, "linear_conv_kernel_dim": 4,
        "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"]}, None),
    "bailing-hybrid": ("bailing_hybrid", {**BAILING, "q_lora_rank": 24}, None),
    "bailing-hybrid-plain": ("bailing_hybrid", {**BAILING, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "kda_lower_bound": -2.0,
                                                "layer_types": ["full_attention", *["linear_attention"] * 3]}, None),
    "gpt-neox": ("gpt_neox", {"num_key_value_heads": 4}, None),
    "gpt-neox-old-keys": ("gpt_neox", {"num_key_value_heads": 4, "use_parallel_residual": False}, old_neox),
    "gpt-bigcode": ("gpt_bigcode", {**GPT2, "tie_word_embeddings": True}, None),
    "nemotron": ("nemotron", {}, None),
    "nemotron-biases": ("nemotron", {"attention_bias": True, "mlp_bias": True, "head_dim": 32}, None),
    "gpt2": ("gpt2", {**GPT2, "tie_word_embeddings": True}, None),
    "gpt2-own-head": ("gpt2", {**GPT2, "n_inner": 96}, None),
    "cohere-tied": ("cohere", {"logit_scale": 0.0625, "tie_word_embeddings": True}, None),
    "cohere2": ("cohere2", {"num_hidden_layers": 4, "sliding_window": 16, "head_dim": 16, "logit_scale": 0.25}, None),
    "starcoder2": ("starcoder2", {}, None),
    "starcoder2-window": ("starcoder2", {"sliding_window": 16, "tie_word_embeddings": True}, None),
    "phi": ("phi", {"num_key_value_heads": 4}, None),
    "afmoe": ("afmoe", {**MOE, "head_dim": 16, "num_hidden_layers": 5, "num_dense_layers": 1, "num_experts": 8, "num_shared_experts": 2,
                        "route_scale": 2.5, "mup_enabled": True, "sliding_window": 16}, None),
    "muse-glimmer": ("muse_glimmer", {
        "text_config": {**SMALL, "model_type": "muse_glimmer_text", "head_dim": 16, "num_hidden_layers": 4, "sliding_window": 16,
                        "output_multiplier": 0.5},
        "vision_config": {**VISION, "model_type": "muse_glimmer_vision"}, "tie_word_embeddings": False}, None),
    "mistral4": ("mistral4", {**MLA, "head_dim": 24, "q_lora_rank": 24, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 0, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}}, None),
    "mistral-large4": ("mistral_large4", {"text_config": {**SMALL, **LARGE4}, "vision_config": PIXTRAL, "tie_word_embeddings": False}, None),
    "mistral-large4-shared-kv": ("mistral_large4", {
        "text_config": {**SMALL, **LARGE4_SHARED, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0,
            "mscale": 1.0, "mscale_all_dim": 1.0}}, "vision_config": PIXTRAL, "tie_word_embeddings": False}, None),
    "glm5-next": ("glm5_next", {"text_config": {**SMALL, **GLM5_NEXT}, "vision_config": GLM5_VISION}, None),
    "glm5-next-published": ("glm5_next", {
        "text_config": {**SMALL, **GLM5_NEXT, "num_hidden_layers": 5, "index_kpool": 8, "index_topk": 8, "hc_mult": 3, "hc_sinkhorn_iters": 3, "norm_topk_prob": False,
                        "linear_lower_bound": None, "linear_conv_kernel_dim": 3, "swiglu_limit": 2.0, "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 3,
                        "layer_types": ["linear_attention", "indexed_attention", "indexed_attention", "linear_attention", "indexed_attention"],
                        "indexer_types": ["full", "full", "shared", "full", "full"]}, "vision_config": GLM5_VISION}, published_glm5_next),
    "hy-v3": ("hy_v3", {**MOE, "head_dim": 16, "num_hidden_layers": 3, "num_experts": 8, "router_scaling_factor": 2.5}, None),
    "solar-open": ("solar_open", {**MOE, "head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
                                  "intermediate_size": None}, None),
    "exaone4.5-with-vision": ("exaone4_5", {
        "text_config": {**SMALL, "model_type": "exaone4", "num_hidden_layers": 4, "sliding_window": 16},
        "vision_config": {**VISION, "depth": 1, "num_heads": 2, "out_hidden_size": 64}, "tie_word_embeddings": False}, None),
    "youtu": ("youtu", {"kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
                        "num_key_value_heads": 4, "head_dim": 8}, None),
}
