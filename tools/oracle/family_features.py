"""The features that the families have beside those of a Llama model, for reference_logits.py.

A family of known parts needs a line here. Features:
  interleaved: RoPE rotates the dimensions (2i, 2i + 1), not (i, i + half)
  global_every: every n-th layer has full attention if the model has windows
  global_unrotated: such layers have no RoPE; unrotated_every: every n-th layer has none
  window_unscaled: the scaling of RoPE does not apply to layers with windows
  norm_after_rope: q and k are normalized after RoPE
  ffn_norm: name of the norm before the feed-forward block
  latent: MLA, whose YaRN scales scores instead of RoPE
  index_halves: RoPE of an indexer rotates the dimensions (i, i + half), although that of attention does not
  raw_weights: the weights of the chosen experts are not normalized unless a key says so
  fused_mlp: one tensor for gate and up
  layer_norm: norms subtract the mean, too
  parallel: attention and MLP read the input of the layer
  logit_factor: the logits are multiplied by "logit_scale"
  post_eps: epsilon of the norms of outputs
  embedding: of the embeddings: "sqrt", a factor of sqrt(dim), or "norm", a norm without weights
  plain: activation of an MLP without a gate
  averages_shared: the output of shared experts is averaged with that of the others
  sigmoid: scores of experts are sigmoids unless a key says so
  weighs_input: the weight of an expert is a factor of its input
  chunked: layers with windows attend within chunks of that size; they alone have norms of Q and K, without weights and after RoPE, and the others have
           an attention temperature, with positions counted from 1
  global_first: the first of global_every layers has full attention, not the last
  sandwich: recurrent layers have norms after both halves, too
  softplus: function of the output gate, not a sigmoid
  global_halved: layers without windows rotate half of the dimensions that the file states
  beside: Mamba 2 in parallel with attention
  mtp_raw: MTP layers read the hidden state before the last norm
  rotates_dense: layers without experts have RoPE in any case
"""

POST = "post_attention_norm.weight"
FEATURES = {
    "llama": {"interleaved": True},
    "granite": {"interleaved": True},
    "granitemoe": {"interleaved": True},
    "granitehybrid": {"interleaved": True},
    "graniteswitch": {"interleaved": True},
    "mistral3": {"interleaved": True},
    "phi3": {"fused_mlp": True},
    "qwen2moe": {"raw_weights": True},
    "qwen35": {"ffn_norm": POST},
    "qwen35moe": {"ffn_norm": POST},
    "qwen3next": {"ffn_norm": POST},
    "glm4moe": {"ffn_norm": POST, "raw_weights": True},
    "deepseek2": {"raw_weights": True, "latent": True},
    "deepseek32": {"latent": True, "sigmoid": True, "index_halves": True},
    "glm-dsa": {"latent": True, "sigmoid": True},
    "minimax-m3": {"sigmoid": True},
    "mistral4": {"raw_weights": True, "latent": True},
    "mistral-large4": {"latent": True},
    "glm5-next": {"latent": True, "unrotated_every": 1, "sigmoid": True},
    "gemma2": {"global_every": 2},
    "gemma3": {"global_every": 6},
    "gpt-oss": {"ffn_norm": POST, "global_every": 2},
    "olmo2": {"global_every": 4, "window_unscaled": True},
    "olmoe": {"raw_weights": True},
    "smollm3": {"interleaved": True, "unrotated_every": 4},
    "seed_oss": {"ffn_norm": POST},
    "exaone4": {"global_every": 4, "global_unrotated": True},
    "exaone-moe": {"global_every": 4, "global_unrotated": True},
    "ernie4_5": {"interleaved": True},
    "ernie4_5-moe": {"interleaved": True},
    "glm4": {"interleaved": True, "fused_mlp": True},
    "arcee": {"interleaved": True},
    "dots1": {"raw_weights": True},
    "hunyuan-dense": {"norm_after_rope": True},
    "hunyuan-moe": {"norm_after_rope": True},
    "afmoe": {"global_every": 4, "global_unrotated": True, "embedding": "sqrt"},
    "muse-glimmer": {"interleaved": True, "global_every": 4, "global_unrotated": True, "logit_factor": True, "post_eps": 1e-8, "embedding": "norm"},
    "command-r": {"interleaved": True, "layer_norm": True, "parallel": True, "logit_factor": True, "ffn_norm": "attn_norm.weight"},
    "cohere2": {"interleaved": True, "layer_norm": True, "parallel": True, "logit_factor": True, "ffn_norm": "attn_norm.weight",
                "global_every": 4, "global_unrotated": True},
    "cohere2moe": {"interleaved": True, "layer_norm": True, "parallel": True, "logit_factor": True, "ffn_norm": "attn_norm.weight",
                   "global_every": 4, "global_unrotated": True, "averages_shared": True, "rotates_dense": True},
    "llama4": {"interleaved": True, "global_every": 4, "unrotated_every": 4, "chunked": True, "sigmoid": True, "raw_weights": True, "weighs_input": True},
    "laguna": {"global_every": 4, "global_first": True, "window_unscaled": True, "softplus": True},
    "lfm3": {"window_unscaled": True, "sandwich": True},
    "mimo2": {"window_unscaled": True},
    "step35": {"global_every": 4, "global_first": True, "window_unscaled": True, "global_halved": True, "sigmoid": True,
               "mtp_raw": True},
    "falcon-h1": {"beside": True, "ffn_norm": "ffn_norm", "logit_factor": True},
    "jamba": {"raw_weights": True},
    "kimi-linear": {"latent": True, "unrotated_every": 1, "sigmoid": True},
    "bailingmoe3": {"latent": True, "sigmoid": True},
    "gptneox": {"layer_norm": True, "parallel": True, "plain": "gelu"},
    "starcoder": {"layer_norm": True, "plain": "gelu_tanh", "unrotated_every": 1},
    "nemotron": {"layer_norm": True},
    "gpt2": {"layer_norm": True, "plain": "gelu_tanh", "unrotated_every": 1},
    "starcoder2": {"layer_norm": True, "plain": "gelu_tanh"},
    "phi2": {"layer_norm": True, "parallel": True, "ffn_norm": "attn_norm.weight", "plain": "gelu_tanh"},
}


def feature(arch, name, otherwise=None):
    return FEATURES.get(arch, {}).get(name, otherwise)


def is_windowed(arch, layer):
    """Returns whether a layer has the window of its model."""
    every = feature(arch, "global_every", 1)
    return every == 1 or (layer + (not feature(arch, "global_first"))) % every != 0


def is_rotated(arch, layer, is_global):
    """Returns whether a layer has RoPE. is_global: it has full attention beside layers with a window."""
    if is_global and feature(arch, "global_unrotated"):
        return False
    return not feature(arch, "unrotated_every") or (layer + 1) % feature(arch, "unrotated_every") != 0
