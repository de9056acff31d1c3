"""Recurrent layers for make_model.py and reference_logits.py: tensors, metadata keys, and their computation in float64.

Formulas: Yang et al. 2024 (Gated Delta Networks), Dao and Gu 2024 (Mamba 2), Liquid AI 2025 (LFM2). Everything is computed token by token from an
empty state.
"""
import numpy as np


def silu(x):
    return x / (1 + np.exp(-x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def convolution(x, kernel):
    """Causal convolution of x [T, channels] with kernel [channels, n], the oldest first; zeros precede the first token."""
    n = kernel.shape[1]
    padded = np.concatenate([np.zeros((n - 1, x.shape[1])), x])
    return sum(padded[i:i + len(x)] * kernel[:, i] for i in range(n))


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def delta_rule(q, k, v, decay, rate):
    """Applies the delta rule: q, k [T, heads, key], v [T, heads, value], decay [T, heads] or [T, heads, key], rate [T, heads] -> [T, heads, value]."""
    state = np.zeros((v.shape[1], q.shape[2], v.shape[2]))
    out = np.empty_like(v)
    for t in range(len(q)):
        state *= decay[t].reshape(len(state), -1, 1)
        wrong = v[t] - np.einsum("hkv,hk->hv", state, k[t])
        state += np.einsum("hk,hv->hkv", k[t], wrong * rate[t, :, None])
        out[t] = np.einsum("hkv,hk->hv", state, q[t])
    return out


def delta_layer(g, L, h, eps):
    """The mixer of qwen35, qwen35moe, qwen3next and qwen4exp: h [T, dim] -> [T, dim]."""
    T, n_k, n_v, key = len(h), g("ssm.group_count"), g("ssm.time_step_rank"), g("ssm.state_size")
    value = g("ssm.inner_size") // n_v
    mixed = silu(convolution(h @ L("attn_qkv.weight").T, L("ssm_conv1d.weight")))
    q, k, v = np.split(mixed, [n_k * key, 2 * n_k * key], axis=1)
    q, k, v = unit(q.reshape(T, n_k, key)) / np.sqrt(key), unit(k.reshape(T, n_k, key)), v.reshape(T, n_v, value)
    if L("ssm_ba.weight") is not None:  # for each key head β, then the decay; neighboring value heads share a key head
        both = (h @ L("ssm_ba.weight").T).reshape(T, n_k, 2, n_v // n_k)
        b, a = both[:, :, 0].reshape(T, n_v), both[:, :, 1].reshape(T, n_v)
        q, k = np.repeat(q, n_v // n_k, 1), np.repeat(k, n_v // n_k, 1)
    else:
        b, a = h @ L("ssm_beta.weight").T, h @ L("ssm_alpha.weight").T
        q, k = np.tile(q, (1, n_v // n_k, 1)), np.tile(k, (1, n_v // n_k, 1))
    decay = np.exp(L("ssm_a") * np.logaddexp(0, a + L("ssm_dt.bias")))
    out = delta_rule(q, k, v, decay, sigmoid(b))
    out = out / np.sqrt((out * out).mean(-1, keepdims=True) + eps) * L("ssm_norm.weight")
    gate = sigmoid if g("ssm.output_gate", b"sigmoid" if g("hyper_connection.count") else b"silu") == b"sigmoid" else silu
    return (out.reshape(T, -1) * gate(h @ L("attn_gate.weight").T)) @ L("ssm_out.weight").T


def conv_layer(L, h):
    """The mixer of lfm2 and lfm2moe."""
    b, c, x = np.split(h @ L("shortconv.in_proj.weight").T, 3, axis=1)
    return (c * convolution(b * x, L("shortconv.conv.weight"))) @ L("shortconv.out_proj.weight").T


def space_layer(g, L, h, eps):
    """The mixer of granitehybrid, nemotron_h and nemotron_h_moe; in falcon-h1 with factors and perhaps without a norm."""
    T, heads, n, groups, inner = len(h), g("ssm.time_step_rank"), g("ssm.state_size"), g("ssm.group_count"), g("ssm.inner_size")
    factors = np.repeat(g("ssm.in_scales", (None, [1.0] * 5))[1], [inner, inner, groups * n, groups * n, heads])
    z, xbc, dt = np.split(h @ L("ssm_in.weight").T * factors, [inner, 2 * inner + 2 * groups * n], axis=1)
    mixed = silu(convolution(xbc, L("ssm_conv1d.weight")) + L("ssm_conv1d.bias"))
    x, b, c = np.split(mixed, [inner, inner + groups * n], axis=1)
    x = x.reshape(T, heads, -1)
    b, c = (np.repeat(y.reshape(T, groups, n), heads // groups, 1) for y in (b, c))
    step = np.logaddexp(0, dt + L("ssm_dt.bias"))
    decay = np.exp(step * L("ssm_a")[:, 0])
    state, out = np.zeros((heads, n, x.shape[2])), np.empty_like(x)
    for t in range(T):
        state = state * decay[t, :, None, None] + np.einsum("hn,hp->hnp", b[t], x[t] * step[t, :, None])
        out[t] = np.einsum("hnp,hn->hp", state, c[t]) + L("ssm_d") * x[t]
    out = (out.reshape(T, inner) * silu(z)).reshape(T, groups, -1)
    if L("ssm_norm.weight") is not None:
        out = out / np.sqrt((out * out).mean(-1, keepdims=True) + eps) * L("ssm_norm.weight")
    return out.reshape(T, inner) @ L("ssm_out.weight").T * g("ssm.out_scale", 1.0)


def scan_layer(g, L, h, eps):
    """The mixer of jamba (Mamba 1: Gu and Dao 2023)."""
    T, inner, n, rank = len(h), g("ssm.inner_size"), g("ssm.state_size"), g("ssm.time_step_rank")
    norm = lambda y, name: y / np.sqrt((y * y).mean(-1, keepdims=True) + eps) * L(name)
    x, z = np.split(h @ L("ssm_in.weight").T, 2, axis=1)
    x = silu(convolution(x, L("ssm_conv1d.weight")) + L("ssm_conv1d.bias"))
    dt, b, c = np.split(x @ L("ssm_x.weight").T, [rank, rank + n], axis=1)
    step = np.logaddexp(0, norm(dt, "ssm_dt_norm.weight") @ L("ssm_dt.weight").T + L("ssm_dt.bias"))
    b, c = norm(b, "ssm_b_norm.weight"), norm(c, "ssm_c_norm.weight")
    state, out = np.zeros((inner, n)), np.empty_like(x)
    for t in range(T):
        state = state * np.exp(step[t, :, None] * L("ssm_a")) + b[t] * (step[t] * x[t])[:, None]
        out[t] = state @ c[t] + L("ssm_d") * x[t]
    return (out * silu(z)) @ L("ssm_out.weight").T


def kda_layer(g, L, h, eps):
    """The mixer of kimi-linear, bailingmoe3 and glm5-next: the delta rule with a decay for each channel of a key. Logarithms of decays may have a lower
    bound; their factors are then above 0, whatever their sign in the file."""
    T, heads, dim = len(h), g("attention.head_count"), g("kda.head_dim")
    q, k, v = (silu(convolution(h @ L(f"attn_{n}.weight").T, L(f"ssm_conv1d_{n}.weight")[:, 0])).reshape(T, heads, dim) for n in "qkv")
    q, k = unit(q) / np.sqrt(dim), unit(k)
    full = L("ssm_f_b.weight") is None
    of = lambda n: h @ L(f"ssm_{n}_a.weight").T if full else h @ L(f"ssm_{n}_a.weight").T @ L(f"ssm_{n}_b.weight").T
    step, bound, factors = (of("f") + L("ssm_dt.bias")).reshape(T, heads, dim), g("kda.gate_lower_bound"), L("ssm_a").reshape(-1, 1)
    decay = np.exp(bound * sigmoid(np.abs(factors) * step) if bound else factors * np.logaddexp(0, step))
    out = delta_rule(q, k, v, decay, sigmoid(h @ L("ssm_beta.weight").T))
    out = out / np.sqrt((out * out).mean(-1, keepdims=True) + eps) * L("ssm_norm.weight")
    return (out.reshape(T, -1) * sigmoid(of("g"))) @ L("attn_output.weight").T


# Architectures whose list of KV heads shows which layers have attention.
LISTED = ("lfm2", "lfm2moe", "lfm3", "jamba", "kimi-linear", "bailingmoe3", "glm5-next", "granitehybrid", "nemotron_h", "nemotron_h_moe")
HALVED = ("nemotron_h", "nemotron_h_moe")  # a layer is a mixer or a feed-forward
SPACES = ("granitehybrid", *HALVED)
FOLDER_SPACES = (*SPACES, "falcon-h1")  # the names of Mamba 2's tensors in folders


def is_recurrent(arch, g, layer):
    if arch in LISTED:
        return g("attention.head_count_kv")[1][layer] == 0
    return arch in ("qwen35", "qwen35moe", "qwen3next", "qwen4exp") and (layer + 1) % g("full_attention_interval", 4) != 0


def ffn_norm(L):
    return "ffn_norm.weight" if L("ffn_norm.weight") is not None else "post_attention_norm.weight"


def layer(arch, g, L, h, eps):
    if arch.startswith("lfm"):
        return conv_layer(L, h)
    if arch in SPACES:
        return space_layer(g, L, h, eps)
    if arch in ("jamba", "kimi-linear", "bailingmoe3", "glm5-next"):
        return (scan_layer if arch == "jamba" else kda_layer)(g, L, h, eps)
    return delta_layer(g, L, h, eps)


# --- for make_hf_model.py ---

FOLDER_TYPES = {"qwen35": "qwen3_5_text", "qwen35moe": "qwen3_5_moe_text", "qwen3next": "qwen3_next", "qwen4exp": "qwen4_exp_text"}
FOLDER_NAMES = {"attn_qkv.weight": "in_proj_qkv.weight", "attn_gate.weight": "in_proj_z.weight", "ssm_beta.weight": "in_proj_b.weight",
                "ssm_alpha.weight": "in_proj_a.weight", "ssm_ba.weight": "in_proj_ba.weight", "ssm_conv1d.weight": "conv1d.weight",
                "ssm_dt.bias": "dt_bias", "ssm_a": "A_log", "ssm_norm.weight": "norm.weight", "ssm_out.weight": "out_proj.weight"}


OTHER_TYPES = {"lfm2": "lfm2", "lfm2moe": "lfm2_moe", "lfm3": "lfm3", "granitehybrid": "granitemoehybrid", "nemotron_h": "nemotron_h", "nemotron_h_moe": "nemotron_h"}
SPACE_NAMES = {"ssm_in.weight": "in_proj.weight", "ssm_conv1d.weight": "conv1d.weight", "ssm_conv1d.bias": "conv1d.bias", "ssm_dt.bias": "dt_bias",
               "ssm_a": "A_log", "ssm_d": "D", "ssm_norm.weight": "norm.weight", "ssm_out.weight": "out_proj.weight"}
SCAN_NAMES = {**SPACE_NAMES, "ssm_dt.bias": "dt_proj.bias", "ssm_dt.weight": "dt_proj.weight", "ssm_x.weight": "x_proj.weight",
              **{f"ssm_{part}_norm.weight": f"{part}_layernorm.weight" for part in ("dt", "b", "c")}}
KDA_NAMES = {"ssm_beta.weight": "b_proj.weight", "ssm_dt.bias": "dt_bias", "ssm_a": "A_log", "ssm_norm.weight": "o_norm.weight",
             **{f"ssm_conv1d_{n}.weight": f"{n}_conv1d.weight" for n in "qkv"}, **{f"ssm_{n}.weight": f"{n}_proj.weight" for n in ("f_a", "f_b", "g_a", "g_b")}}
LFM2_NAMES = {"attn_norm.weight": "operator_norm.weight", "ffn_norm.weight": "ffn_norm.weight", "attn_q_norm.weight": "self_attn.q_layernorm.weight",
              "attn_k_norm.weight": "self_attn.k_layernorm.weight", "attn_output.weight": "self_attn.out_proj.weight",
              "shortconv.in_proj.weight": "conv.in_proj.weight", "shortconv.conv.weight": "conv.conv.weight", "shortconv.out_proj.weight": "conv.out_proj.weight",
              "ffn_gate.weight": "feed_forward.w1.weight", "ffn_up.weight": "feed_forward.w3.weight", "ffn_down.weight": "feed_forward.w2.weight",
              "ffn_gate_inp.weight": "feed_forward.gate.weight", "exp_probs_b.bias": "feed_forward.expert_bias"}
NEMOTRON_NAMES = {"attn_norm.weight": "norm.weight", "attn_q.weight": "mixer.q_proj.weight", "attn_k.weight": "mixer.k_proj.weight",
                  "attn_v.weight": "mixer.v_proj.weight", "attn_output.weight": "mixer.o_proj.weight", "ffn_up.weight": "mixer.up_proj.weight",
                  "ffn_down.weight": "mixer.down_proj.weight", "ffn_gate_inp.weight": "mixer.gate.weight",
                  "exp_probs_b.bias": "mixer.gate.e_score_correction_bias", "ffn_up_shexp.weight": "mixer.shared_experts.up_proj.weight",
                  "ffn_down_shexp.weight": "mixer.shared_experts.down_proj.weight",
                  "ffn_latent_down.weight": "mixer.fc1_latent_proj.weight", "ffn_latent_up.weight": "mixer.fc2_latent_proj.weight"}
GRANITE_NAMES = {"ffn_gate_inp.weight": "block_sparse_moe.router.layer.weight", "ffn_down_shexp.weight": "shared_mlp.output_linear.weight"}
LFM3_NAMES = {part: name for part, name in LFM2_NAMES.items() if not part.startswith("attn_") or part == "attn_norm.weight"} | {
    "post_attention_norm.weight": "post_operator_norm.weight", "post_ffw_norm.weight": "post_ffn_norm.weight", "attn_gate.weight": "self_attn.gate_proj.weight"}
LAYER_NAMES = {"lfm3": LFM3_NAMES, "lfm2": LFM2_NAMES, "lfm2moe": LFM2_NAMES, "granitehybrid": GRANITE_NAMES, "nemotron_h": NEMOTRON_NAMES, "nemotron_h_moe": NEMOTRON_NAMES}
TOP_NAMES = {**dict.fromkeys(("lfm2", "lfm3"), {"token_embd_norm.weight": "model.embedding_norm.weight"}),
             "nemotron_h": {"token_embd.weight": "backbone.embeddings.weight", "output_norm.weight": "backbone.norm_f.weight"}}


def plain_tensor(arch, part, x):
    """Returns (name after "layers.N.", array) of a folder's tensor for a GGUF tensor, or None if the usual names apply."""
    if part in KDA_NAMES and arch == "glm5-next":
        return "self_attn." + KDA_NAMES[part], logarithm_of(x).reshape(-1) if part == "ssm_a" else x
    if part in KDA_NAMES and arch == "kimi-linear":
        return "self_attn." + KDA_NAMES[part], logarithm_of(x).reshape(1, 1, -1, 1) if part == "ssm_a" else x
    if part == "ssm_a" and arch == "bailingmoe3":
        return "attention.A_log", logarithm_of(-x).reshape(-1)
    if part in SCAN_NAMES and arch == "jamba":
        return "mamba." + SCAN_NAMES[part], logarithm_of(x) if part == "ssm_a" else x[:, None] if part == "ssm_conv1d.weight" else x
    if part in SPACE_NAMES and arch in FOLDER_SPACES:
        name = ("mixer." if arch in HALVED else "mamba.") + SPACE_NAMES[part]
        if part == "ssm_a":
            return name, logarithm_of(x[:, 0])
        return name, x[:, None] if part == "ssm_conv1d.weight" else x.reshape(-1) if part in ("ssm_d", "ssm_norm.weight") else x
    if part == "shortconv.conv.weight":
        x = x[:, None]
    name = LAYER_NAMES.get(arch, {}).get(part)
    return name and (name, x)


def other_config(arch, g, config):
    """Returns the config keys of families with a list of layers."""
    heads = g("attention.head_count_kv")[1]
    config = {**config, "num_key_value_heads": max(heads)}
    if arch.startswith("lfm"):
        config |= {"layer_types": ["full_attention" if n else "conv" for n in heads], "conv_L_cache": g("shortconv.l_cache"), "conv_bias": False,
                   "norm_eps": config.pop("rms_norm_eps"), "tie_embedding": config.pop("tie_word_embeddings")}
        if arch == "lfm2":
            return {**config, "block_auto_adjust_ff_dim": False}
        if arch == "lfm3":
            return config
        return {**config, "num_dense_layers": g("leading_dense_block_count"), "use_expert_bias": True, "norm_topk_prob": True}
    inner, n_heads = g("ssm.inner_size"), g("ssm.time_step_rank")
    names = ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")
    if arch != "granitehybrid":
        names = ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel")
    config |= dict(zip(names, (n_heads, inner // n_heads, g("ssm.group_count"), g("ssm.state_size"), g("ssm.conv_kernel"))))
    if arch == "granitehybrid":
        del config["head_dim"]
        return {**config, "layer_types": ["attention" if n else "mamba" for n in heads], "position_embedding_type": "nope",
                "shared_intermediate_size": g("expert_shared_feed_forward_length"), "mamba_expand": 2, "num_local_experts": g("expert_count")}
    widths = g("feed_forward_length")[1]
    feed = "E" if g("expert_count") else "-"
    config |= {"hybrid_override_pattern": "".join("*" if n else feed if w else "M" for n, w in zip(heads, widths)), "mlp_hidden_act": "relu2",
               "intermediate_size": max(widths), "layer_norm_epsilon": config.pop("rms_norm_eps"), "moe_latent_size": g("moe_latent_size")}
    if feed == "E":
        config |= {"n_routed_experts": g("expert_count"), "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "norm_topk_prob": True,
                   "moe_shared_expert_intermediate_size": g("expert_shared_feed_forward_length"), "routed_scaling_factor": g("expert_weights_scale")}
    config.pop("hidden_act")
    if isinstance(g("expert_used_count"), tuple):
        return with_blocks(g, config)
    return {k: v for k, v in config.items() if v is not None}


def moe_block(g, i):
    """Returns the config of a layer with experts of Nemotron 3 Puzzle."""
    return {"block_type": "moe", "num_experts_per_tok": g("expert_used_count")[1][i], "moe_intermediate_size": g("expert_feed_forward_length")[1][i],
            "n_routed_experts": g("expert_count"), "moe_latent_size": g("moe_latent_size"), "moe_shared_expert_intermediate_size": g("expert_shared_feed_forward_length")}


def mtp_blocks(g, i):
    """Returns the config keys of the MTP layer of Nemotron 3 Puzzle, which is layer i of its files; none if there is no such layer."""
    return {"mtp_block_configs": [{"block_type": "attention", "sliding_window": None}, moe_block(g, i)]} if g("nextn_predict_layers") else {}


def with_blocks(g, config):
    """Returns the config of Nemotron 3 Puzzle, which states for each layer what other models state for all."""
    for key in ("n_routed_experts", "moe_latent_size", "moe_shared_expert_intermediate_size"):
        config.pop(key)
    types = {"M": {"block_type": "mamba"}, "*": {"block_type": "attention", "sliding_window": None}}
    config["block_configs"] = [types.get(letter) or moe_block(g, i) for i, letter in enumerate(config.pop("hybrid_override_pattern"))]
    for key in ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size", "intermediate_size"):
        config.pop(key)
    return {**{k: v for k, v in config.items() if v is not None}, "num_hidden_layers": None}


def decay_of(logarithm):
    return np.float32(-np.exp(logarithm.astype(np.float64)))


def logarithm_of(decay):
    """Returns 32-bit values from which decay_of() computes exactly `decay`."""
    guess = np.log(-decay.astype(np.float64)).astype(np.float32)
    for step in (0, 1, -1, 2, -2):
        other = guess + np.float32(step) * np.spacing(guess)
        guess = np.where(decay_of(guess) == decay, guess, other)
    assert np.array_equal(decay_of(guess), decay)
    return guess


def grouped(x, axis, n_k, n_v):
    """Reorders value heads so that those sharing a key head are neighbors."""
    width = x.shape[axis] // n_v
    split = x.reshape(*x.shape[:axis], n_v // n_k, n_k, width, *x.shape[axis + 1:])
    return np.ascontiguousarray(split.swapaxes(axis, axis + 1)).reshape(x.shape)


def folder_tensors(arch, g, part, x, pending):
    """Returns {name after "linear_attn.": array} of a folder for a GGUF tensor; `pending` holds parts until the next one."""
    n_k, n_v = g("ssm.group_count"), g("ssm.time_step_rank")
    name = FOLDER_NAMES[part]
    if part == "ssm_a":
        x = logarithm_of(x)
    if arch == "qwen3next":
        if part == "attn_qkv.weight":
            pending["qkv"] = x
            return {}
        if part == "attn_gate.weight":
            keys = g("ssm.state_size") * n_k
            q, k, v = np.split(pending.pop("qkv"), [keys, 2 * keys])
            return {"in_proj_qkvz.weight": np.concatenate([y.reshape(n_k, -1, y.shape[1]) for y in (q, k, v, x)], 1).reshape(-1, x.shape[1])}
    elif part in ("attn_qkv.weight", "ssm_conv1d.weight"):
        keys = 2 * g("ssm.state_size") * n_k
        x = np.concatenate([x[:keys], grouped(x[keys:], 0, n_k, n_v)])
    elif part == "ssm_out.weight":
        x = grouped(x, 1, n_k, n_v)
    elif part != "ssm_norm.weight":
        x = grouped(x, 0, n_k, n_v)
    return {name: x[:, None] if part == "ssm_conv1d.weight" else x}


def folder_config(g):
    n_v = g("ssm.time_step_rank")
    return {"linear_conv_kernel_dim": g("ssm.conv_kernel"), "linear_key_head_dim": g("ssm.state_size"), "linear_num_key_heads": g("ssm.group_count"),
            "linear_num_value_heads": n_v, "linear_value_head_dim": g("ssm.inner_size") // n_v, "full_attention_interval": g("full_attention_interval")}


# --- for make_model.py ---

def keys(arch, extra, u32, u32s):
    """u32 and u32s convert a number and a list of numbers to metadata values."""
    if "convs" in extra:
        return {"shortconv.l_cache": u32(extra["convs"][0])}
    if "space" in extra:
        heads, width, groups, n, kernel, _ = extra["space"]
        return {"ssm.conv_kernel": u32(kernel), "ssm.state_size": u32(n), "ssm.group_count": u32(groups), "ssm.time_step_rank": u32(heads),
                "ssm.inner_size": u32(heads * width)}
    if "kda" in extra:
        return {"kda.head_dim": u32(extra["kda"][0]), "ssm.conv_kernel": u32(extra["kda"][1])}
    if "scan" in extra:
        inner, rank, n, kernel, _ = extra["scan"]
        return {"ssm.conv_kernel": u32(kernel), "ssm.state_size": u32(n), "ssm.time_step_rank": u32(rank), "ssm.inner_size": u32(inner)}
    n_k, n_v, key, value, kernel, interval = extra["delta"]
    found = {"ssm.conv_kernel": u32(kernel), "ssm.state_size": u32(key), "ssm.group_count": u32(n_k), "ssm.time_step_rank": u32(n_v),
             "ssm.inner_size": u32(n_v * value), "full_attention_interval": u32(interval)}
    if arch != "qwen3next":
        rope_dims = extra["rope_dims"] // 2
        found["rope.dimension_sections"] = u32s([rope_dims - 2 * (rope_dims // 3), rope_dims // 3, rope_dims // 3, 0])
    return found


def tensors(out, p, arch, dim, extra, n_head):
    """Adds the tensors of a recurrent layer except its feed-forward."""
    if "convs" in extra:
        out.vec(p + "attn_norm.weight", dim, 1)
        out.mat(p + "shortconv.in_proj.weight", 3 * dim, dim)
        out.mat(p + "shortconv.conv.weight", dim, extra["convs"][0], t=0)
        return out.mat(p + "shortconv.out_proj.weight", dim, dim)
    if "space" in extra:
        out.vec(p + "attn_norm.weight", dim, 1)
        return space_tensors(out, p, dim, *extra["space"][:5])
    if "kda" in extra:
        return kda_tensors(out, p, dim, *extra["kda"][:2], n_head, arch)
    if "scan" in extra:
        out.vec(p + "attn_norm.weight", dim, 1)
        return scan_tensors(out, p, dim, *extra["scan"][:4])
    n_k, n_v, key, value, kernel, _ = extra["delta"]
    conv = 2 * n_k * key + n_v * value
    if "hyper" not in extra:
        out.vec(p + "attn_norm.weight", dim, 1)
    out.mat(p + "attn_qkv.weight", conv, dim)
    out.mat(p + "attn_gate.weight", n_v * value, dim)
    if arch == "qwen3next":
        out.mat(p + "ssm_ba.weight", 2 * n_v, dim)
    else:
        out.mat(p + "ssm_beta.weight", n_v, dim)
        out.mat(p + "ssm_alpha.weight", n_v, dim)
    out.mat(p + "ssm_conv1d.weight", conv, kernel, t=0)
    out.vec(p + "ssm_dt.bias", n_v, 0)
    out.all.append((p + "ssm_a", (n_v,), 0, lambda: decay_of(0.1 * out.rng.standard_normal(n_v, np.float32)).tobytes()))
    out.vec(p + "ssm_norm.weight", value, 1)
    out.mat(p + "ssm_out.weight", dim, n_v * value)


def kda_tensors(out, p, dim, head_dim, kernel, n_head, arch):
    inner, is_bounded = n_head * head_dim, arch == "bailingmoe3"
    out.vec(p + "attn_norm.weight", dim, 1)
    for name in "qkv":
        out.mat(p + f"attn_{name}.weight", inner, dim)
    for name in "qkv":
        out.mat(p + f"ssm_conv1d_{name}.weight", inner, 1, kernel, t=0)
    for name in "fg":
        out.mat(p + f"ssm_{name}_a.weight", inner if is_bounded else head_dim, dim)
        if not is_bounded:
            out.mat(p + f"ssm_{name}_b.weight", inner, head_dim)
    out.mat(p + "ssm_beta.weight", n_head, dim)
    out.vec(p + "ssm_dt.bias", inner, 0)
    sign = np.float32(-1 if is_bounded else 1)
    out.all.append((p + "ssm_a", (n_head,) if arch == "glm5-next" else (n_head, 1), 0, lambda: (sign * decay_of(0.1 * out.rng.standard_normal(n_head, np.float32))).tobytes()))
    out.vec(p + "ssm_norm.weight", head_dim, 1)
    out.mat(p + "attn_output.weight", dim, inner)


def scan_tensors(out, p, dim, inner, rank, n, kernel):
    out.mat(p + "ssm_in.weight", 2 * inner, dim)
    out.mat(p + "ssm_conv1d.weight", inner, kernel, t=0)
    out.vec(p + "ssm_conv1d.bias", inner, 0)
    out.mat(p + "ssm_x.weight", rank + 2 * n, inner)
    out.mat(p + "ssm_dt.weight", inner, rank)
    out.vec(p + "ssm_dt.bias", inner, 0)
    for name, width in (("dt", rank), ("b", n), ("c", n)):
        out.vec(p + f"ssm_{name}_norm.weight", width, 1)
    out.all.append((p + "ssm_a", (inner, n), 0, lambda: decay_of(0.1 * out.rng.standard_normal((inner, n), np.float32)).tobytes()))
    out.vec(p + "ssm_d", inner, 0)
    out.mat(p + "ssm_out.weight", dim, inner)


def space_tensors(out, p, dim, heads, width, groups, n, kernel):
    inner = heads * width
    conv = inner + 2 * groups * n
    out.mat(p + "ssm_in.weight", inner + conv + heads, dim)
    out.mat(p + "ssm_conv1d.weight", conv, kernel, t=0)
    out.vec(p + "ssm_conv1d.bias", conv, 0)
    out.vec(p + "ssm_dt.bias", heads, 0)
    out.all.append((p + "ssm_a", (heads, 1), 0, lambda: decay_of(0.1 * out.rng.standard_normal(heads, np.float32)).tobytes()))
    out.mat(p + "ssm_d", heads, 1, t=0)
    out.all.append((p + "ssm_norm.weight", (groups, inner // groups), 0,
                    lambda: np.float32(1 + 0.1 * out.rng.standard_normal((groups, inner // groups))).tobytes()))
    out.mat(p + "ssm_out.weight", dim, inner)


def is_ffn_only(extra, layer):
    """Returns whether a layer of make_model.py's presets is only a feed-forward."""
    pattern = extra.get("space", [None])[-1]
    return isinstance(pattern, str) and pattern[layer:layer + 1] in ("-", "E")


def attends(extra, layer, n_layers):
    """Returns whether a layer of make_model.py's presets has attention."""
    if "space" in extra and isinstance(extra["space"][-1], str):
        return layer >= n_layers or extra["space"][-1][layer] == "*"
    if "delta" in extra:
        return layer >= n_layers or (layer + 1) % extra["delta"][-1] == 0
    for kind in ("convs", "space", "scan", "kda"):
        if kind in extra:
            return layer >= n_layers or layer in extra[kind][-1]
    return True
