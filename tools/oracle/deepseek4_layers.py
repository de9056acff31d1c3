"""The layers of DeepSeek V4 (deepseek4) in float64, for reference_logits.py: hyper-connections whose mix is doubly stochastic, attention to a window
and to entries of several tokens, experts by a table of tokens."""
import numpy as np

from basic_layers import rms_norm, rope, softmax
from state_layers import sigmoid, silu


def stream_weights(g, rows, part):
    """Returns the weights pre [T, n], post [T, n] and mix [T, n, n] of n streams, which are the rows [T, n · dim]; of the output, pre alone."""
    n, eps = g("hyper_connection.count"), g("hyper_connection.epsilon")
    normed = rows / np.sqrt((rows * rows).mean(-1, keepdims=True) + g("attention.layer_norm_rms_epsilon"))
    x, base, scale = normed @ part("fn").T, part("base"), part("scale")
    pre = sigmoid(x[:, :n] * scale[0] + base[:n]) + eps
    if len(scale) == 1:
        return pre
    post = 2 * sigmoid(x[:, n:2 * n] * scale[1] + base[n:2 * n])
    mix = softmax((x[:, 2 * n:] * scale[2] + base[2 * n:]).reshape(-1, n, n)) + eps
    for i in range(2 * g("hyper_connection.sinkhorn_iterations") - 1):  # columns first, then rows and columns in turn
        mix = mix / (mix.sum(1 if i % 2 == 0 else 2, keepdims=True) + eps)
    return pre, post, mix


class Attention:
    def __init__(self, g):
        self.g, self.eps, self.hd, self.n_head = g, g("attention.layer_norm_rms_epsilon"), g("attention.key_length"), g("attention.head_count")
        self.n_dims = g("rope.dimension_count")

    def turn(self, x, pos, frequencies, back=False):
        """Rotates the last dimensions of x [T, heads, dims]."""
        angles = np.asarray(pos, np.float64)[:, None] * frequencies * (-1 if back else 1)
        return np.concatenate([x[..., :-self.n_dims], rope(x[..., -self.n_dims:], angles, 1.0, True)], -1)

    def entries(self, L, h, prefix, n_tokens, frequencies):
        """Returns the entries of complete groups of n_tokens, [n, dim]. With 4 tokens, an entry also has those of the group before."""
        values, gates = (h @ L(f"{prefix}_{part}.weight").T for part in ("kv", "gate"))
        n, dim = len(h) // n_tokens, len(L(f"{prefix}_norm.weight"))
        gates = gates[:n * n_tokens] + np.tile(L(f"{prefix}_ape.weight"), (n, 1))
        values, gates = (x[:n * n_tokens].reshape(n, n_tokens, values.shape[1]) for x in (values, gates))
        if values.shape[2] > dim:
            before = lambda x, fill: np.concatenate([np.full_like(x[:1, :, :dim], fill), x[:-1, :, :dim]])
            values = np.concatenate([before(values, 0), values[..., dim:]], 1)
            gates = np.concatenate([before(gates, -np.inf), gates[..., dim:]], 1)
        weights = softmax(gates.swapaxes(1, 2)).swapaxes(1, 2)
        means = rms_norm((weights * values).sum(1), L(f"{prefix}_norm.weight"), self.eps)
        return self.turn(means[:, None], n_tokens * np.arange(n), frequencies)[:, 0]

    def selected(self, L, h, low_q, keys, pos, n_tokens, frequencies):
        """Returns which entries each row attends to, [T, n]. Among equal scores, the earlier entries come first."""
        is_seen = np.arange(len(keys)) < (pos[:, None].astype(int) + 1) // n_tokens
        if L("indexer.proj.weight") is None:
            return is_seen
        q = self.turn((low_q @ L("indexer.attn_q_b.weight").T).reshape(len(h), -1, keys.shape[1]), pos, frequencies)
        scores = (np.maximum(np.einsum("thd,ed->the", q, keys), 0) * (h @ L("indexer.proj.weight").T)[..., None]).sum(1)
        best = np.argsort(-np.where(is_seen, scores, -np.inf), 1, kind="stable")[:, :self.g("attention.indexer.top_k")]
        chosen = np.zeros_like(is_seen)
        np.put_along_axis(chosen, best, True, 1)
        return chosen & is_seen

    def forward(self, L, h, n_tokens, frequencies):
        T, pos = len(h), np.arange(len(h), dtype=np.float64)
        low_q = rms_norm(h @ L("attn_q_a.weight").T, L("attn_q_a_norm.weight"), self.eps)
        q = (low_q @ L("attn_q_b.weight").T).reshape(T, self.n_head, self.hd)
        q = self.turn(rms_norm(q, 1, self.eps), pos, frequencies)
        k = self.turn(rms_norm(h @ L("attn_kv.weight").T, L("attn_kv_a_norm.weight"), self.eps)[:, None], pos, frequencies)[:, 0]
        distance = pos[:, None] - pos[None]
        is_seen = (distance >= 0) & (distance < self.g("attention.sliding_window"))
        if n_tokens:
            entries = self.entries(L, h, "attn_compressor", n_tokens, frequencies)
            keys = entries if L("indexer.proj.weight") is None else self.entries(L, h, "indexer_compressor", n_tokens, frequencies)
            k = np.concatenate([k, entries])
            is_seen = np.concatenate([is_seen, self.selected(L, h, low_q, keys, pos, n_tokens, frequencies)], 1)
        s = np.where(is_seen, np.einsum("thd,sd->hts", q, k) / np.sqrt(self.hd), -np.inf)
        s = np.concatenate([s, np.broadcast_to(L("attn_sinks.weight")[:, None, None], (self.n_head, T, 1))], 2)
        out = np.einsum("hts,sd->thd", softmax(s)[..., :-1], k)
        out = self.turn(out, pos, frequencies, back=True).reshape(T, self.g("attention.output_group_count"), -1)
        groups = L("attn_output_a.weight").reshape(out.shape[1], -1, out.shape[2])
        return np.einsum("tgi,goi->tgo", out, groups).reshape(T, -1) @ L("attn_output_b.weight").T


