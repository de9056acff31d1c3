"""Layers of Gemma 3n and Gemma 4 in float64, for reference_logits.py."""
import numpy as np

from basic_layers import gated, rms_norm, rope, softmax


def parallel_experts(g, L, x, norm, dense):
    """Returns an MLP, `dense`, plus experts, each with norms before and after (Gemma 4); [T, dim]."""
    dim, eps = x.shape[1], g("attention.layer_norm_rms_epsilon")
    h = norm(x, "pre_ffw_norm_2.weight")
    p = softmax(rms_norm(x, L("ffn_gate_inp.scale"), eps) / np.sqrt(dim) @ L("ffn_gate_inp.weight").T)
    out = np.zeros_like(x)
    for t in range(len(x)):
        chosen = np.argsort(-p[t], kind="stable")[:g("expert_used_count")]
        for e, weight in zip(chosen, p[t, chosen] / p[t, chosen].sum() * L("ffn_down_exps.scale")[chosen]):
            gate, up = np.split(L("ffn_gate_up_exps.weight")[e], 2)
            out[t] += weight * (gated("gemma4", h[t] @ gate.T, h[t] @ up.T) @ L("ffn_down_exps.weight")[e].T)
    return norm(dense, "post_ffw_norm_1.weight") + norm(out, "post_ffw_norm_2.weight")


class LayerKinds:
    """Handles the differences between the layers of Gemma 3n and 4. K and V of a layer are stored for later layers that share them."""

    def __init__(self, g, w, x, tokens):
        self.g, self.w, self.eps = g, w, g("attention.layer_norm_rms_epsilon")
        self.n_layers, self.n_head = g("block_count"), g("attention.head_count")
        self.windowed = g("attention.sliding_window_pattern")[1]
        self.first_shared = self.n_layers - g("attention.shared_kv_layers")
        self.kept = {}
        self.inputs = None
        if "per_layer_token_embd.weight" in w:
            T, width = len(tokens), g("embedding_length_per_layer_input")
            made = (x @ w["per_layer_model_proj.weight"].T / np.sqrt(x.shape[1])).reshape(T, self.n_layers, width)
            table = w["per_layer_token_embd.weight"]
            looked_up = table[[t if t < len(table) else 0 for t in tokens]].reshape(T, self.n_layers, width) * np.sqrt(width)
            self.inputs = (rms_norm(made, w["per_layer_proj_norm.weight"], self.eps) + looked_up) / np.sqrt(2)

    def queries_keys_values(self, i, L, h, pos):
        """Returns q, k, v as [T, heads, head_dim] after RoPE, with K and V repeated for every query head."""
        g, T, local = self.g, len(h), self.windowed[i]
        hd = g("attention.key_length_swa" if local else "attention.key_length")
        base, n = (g("rope.freq_base_swa"), g("rope.dimension_count_swa")) if local else (g("rope.freq_base"), g("rope.dimension_count"))
        f = base ** (-np.arange(0, n, 2) / n) / (1 if local else self.w.get("rope_freqs.weight", 1))
        turn = lambda y: rope(y, pos[:, None] * f, 1, False)
        heads = lambda name: (h @ L(name).T).reshape(T, -1, hd)
        q = turn(rms_norm(heads("attn_q.weight"), L("attn_q_norm.weight"), self.eps))
        if i < self.first_shared:
            k = heads("attn_k.weight")
            v = k if L("attn_v.weight") is None else heads("attn_v.weight")
            k, v = turn(rms_norm(k, L("attn_k_norm.weight"), self.eps)), rms_norm(v, 1, self.eps)
            self.kept[local] = [np.repeat(y, self.n_head // y.shape[1], 1) for y in (k, v)]
        return q, *self.kept[local]

    def behind(self, i, L, x):
        """Applies the per-layer embedding and the output scale after a layer's feed-forward."""
        if self.inputs is not None:
            h = gated("gemma4", x @ L("inp_gate.weight").T, self.inputs[:, i])
            x = x + rms_norm(h @ L("proj.weight").T, L("post_norm.weight"), self.eps)
        return x if L("layer_output_scale.weight") is None else x * L("layer_output_scale.weight")


def cut_off(gate, cutoff):
    """Returns the part of the gate that exceeds mean + cutoff * deviation of a row (Gemma 3n)."""
    if cutoff is None or np.isinf(cutoff):
        return gate
    return np.maximum(gate - (gate.mean(-1, keepdims=True) + cutoff * gate.std(-1, keepdims=True)), 0)


def with_magnitude(x, like):
    """Returns x with the root mean square of `like`."""
    mean_square = lambda y: (y * y).mean(-1, keepdims=True)
    return x * np.sqrt(mean_square(like) / np.maximum(mean_square(x), 1e-5))


class Streams:
    """The residual streams of Gemma 3n (AltUp, Baykal et al. 2023), and the low-rank map beside attention (LAuReL, Menghani et al. 2024)."""

    def __init__(self, g, w, x):
        self.g, self.w, self.eps = g, w, g("attention.layer_norm_rms_epsilon")
        self.all = [x, *(with_magnitude(x @ p.T, x) for p in w["altup_proj.weight"])]

    def modes(self, L, x):
        return np.tanh(rms_norm(x, L("altup_router_norm.weight"), self.eps) / x.shape[1] @ L("altup_router.weight").T)

    def predict(self, L):
        """Predicts all streams before a layer; returns the first."""
        n = len(self.all)
        c = (self.modes(L, self.all[0]) @ L("altup_predict_coef.weight").T).reshape(-1, n, n)
        self.all = [y + sum(c[:, j, i, None] * z for i, z in enumerate(self.all)) for j, y in enumerate(self.all)]
        return self.all[0]

    def join(self, L, x, h):
        """Adds the map of h, the normed first stream, to x, which is the stream with attention."""
        mapped = h @ L("laurel_l.weight").T @ L("laurel_r.weight").T
        return (x + h + rms_norm(mapped, L("laurel_post_norm.weight"), self.eps)) / np.sqrt(2)

    def correct(self, i, L, x, inputs):
        """Corrects the streams by a layer's output; `inputs` are the per-layer inputs, [T, layers, width]."""
        c = 1 + self.modes(L, x) @ L("altup_correct_coef.weight").T
        change = x - self.all[0]
        self.all = [y + c[:, j, None] * change for j, y in enumerate(self.all)]
        h = gated("gemma3n", self.all[0] * L("altup_correct_scale.weight") @ L("inp_gate.weight").T, inputs[:, i])
        added = rms_norm(h @ L("proj.weight").T, L("post_norm.weight"), self.eps)
        self.all[1:] = [y + added for y in self.all[1:]]

    def finish(self):
        first, *others = self.all
        projected = (with_magnitude(y @ p.T, first) for y, p in zip(others, self.w["altup_unembd_proj.weight"]))
        return (first + sum(projected)) / len(self.all)
