"""The names of tensors and the keys of config.json that only the folders of some families have, for make_hf_model.py.

OF: {architecture: {"type": model_type, "top": names of the tensors of no layer, "names": {part of a GGUF tensor's name: name in the folder},
"layers": prefix of the number of a layer, "transposed": matrices that are stored transposed, "transposed_experts": prefix of stacked experts that are, "has_qkv_by_head": rows of Q, K and V for each head in turn,
"keys": {usual key of config.json: its name}, "config": {key: its value, or a function of key() that returns it}}}
"""

SHARED = {f"ffn_{part}_shexp.weight": f"mlp.shared_experts.{part}_proj.weight" for part in ("gate", "up", "down")}
MOE = {"first_k_dense_replace": lambda key: key("leading_dense_block_count"), "routed_scaling_factor": lambda key: key("expert_weights_scale"),
       "norm_topk_prob": True}
COHERE = {"keys": {"rms_norm_eps": "layer_norm_eps"}, "config": {"logit_scale": lambda key: key("logit_scale")}}
BIASES = {f"{part}.bias": f"{name}.bias" for part, name in (("attn_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm"))}


def n_shared(key):
    """Returns the number of shared experts, of which GGUF files state the width together."""
    return key("expert_shared_feed_forward_length") // key("expert_feed_forward_length")


def layer_types(every):
    """Returns the function that lists the layers, of which every n-th has full attention."""
    return lambda key: ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(key("block_count"))]


def rotated(every):
    """Returns the function that lists 1 for layers with RoPE, which every n-th does not have."""
    return lambda key: [int((i + 1) % every != 0) for i in range(key("block_count"))]


def ends(names):
    """Returns the names with ".weight", of parts and of folders."""
    return {f"{part}.weight": f"{name}.weight" for part, name in names.items()}


def with_biases(names):
    """Returns the names of weights and biases, of parts and of folders."""
    return {f"{part}.{kind}": f"{name}.{kind}" for part, name in names.items() for kind in ("weight", "bias")}


INDEXER = {f"indexer.{part}": f"self_attn.indexer.{name}" for part, name in (
    ("attn_q_b.weight", "wq_b.weight"), ("attn_k.weight", "wk.weight"), ("k_norm.weight", "k_norm.weight"), ("k_norm.bias", "k_norm.bias"),
    ("proj.weight", "weights_proj.weight"))}
INDEXER_KEYS = {"index_n_heads": lambda key: key("attention.indexer.head_count"), "index_head_dim": lambda key: key("attention.indexer.key_length"),
                "index_topk": lambda key: key("attention.indexer.top_k"), "norm_topk_prob": True}

SHARDS = 4  # pieces of a table of n-grams
HYPER = ends({f"hc_{half}_{part}": f"{name}_hyper_connection.{of}" for half, name in (("attn", "attn"), ("ffn", "mlp"))
              for part, of in (("norm", "hc_norm"), ("down", "input_mix_weight_down"), ("up", "input_mix_weight_up"), ("inject", "block_inject_weight"))})
NGRAMS = ends({"ple_key": "ple.key_proj", "ple_value": "ple.value_proj", **{f"ple_norm_{part}": f"ple.norm_{part}" for part in ("key", "query", "conv")},
               "ple_conv1d": "ple.conv1d"})
QWEN4 = {"hc_count": lambda key: key("hyper_connection.count"), "hc_lowrank": lambda key: key("hyper_connection.low_rank"),
         "indexer_n_heads": lambda key: key("attention.indexer.head_count"), "indexer_kv_heads": 1,
         "indexer_head_dim": lambda key: key("attention.indexer.key_length"), "indexer_budget": lambda key: key("attention.indexer.top_k"),
         "indexer_compress_ratio": lambda key: max(key("attention.compress_ratios")[1]), "output_gate_type": "sigmoid", "norm_topk_prob": True,
         "ple_layer_ids": lambda key: [i + 1 for i in key("ple.layers")[1]], "ngram_size": lambda key: key("ple.ngram_size"),
         "heads_per_ngram": lambda key: key("ple.heads_per_ngram"), "ple_conv_kernel_size": lambda key: key("ple.conv_kernel"),
         "ple_embed_dim": lambda key: (key("ple.ngram_size") - 1) * key("ple.heads_per_ngram") * key("embedding_length_per_layer_input"),
         "ngram_vocab_size_base": lambda key: key("ple.head_vocab_sizes")[1][0], "seed": 1234, "split_ngram_parts": SHARDS,
         "make_ngram_vocab_size_divisible_by": 128, "eos_token_id": lambda key: key("ple.eos_token_id")}
BLOCK_INDEXER = {f"indexer.{part}.weight": f"self_attn.index_{part}.weight" for part in ("q_proj", "k_proj", "q_norm", "k_norm")}
BLOCK_INDEXER_KEYS = (("sparse_num_index_heads", "head_count"), ("sparse_index_dim", "key_length"), ("sparse_topk_blocks", "top_k"),
                      ("sparse_block_size", "block_size"), ("sparse_local_block", "local_blocks"))