def gated(gate, up, limit):
    return silu(np.minimum(gate, limit)) * np.clip(up, -limit, limit)


def experts(g, L, h, tokens, limit):
    p = np.sqrt(np.logaddexp(0, h @ L("ffn_gate_inp.weight").T))
    out = gated(h @ L("ffn_gate_shexp.weight").T, h @ L("ffn_up_shexp.weight").T, limit) @ L("ffn_down_shexp.weight").T
    for t, row in enumerate(h):
        if L("ffn_gate_tid2eid.weight") is not None:
            chosen = L("ffn_gate_tid2eid.weight")[tokens[t]].astype(int)
        else:
            chosen = np.argsort(-(p[t] + L("exp_probs_b.bias")), kind="stable")[:g("expert_used_count")]
        weights = p[t, chosen] / p[t, chosen].sum() * g("expert_weights_scale", 1.0)
        for e, weight in zip(chosen, weights):
            both = gated(L("ffn_gate_exps.weight")[e] @ row, L("ffn_up_exps.weight")[e] @ row, limit)
            out[t] += weight * (L("ffn_down_exps.weight")[e] @ both)
    return out


def output(g, w, x, tokens, frequencies, embedded=None):
    """Returns the output of the layers for their input x [T, dim]. frequencies: (of layers with entries, of the others). With `embedded`, the
    embeddings of all tokens but the first, returns the output of the MTP layer: its streams are projections of a token's embedding and of each stream
    of the token before."""
    n, eps = g("hyper_connection.count"), g("attention.layer_norm_rms_epsilon")
    attention = Attention(g)
    streams = np.repeat(x[:, None], n, 1)

    def half(streams, part, norm, f):
        pre, post, mix = stream_weights(g, streams.reshape(len(streams), -1), part)
        out = f(rms_norm((pre[..., None] * streams).sum(1), norm, eps))
        return post[..., None] * out[:, None] + np.einsum("tij,tid->tjd", mix, streams)

    n_layers = g("block_count") - g("nextn_predict_layers", 0)
    for i in range(n_layers + (embedded is not None)):
        L = lambda name, i=i: w.get(f"blk.{i}.{name}")
        if i == n_layers:
            pairs = [np.repeat(rms_norm(embedded, L("nextn.enorm.weight"), eps)[:, None], n, 1), rms_norm(streams[:-1], L("nextn.hnorm.weight"), eps)]
            streams = np.concatenate(pairs, -1) @ L("nextn.eh_proj.weight").T
        ratio = g("attention.compress_ratios")[1][i]
        limit = g("swiglu_clamp_exp")
        limit = limit[1][i] if isinstance(limit, tuple) else limit
        streams = half(streams, lambda part: L(f"hc_attn_{part}.weight"), L("attn_norm.weight"),
                       lambda h: attention.forward(L, h, ratio, frequencies[0 if ratio else 1]))
        streams = half(streams, lambda part: L(f"hc_ffn_{part}.weight"), L("ffn_norm.weight"), lambda h: experts(g, L, h, tokens, limit))
    own = f"blk.{n_layers}.nextn.hc_head_"
    head = own if embedded is not None and f"{own}fn.weight" in w else "output_hc_"
    pre = stream_weights(g, streams.reshape(len(streams), -1), lambda part: w[f"{head}{part}.weight"])
    return (pre[..., None] * streams).sum(1)