def has_experts(key):
    """Returns the list of 1 for layers with experts, 0 for those before."""
    return [int(i >= (key("leading_dense_block_count") or 0)) for i in range(key("block_count"))]


MISTRAL_TOP = {"token_embd.weight": "tok_embeddings.weight", "output_norm.weight": "norm.weight", "output.weight": "output.weight"}
W = {"gate": "w1", "down": "w2", "up": "w3"}
MISTRAL = {
    **ends({"attn_norm": "attention_norm", "attn_q": "attention.wq", "attn_kv_a_mqa": "attention.wkv_a_with_mqa", "attn_kv_a_norm": "attention.kv_a_norm",
            "attn_kv_b": "attention.wkv_b", "attn_output": "attention.wo", "ffn_norm": "ffn_norm", "ffn_gate_inp": "gate",
            **{f"ffn_{part}{of}": f"{name}.{w}" for part, w in W.items() for of, name in (("", "feed_forward"), ("_shexp", "shared_experts"))}}),
    "attn_ssmax.weight": "attention.ssmax_scaling.s", "attn_ssmax.bias": "attention.ssmax_scaling.b",
    "indexer.ssmax.weight": "attention.indexer.ssmax_scaling.s", "indexer.ssmax.bias": "attention.indexer.ssmax_scaling.b",
    "indexer.q_input_norm.weight": "attention.indexer.q_input_norm.weight", "indexer.q_input_norm.bias": "attention.indexer.q_input_norm.bias",
    **{part: name.replace("self_attn", "attention") for part, name in INDEXER.items()}}

SWITCH_LORA = {**{f"attn_{part}": f"self_attn.qkv_proj.lora_{{}}_slices.{i}" for i, part in enumerate("qkv")}, "attn_output": "self_attn.o_proj.lora_{}",
               **{f"ffn_{part}": f"shared_mlp.input_linear.lora_{{}}_slices.{i}" for i, part in enumerate(("gate", "up"))},
               "ffn_down": "shared_mlp.output_linear.lora_{}"}
SWITCH = {"num_hidden_layers": lambda key: key("block_count") + 1, "shared_intermediate_size": lambda key: key("feed_forward_length"),
          "num_local_experts": 0, "position_embedding_type": "rope", "num_adapters": lambda key: key("adapters.count"),
          "max_lora_rank": lambda key: key("adapters.lora_rank"), "adapter_token_ids": lambda key: key("adapters.token_ids_activate")[1],
          "adapter_substitute_token_ids": lambda key: key("adapters.token_ids_substitute")[1]}
DEEPSEEK4 = {
    **ends({"attn_norm": "attn_norm", "attn_q_a": "attn.wq_a", "attn_q_a_norm": "attn.q_norm", "attn_q_b": "attn.wq_b", "attn_kv": "attn.wkv",
            "attn_kv_a_norm": "attn.kv_norm", "attn_output_a": "attn.wo_a", "attn_output_b": "attn.wo_b", "indexer.attn_q_b": "attn.indexer.wq_b",
            "indexer.proj": "attn.indexer.weights_proj", "ffn_norm": "ffn_norm", "ffn_gate_inp": "ffn.gate",
            **{f"{part}_compressor_{of}": f"attn.{name}compressor.{of_folder}" for part, name in (("attn", ""), ("indexer", "indexer."))
               for of, of_folder in (("kv", "wkv"), ("gate", "wgate"), ("norm", "norm"))},
            **{f"ffn_{part}_shexp": f"ffn.shared_experts.{w}" for part, w in W.items()}}),
    "attn_sinks.weight": "attn.attn_sink", "attn_compressor_ape.weight": "attn.compressor.ape",
    "indexer_compressor_ape.weight": "attn.indexer.compressor.ape", "exp_probs_b.bias": "ffn.gate.bias", "ffn_gate_tid2eid.weight": "ffn.gate.tid2eid",
    **{f"hc_{half}_{part}.weight": f"hc_{half}_{part}" for half in ("attn", "ffn") for part in ("fn", "base", "scale")}}
DEEPSEEK4_CONFIG = {
    **INDEXER_KEYS, "n_routed_experts": lambda key: key("expert_count"), "n_shared_experts": 1, "scoring_func": "sqrtsoftplus",
    "num_experts": None, "shared_expert_intermediate_size": None, "intermediate_size": None, "num_nextn_predict_layers": 1,
    "routed_scaling_factor": MOE["routed_scaling_factor"], "q_lora_rank": lambda key: key("attention.q_lora_rank"),
    "qk_rope_head_dim": lambda key: key("rope.dimension_count"), "partial_rotary_factor": None,
    "o_groups": lambda key: key("attention.output_group_count"), "o_lora_rank": lambda key: key("attention.output_lora_rank"),
    "compress_ratios": lambda key: [*key("attention.compress_ratios")[1], 0], "compress_rope_theta": lambda key: key("attention.compress_rope_freq_base"),
    "hc_mult": lambda key: key("hyper_connection.count"), "hc_sinkhorn_iters": lambda key: key("hyper_connection.sinkhorn_iterations"),
    "hc_eps": lambda key: key("hyper_connection.epsilon"), "num_hash_layers": lambda key: key("hash_layer_count"),
    "swiglu_limit": lambda key: key("swiglu_clamp_exp")}

OF = {
    "deepseek4": {"type": "deepseek_v4", "names": DEEPSEEK4, "layers": "layers.", "config": DEEPSEEK4_CONFIG,
                  "top": {"token_embd.weight": "embed.weight", "output_norm.weight": "norm.weight", "output.weight": "head.weight",
                          **{f"output_hc_{part}.weight": f"hc_head_{part}" for part in ("fn", "base", "scale")}}},
    "graniteswitch": {"type": "granite_switch", "config": SWITCH, "names": ends({
        "attn_qkv": "self_attn.qkv_proj.base_layer", "attn_output": "self_attn.o_proj.base_layer", "ffn_down": "shared_mlp.output_linear.base_layer"})},
    "qwen4exp": {"type": "qwen4_exp_text", "names": {**HYPER, **NGRAMS, **{f"indexer.{part}_norm.weight": f"self_attn.indexer.{part}_layernorm.weight" for part in "qk"}},
                 "top": ends({f"output_hc_{part}": f"model.hyper_connection_mixer.{name}" for part, name in (
                     ("norm", "hc_norm"), ("down", "input_mix_weight_down"), ("up", "input_mix_weight_up"))}), "config": QWEN4},
    "smollm3": {"type": "smollm3", "config": {"no_rope_layers": rotated(4)}},
    "olmo2": {"type": "olmo2", "config": {"layer_types": lambda key: layer_types(4)(key) if key("attention.sliding_window") else None}},
    "olmoe": {"type": "olmoe", "config": {"norm_topk_prob": False}},
    "minimax-m3": {"type": "minimax_m3", "names": {
        **BLOCK_INDEXER, "ffn_gate_inp.weight": "block_sparse_moe.gate.weight", "exp_probs_b.bias": "block_sparse_moe.e_score_correction_bias",
        **{f"ffn_{part}_shexp.weight": f"block_sparse_moe.shared_experts.{part}_proj.weight" for part in ("gate", "up", "down")}},
                   "keys": {"num_experts": "num_local_experts"}, "config": {
                       "hidden_act": "swigluoai", "swiglu_alpha": 1.702, "swiglu_beta": 1.0, "swiglu_limit": 7.0, "use_gemma_norm": True,
                       "use_qk_norm": True, "qk_norm_type": "per_head", "attention_output_gate": False, "scoring_func": "sigmoid", "use_routing_bias": True,
                       "num_mtp_modules": 7, "num_nextn_predict_layers": 1, "moe_intermediate_size": None, "shared_expert_intermediate_size": None,
                       "intermediate_size": lambda key: key("expert_feed_forward_length"), "dense_intermediate_size": lambda key: key("feed_forward_length"),
                       "shared_intermediate_size": lambda key: key("expert_shared_feed_forward_length"), "n_shared_experts": 1, "moe_layer_freq": has_experts,
                       "routed_scaling_factor": MOE["routed_scaling_factor"], "rotary_dim": lambda key: key("rope.dimension_count"),
                       "sparse_attention_config": lambda key: {
                           "use_sparse_attention": True, "sparse_score_type": "max", "sparse_init_block": 0, "sparse_attention_freq": has_experts(key),
                           "sparse_disable_index_value": has_experts(key),
                           **{name: key(f"attention.indexer.{part}") for name, part in BLOCK_INDEXER_KEYS}}}},
    "seed_oss": {"type": "seed_oss"},
    "exaone4": {"type": "exaone4", "config": {"layer_types": layer_types(4)}},
    "exaone-moe": {"type": "exaone_moe", "names": {**SHARED, "exp_probs_b.bias": "mlp.e_score_correction_bias"},
                   "config": {**MOE, "layer_types": layer_types(4), "num_shared_experts": n_shared}},
    "ernie4_5": {"type": "ernie4_5"},
    "ernie4_5-moe": {"type": "ernie4_5_moe", "names": {**SHARED, "exp_probs_b.bias": "mlp.moe_statics.e_score_correction_bias"},
                     "keys": {"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
                     "config": {"moe_layer_start_index": MOE["first_k_dense_replace"], "moe_layer_interval": 1, "moe_num_shared_experts": n_shared}},
    "glm4": {"type": "glm4", "names": {"post_attention_norm.weight": "post_self_attn_layernorm.weight", "post_ffw_norm.weight": "post_mlp_layernorm.weight",
                                       "ffn_up.weight": "mlp.gate_up_proj.weight"}},
    "gemma": {"type": "gemma", "names": {"ffn_norm.weight": "post_attention_layernorm.weight"}},
    "arcee": {"type": "arcee", "config": {"hidden_act": "relu2"}},
    "apertus": {"type": "apertus", "names": ends({"attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}), "config": {"hidden_act": "xielu"}},
    "dots1": {"type": "dots1", "names": SHARED, "keys": {"num_experts": "n_routed_experts"}, "config": {**MOE, "n_shared_experts": n_shared}},
    "minicpm5moe": {"type": "minicpm5_moe", "names": SHARED, "keys": {"num_experts": "n_routed_experts"},
                    "config": {**MOE, "n_shared_experts": n_shared, "use_gated_attention": True}},
    "hunyuan-dense": {"type": "hunyuan_v1_dense", "names": {"attn_q_norm.weight": "self_attn.query_layernorm.weight",
                                                            "attn_k_norm.weight": "self_attn.key_layernorm.weight"}},
    "command-r": {"type": "cohere", **COHERE},
    "cohere2moe": {"type": "cohere2_moe", **COHERE, "names": SHARED, "config": {
        **COHERE["config"], **MOE, "layer_types": layer_types(4), "num_shared_experts": n_shared, "expert_selection_fn": "sigmoid",
        "intermediate_size": lambda key: key("expert_feed_forward_length"), "moe_intermediate_size": None,
        "prefix_dense_intermediate_size": lambda key: key("feed_forward_length")}},
    "llama4": {"type": "llama4_text", "transposed_experts": "feed_forward.experts.", "names": ends(
        {"ffn_gate_inp": "feed_forward.router", **{f"ffn_{part}{of}": f"feed_forward.{name}{part}_proj" for part in ("gate", "up", "down")
                                                   for of, name in (("", ""), ("_shexp", "shared_expert."))}}),
               "keys": {"num_experts": "num_local_experts"},
               "config": {"intermediate_size": lambda key: key("expert_feed_forward_length"), "intermediate_size_mlp": lambda key: key("feed_forward_length"),
                          "moe_intermediate_size": None, "sliding_window": None, "attention_chunk_size": lambda key: key("attention.sliding_window"),
                          "shared_expert_intermediate_size": None, "interleave_moe_layer_step": lambda key: key("interleave_moe_layer_step"),
                          "attn_scale": lambda key: key("attention.temperature_scale"), "floor_scale": lambda key: key("attention.temperature_length"),
                          "no_rope_layers": rotated(4), "layer_types": lambda key: [
                              "chunked_attention" if is_rotated else "full_attention" for is_rotated in rotated(4)(key)]}},
    "laguna": {"type": "laguna", "names": {"exp_probs_b.bias": "mlp.experts.e_score_correction_bias", "attn_gate.weight": "self_attn.g_proj.weight"},
               "config": {"first_k_dense_replace": None, "mlp_layer_types": lambda key: [
                   "dense" if i < key("leading_dense_block_count") else "sparse" for i in range(key("block_count"))],
                          "moe_routed_scaling_factor": MOE["routed_scaling_factor"], "gating": True, "rope_theta": None, "rope_scaling": None,
                          "partial_rotary_factor": None, "num_attention_heads": lambda key: key("attention.head_count")[1][0],
                          "num_attention_heads_per_layer": lambda key: key("attention.head_count")[1],
                          "layer_types": lambda key: ["sliding_attention" if i % 4 else "full_attention" for i in range(key("block_count"))],
                          "rope_parameters": lambda key: {
                              "full_attention": {"rope_type": "yarn", "rope_theta": key("rope.freq_base"), "factor": key("rope.scaling.factor"),
                                                 "original_max_position_embeddings": key("rope.scaling.original_context_length"),
                                                 "partial_rotary_factor": key("rope.dimension_count") / key("attention.key_length")},
                              "sliding_attention": {"rope_type": "default", "rope_theta": key("rope.freq_base_swa")}}}},
    "lfm3": {"type": "lfm3", "config": {
        "rope_theta": None, "rope_scaling": None, "layer_types": lambda key: [
            "conv" if not n else "sliding_attention" if windowed else "full_attention"
            for n, windowed in zip(key("attention.head_count_kv")[1], key("attention.sliding_window_pattern")[1])],
        "rope_parameters": lambda key: {
            "full_attention": {"rope_type": "proportional", "rope_theta": key("rope.freq_base"), "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": key("rope.freq_base_swa")}}}},
    "mimo2": {"type": "mimo_v2_flash", "names": {"attn_sinks.weight": "self_attn.attention_sink_bias"}, "keys": {"num_experts": "n_routed_experts"}, "config": {
        "num_key_value_heads": lambda key: key("attention.head_count_kv")[1][0], "v_head_dim": lambda key: key("attention.value_length"),
        "attention_value_scale": lambda key: key("attention.value_scale"), "moe_layer_freq": lambda key: [0] + [1] * (key("block_count") - 1),
        "hybrid_layer_pattern": lambda key: [int(windowed) for windowed in key("attention.sliding_window_pattern")[1]],
        "swa_rope_theta": lambda key: key("rope.freq_base_swa")}},
    "step35": {"type": "step3p5", "names": {
        "attn_gate.weight": "self_attn.g_proj.weight", "exp_probs_b.bias": "moe.router_bias", "ffn_gate_inp.weight": "moe.gate.weight",
        **{f"ffn_{part}_{of}.weight": f"{name}.{part}_proj.weight" for part in ("gate", "up", "down")
           for of, name in (("exps", "moe"), ("shexp", "share_expert"))}},
               "keys": {"num_key_value_heads": "num_attention_groups", "num_experts": "moe_num_experts", "num_experts_per_tok": "moe_top_k",
                        "shared_expert_intermediate_size": "share_expert_dim"},
               "config": {"num_attention_heads": lambda key: key("attention.head_count")[1][0], "first_k_dense_replace": None, "norm_topk_prob": None,
                          "num_nextn_predict_layers": 1, "moe_router_scaling_factor": MOE["routed_scaling_factor"], "norm_expert_weight": True,
                          "attention_other_setting": lambda key: {"attention_type": "sliding_attention", "head_dim": key("attention.key_length"),
                                                                  "num_attention_heads": key("attention.head_count")[1][1]},
                          "layer_types": lambda key: ["sliding_attention" if i % 4 else "full_attention" for i in range(key("block_count"))] +
                          ["full_attention"] * (not key("nextn_predict_layers")),
                          "rope_theta": lambda key: [key("rope.freq_base_swa" if i % 4 else "rope.freq_base") for i in range(key("block_count"))],
                          "partial_rotary_factors": lambda key: [1.0 if i % 4 else 0.5 for i in range(key("block_count"))],
                          "moe_layers_enum": lambda key: ",".join(str(i) for i in range(key("leading_dense_block_count"), key("block_count"))),
                          "swiglu_limits": lambda key: key("swiglu_clamp_exp")[1], "swiglu_limits_shared": lambda key: key("swiglu_clamp_shexp")[1]}},
    "falcon-h1": {"type": "falcon_h1", "top": {"output_norm.weight": "model.final_layernorm.weight"}, "names": {
        "ffn_norm": "pre_ff_layernorm.weight", **{f"ffn_{part}.weight": f"feed_forward.{part}_proj.weight" for part in ("gate", "up", "down")}},
                  "config": {"mamba_d_ssm": lambda key: key("ssm.inner_size"), "mamba_n_heads": lambda key: key("ssm.time_step_rank"),
                             "mamba_n_groups": lambda key: key("ssm.group_count"), "mamba_d_state": lambda key: key("ssm.state_size"),
                             "mamba_d_conv": lambda key: key("ssm.conv_kernel"), "mamba_rms_norm": True, "mamba_norm_before_gate": False,
                             "lm_head_multiplier": lambda key: key("logit_scale"), "attention_out_multiplier": lambda key: key("attention.value_scale"),
                             "ssm_multipliers": lambda key: key("ssm.in_scales")[1], "ssm_out_multiplier": lambda key: key("ssm.out_scale"),
                             "mlp_multipliers": lambda key: [key("feed_forward.gate_scale"), key("feed_forward.scale")]}},
    "jamba": {"type": "jamba", "top": {"output_norm.weight": "model.final_layernorm.weight"}, "names": ends(
        {"ffn_norm": "pre_ff_layernorm", "ffn_gate_inp": "feed_forward.router",
         **{f"ffn_{part}": f"feed_forward.{part}_proj" for part in ("gate", "up", "down")}}),
              "config": {"mamba_expand": lambda key: key("ssm.inner_size") // key("embedding_length"), "mamba_d_state": lambda key: key("ssm.state_size"),
                         "mamba_d_conv": lambda key: key("ssm.conv_kernel"), "mamba_dt_rank": lambda key: key("ssm.time_step_rank"),
                         "num_key_value_heads": lambda key: max(key("attention.head_count_kv")[1]), "moe_intermediate_size": None, "norm_topk_prob": None,
                         "attn_layer_period": lambda key: key("block_count"), "attn_layer_offset": lambda key: key("attention.head_count_kv")[1].index(2),
                         "expert_layer_period": lambda key: key("interleave_moe_layer_step"),
                         "expert_layer_offset": lambda key: key("interleave_moe_layer_step") - 1}},
    "kimi-linear": {"type": "kimi_linear", "names": {
        "exp_probs_b.bias": "block_sparse_moe.gate.e_score_correction_bias", "ffn_gate_inp.weight": "block_sparse_moe.gate.weight",
        **{f"ffn_{part}_shexp.weight": f"block_sparse_moe.shared_experts.{part}_proj.weight" for part in ("gate", "up", "down")}},
                    "keys": {"max_position_embeddings": "model_max_length", "num_experts_per_tok": "num_experts_per_token",
                             "norm_topk_prob": "moe_renormalize", "n_group": "num_expert_group", "n_shared_experts": "num_shared_experts"},
                    "config": {"moe_renormalize": True, "moe_router_activation_func": "sigmoid", "num_key_value_heads": lambda key: key("attention.head_count"),
                               "mla_use_nope": True, "linear_attn_config": lambda key: {
                                   "head_dim": key("kda.head_dim"), "num_heads": key("attention.head_count"), "short_conv_kernel_size": key("ssm.conv_kernel"),
                                   "kda_layers": [i + 1 for i, n in enumerate(key("attention.head_count_kv")[1]) if n == 0],
                                   "full_attn_layers": [i + 1 for i, n in enumerate(key("attention.head_count_kv")[1]) if n > 0]}}},
    "bailingmoe3": {"type": "bailing_hybrid", "top": {"token_embd.weight": "model.word_embeddings.weight"}, "names": {
        **SHARED, "exp_probs_b.bias": "mlp.gate.expert_bias", "ssm_dt.bias": "attention.dt_bias", **ends(
            {"attn_q_a_norm": "attention.q_a_layernorm", "attn_kv_a_norm": "attention.kv_a_layernorm", "attn_kv_a_mqa": "attention.kv_a_proj_with_mqa",
             "attn_output": "attention.dense", "ssm_norm": "attention.o_norm", **{f"ssm_conv1d_{n}": f"attention.{n}_conv1d" for n in "qkv"},
             **{part: f"attention.{name}_proj" for part, name in (("attn_q", "q"), ("attn_k", "k"), ("attn_v", "v"), ("attn_q_a", "q_a"), ("attn_q_b", "q_b"),
                                                                  ("attn_kv_b", "kv_b"), ("attn_gate", "g"), ("ssm_f_a", "f"), ("ssm_g_a", "g"), ("ssm_beta", "b"))}})},
                    "keys": {"n_shared_experts": "num_shared_experts"}, "config": {
                        "architectures": ["BailingMoeV3ForCausalLM"], "norm_topk_prob": True, "head_dim": lambda key: key("kda.head_dim"),
                        "short_conv_kernel_size": lambda key: key("ssm.conv_kernel"), "kda_safe_gate": True, "kda_lower_bound": lambda key: key("kda.gate_lower_bound"),
                        "no_kda_lora": True, "gated_attention_proj_granularity_type": "head_wise", "rope_interleave": True,
                        "layer_group_size": lambda key: 1 + key("attention.head_count_kv")[1].index(1),
                        "expert_swiglu_limit_list": lambda key: key("swiglu_clamp_exp")[1],
                        "share_expert_swiglu_limit_list": lambda key: key("swiglu_clamp_shexp")[1]}},
    "gptneox": {"type": "gpt_neox", "layers": "gpt_neox.layers.", "has_qkv_by_head": True,
                "top": {"token_embd.weight": "gpt_neox.embed_in.weight", "output.weight": "embed_out.weight",
                        **{f"output_norm.{kind}": f"gpt_neox.final_layer_norm.{kind}" for kind in ("weight", "bias")}},
                "names": {**BIASES, **with_biases({"attn_qkv": "attention.query_key_value", "attn_output": "attention.dense",
                                                   "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h"})},
                "keys": {"partial_rotary_factor": "rotary_pct", "rope_theta": "rotary_emb_base", "rms_norm_eps": "layer_norm_eps"},
                "config": {"hidden_act": "gelu", "tie_word_embeddings": False, "use_parallel_residual": True}},
    "gpt2": {"type": "gpt2", "layers": "transformer.h.", "transposed": ("attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"),
             "top": {"token_embd.weight": "transformer.wte.weight", "position_embd.weight": "transformer.wpe.weight",
                     **{f"output_norm.{kind}": f"transformer.ln_f.{kind}" for kind in ("weight", "bias")}},
             "names": with_biases({"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
                                   "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}),
             "keys": {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "max_position_embeddings": "n_positions",
                      "intermediate_size": "n_inner", "rms_norm_eps": "layer_norm_epsilon", "hidden_act": "activation_function"},
             "config": {"activation_function": "gelu_new"}},
    "cohere2": {"type": "cohere2", **COHERE, "config": {**COHERE["config"], "layer_types": layer_types(4)}},
    "starcoder2": {"type": "starcoder2", "keys": {"rms_norm_eps": "norm_epsilon"}, "config": {"hidden_act": "gelu_pytorch_tanh"},
                   "names": {**BIASES, **{f"ffn_{part}.{kind}": f"mlp.{name}.{kind}" for part, name in (("up", "c_fc"), ("down", "c_proj"))
                                          for kind in ("weight", "bias")}}},
    "phi2": {"type": "phi", "keys": {"rms_norm_eps": "layer_norm_eps"}, "config": {"hidden_act": "gelu_new"},
             "top": {"output_norm.weight": "model.final_layernorm.weight", "output_norm.bias": "model.final_layernorm.bias"},
             "names": {**BIASES, **{f"{part}.{kind}": f"{name}.{kind}" for part, name in (("attn_output", "self_attn.dense"), ("ffn_up", "mlp.fc1"),
                                                                                         ("ffn_down", "mlp.fc2")) for kind in ("weight", "bias")}}},
    "afmoe": {"type": "afmoe", "names": {**SHARED, "exp_probs_b.bias": "mlp.expert_bias", **ends({
        "ffn_norm": "pre_mlp_layernorm", "post_ffw_norm": "post_mlp_layernorm", "attn_gate": "self_attn.gate_proj", "ffn_gate_inp": "mlp.router.gate"})},
              "config": {"num_dense_layers": MOE["first_k_dense_replace"], "route_scale": MOE["routed_scaling_factor"], "route_norm": True,
                         "mup_enabled": True, "layer_types": layer_types(4), "num_shared_experts": n_shared}},
    "muse-glimmer": {"type": "muse_glimmer_text", "names": ends({"ffn_norm": "pre_feedforward_layernorm", "attn_gate": "self_attn.gate_proj"}),
                     "config": {"layer_types": layer_types(4), "qk_scale_factor": 1.25, "output_multiplier": lambda key: key("logit_scale"),
                                "final_logit_softcapping": lambda key: key("final_logit_softcapping")}},
    "deepseek32": {"type": "deepseek_v32", "names": INDEXER, "keys": {"num_experts": "n_routed_experts"}, "config": INDEXER_KEYS},
    "glm-dsa": {"type": "glm_moe_dsa", "names": INDEXER, "keys": {"num_experts": "n_routed_experts"}, "config": {
        **INDEXER_KEYS, "indexer_types": lambda key: ["full" if own else "shared" for own in key("attention.indexer.types")[1]]}},
    "glm5-next": {"type": "glm5_next_text", "names": {
        **INDEXER, **{f"indexer_compressor_{part}.weight": f"self_attn.indexer.index_kpool_compress_{part}" for part in ("gate", "ape")},
        **{f"hc_{half}_{part}.weight": f"hc_{half}_{part}" for half in ("attn", "ffn") for part in ("fn", "base", "scale")}},
                  "keys": {"num_experts": "n_routed_experts"}, "config": {
                      **INDEXER_KEYS, "index_kpool": lambda key: key("attention.indexer.kpool"), "hc_mult": lambda key: key("hyper_connection.count"),
                      "hc_sinkhorn_iters": lambda key: key("hyper_connection.sinkhorn_iterations"), "swiglu_limit": lambda key: key("swiglu_clamp_exp")[1][0],
                      "scoring_func": "sigmoid", "rope_theta": None, "mhc": True, "mla_use_nope": True, "index_kpool_compress": True,
                      "index_kpool_always_select_tail": True,
                      "indexer_types": lambda key: ["full" if own else "shared" for own in key("attention.indexer.types")[1]],
                      "layer_types": lambda key: ["deepseek_sparse_attention" if n else "linear_attention" for n in key("attention.head_count_kv")[1]],
                      "linear_attn_config": lambda key: {"num_heads": key("attention.head_count"), "head_dim": key("kda.head_dim"),
                                                         "short_conv_kernel_size": key("ssm.conv_kernel"), "gate_lower_bound": key("kda.gate_lower_bound")}}},
    "mistral-large4": {"type": "mistral_large4_text", "layers": "layers.", "top": MISTRAL_TOP, "names": MISTRAL, "keys": {"num_experts": "n_routed_experts"},
                       "config": {**INDEXER_KEYS, "head_dim": None, "final_logit_softcapping": lambda key: key("final_logit_softcapping"),
                                  "indexer_types": lambda key: ["full" if own else "shared" for own in key("attention.indexer.types")[1]],
                                  "no_rope_layers": lambda key: [int(is_rotated) for is_rotated in key("rope.layers")[1]],
                                  "kv_source_layers": lambda key: key("attention.kv_source_layers")[1], "rope_scaling": None, "rope_theta": None,
                                  "rope_parameters": lambda key: {
                                      "rope_type": "yarn", "rope_theta": key("rope.freq_base"), "factor": key("rope.scaling.factor"),
                                      "original_max_position_embeddings": key("rope.scaling.original_context_length"), "attention_factor": 1.0}}},
    "mistral4": {"type": "mistral4", "config": {"norm_topk_prob": True}},
    "hy_v3": {"type": "hy_v3", "names": {"exp_probs_b.bias": "mlp.expert_bias", "ffn_gate_inp.weight": "mlp.router.gate.weight",
                                         **{f"ffn_{part}_shexp.weight": f"mlp.shared_mlp.{part}_proj.weight" for part in ("gate", "up", "down")}},
              "config": {**MOE, "router_scaling_factor": MOE["routed_scaling_factor"], "num_shared_experts": n_shared}},
}
OF["starcoder"] = {**OF["gpt2"], "type": "gpt_bigcode", "transposed": (), "config": {"activation_function": "gelu_pytorch_tanh", "multi_query": True}}
OF["nemotron"] = {"type": "nemotron", "names": BIASES, "keys": {"rms_norm_eps": "norm_eps"}, "config": {"hidden_act": "relu2"}}
OF["hunyuan-moe"] = {"type": "hunyuan_v1_moe",
                     "names": {**OF["hunyuan-dense"]["names"], "ffn_gate_inp.weight": "mlp.gate.wg.weight",
                               **{f"ffn_{part}_shexp.weight": f"mlp.shared_mlp.{part}_proj.weight" for part in ("gate", "up", "down")}},
                     "keys": {"num_experts_per_tok": "moe_topk"}, "config": {"num_shared_expert": n_shared}}


def of(arch, what):
    return OF.get(arch, {}).get(what, {})


def with_other_keys(arch, key, config):
    """Returns config.json with the keys that only this family has."""
    renamed = {of(arch, "keys").get(name, name): value for name, value in config.items()}
    return renamed | {name: value(key) if callable(value) else value for name, value in of(arch, "config").items()}

# Names of the two tensors that are one projection in files.
MTP_HALVES = {"qwen4exp": ("fc_embedding.weight", "fc_hidden.weight"), "deepseek4": ("e_proj.weight", "h_proj.weight")}
# Prefixes and names of tensors of MTP layers that differ from the usual ones.
MTP = {
    "deepseek4": ("mtp.0.", {**{f"nextn.{part}.weight": f"{name}.weight" for part, name in (
        ("enorm", "enorm"), ("hnorm", "hnorm"), ("shared_head_norm", "norm"), ("embed_tokens", "emb.tok_emb"), ("shared_head_head", "head"))},
                             **{f"nextn.hc_head_{part}.weight": f"hc_head_{part}" for part in ("fn", "base", "scale")}}),
    "exaone-moe": ("mtp.", {"nextn.eh_proj.weight": "fc.weight", "nextn.enorm.weight": "pre_fc_norm_embedding.weight",
                            "nextn.hnorm.weight": "pre_fc_norm_hidden.weight", "nextn.shared_head_norm.weight": "norm.weight",
                            "nextn.embed_tokens.weight": "embed_tokens.weight", "nextn.shared_head_head.weight": "lm_head.weight"}),
    "ernie4_5-moe": ("model.", {f"nextn.{part}.weight": f"mtp_{name}.0.weight" for part, name in (
        ("enorm", "emb_norm"), ("hnorm", "hidden_norm"), ("eh_proj", "linear_proj"))}),
    "glm5-next": ("model.layers.{}.", {}),
    "bailingmoe3": ("model.layers.{}.", {"nextn.shared_head_norm.weight": "final_layernorm.weight"}),
    "hy_v3": ("model.layers.{}.", {"nextn.shared_head_norm.weight": "final_layernorm.weight"}),
    "mimo2": ("model.mtp.layers.0.", {"nextn.shared_head_norm.weight": "final_layernorm.weight", "ffn_norm.weight": "pre_mlp_layernorm.weight"}),
    "step35": ("model.layers.{}.", {"nextn.shared_head_norm.weight": "transformer.shared_head.norm.weight",
                                    "nextn.shared_head_head.weight": "transformer.shared_head.output.weight"}),
    "nemotron_h_moe": ("mtp.layers.", {
        "nextn.enorm.weight": "0.enorm.weight", "nextn.hnorm.weight": "0.hnorm.weight", "nextn.eh_proj.weight": "0.eh_proj.weight",
        "attn_norm.weight": "0.norm.weight", **{f"attn_{part}.weight": f"0.mixer.{name}_proj.weight" for part, name in
                                               (("q", "q"), ("k", "k"), ("v", "v"), ("output", "o"))},
        "ffn_norm.weight": "1.norm.weight", "ffn_gate_inp.weight": "1.mixer.gate.weight",
        "exp_probs_b.bias": "1.mixer.gate.e_score_correction_bias", "ffn_up_shexp.weight": "1.mixer.shared_experts.up_proj.weight",
        "ffn_down_shexp.weight": "1.mixer.shared_experts.down_proj.weight", "ffn_latent_down.weight": "1.mixer.fc1_latent_proj.weight",
        "ffn_latent_up.weight": "1.mixer.fc2_latent_proj.weight", "nextn.shared_head_norm.weight": "1.final_layernorm.weight"}),
}


def mtp_name(arch, n_layers, part):
    """Returns the prefix of a tensor of an MTP layer, and its name if it differs from the usual one."""
    prefix, names = MTP[arch]
    others = {"nemotron_h_moe": "1.", "exaone-moe": "layers.0.", "ernie4_5-moe": "mtp_block.0."}
    return prefix.format(n_layers) + ("" if part in names else others.get(arch, "")), names.get(part)


def leave_out_mtp_layers(arch, metadata):
    """Removes MTP layers from the keys if config.json has no entries for them. Returns their number if config.json states it."""
    n_mtp_layers = metadata.get(f"{arch}.nextn_predict_layers")
    if n_mtp_layers and arch in MTP and arch != "step35":
        n_all = metadata[f"{arch}.block_count"]
        n = n_all - n_mtp_layers
        for name, value in metadata.items():
            if name.startswith(f"{arch}.") and isinstance(value, tuple) and len(value[1]) == n_all:
                metadata[name] = (value[0], value[1][:n])
        metadata |= {f"{arch}.block_count": n, f"{arch}.nextn_predict_layers": 0}
    return None if arch in ("mimo2", "nemotron_h_moe", "qwen35", "qwen35moe", "qwen3next", "qwen4exp") else n_mtp_layers
