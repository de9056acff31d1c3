"""Layers with multi-head latent attention (MLA) and their indexers, for reference_logits.py."""
import numpy as np

from basic_layers import layer_norm, rms_norm, rope, softmax
from family_features import feature


def latent_scale(g):
    """Returns the scale of scores."""
    factor, multiplier = g("rope.scaling.factor", 1.0), 10 * g("rope.scaling.yarn_log_multiplier", 0)
    return (1 + 0.1 * multiplier * np.log(factor)) ** 2 / np.sqrt(g("attention.key_length_mla"))


def ssmax(q, pos, scale, bias):
    """Returns q [T, heads, dim] times scale · ln(position + 1) + bias of each head (Nakanishi 2025)."""
    return q if scale is None else q * (np.log(pos + 1)[:, None] * scale + bias)[..., None]


class LatentLayers:
    """The layers of a model in their order: layers may share the latent vectors and the selected tokens of earlier ones."""

    def __init__(self, g, freqs, magnitude, eps):
        self.g, self.freqs, self.magnitude, self.eps = g, freqs, magnitude, eps
        self.latents = {}  # by layer: the normed latent vectors and the rotated dimensions of K
        self.is_selected = None

    def is_rotated(self, layer):
        listed = self.g("rope.layers")
        return listed[1][layer] if listed else feature(self.g("", ""), "unrotated_every") != 1

    def turn(self, layer, y, pos, interleaved=True):
        return rope(y, pos[:, None] * self.freqs, self.magnitude, interleaved) if self.is_rotated(layer) else y

    def latent_of(self, layer, L, h, pos):
        rank, sources = self.g("attention.kv_lora_rank"), self.g("attention.kv_source_layers")
        source = sources[1][layer] if sources else layer
        if source == layer:
            latent, turned = np.split(h @ L("attn_kv_a_mqa.weight").T, [rank], 1)
            self.latents[layer] = rms_norm(latent, L("attn_kv_a_norm.weight"), self.eps), self.turn(layer, turned[:, None], pos)
        return self.latents[source]

    def queries_keys_values(self, layer, L, h, n_head, pos):
        """Returns q, k, v as [T, heads, …] after RoPE, with separate K and V for every head."""
        g, T = self.g, len(h)
        q_dim, value = g("attention.key_length_mla"), g("attention.value_length_mla")
        latent, turned = self.latent_of(layer, L, h, pos)
        still = q_dim - turned.shape[-1]
        if L("attn_q_a.weight") is None:
            q = h @ L("attn_q.weight").T
        else:
            q = rms_norm(h @ L("attn_q_a.weight").T, L("attn_q_a_norm.weight"), self.eps) @ L("attn_q_b.weight").T
        q = q.reshape(T, n_head, q_dim)
        q = np.concatenate([q[..., :still], self.turn(layer, q[..., still:], pos)], -1)
        if L("attn_kv_b.weight") is not None:
            k, v = np.split((latent @ L("attn_kv_b.weight").T).reshape(T, n_head, still + value), [still], 2)
        else:
            k = np.einsum("tr,hrs->ths", latent, L("attn_k_b.weight"))
            v = np.einsum("tr,hvr->thv", latent, L("attn_v_b.weight"))
        k = np.concatenate([k, np.repeat(turned, n_head, 1)], -1)
        return ssmax(q, pos, L("attn_ssmax.weight"), L("attn_ssmax.bias")), k, v

    def selected(self, layer, L, h, pos):
        """Returns which tokens each row attends to, [T, T]: those that the last layer with an indexer has selected; None for all."""
        if L("indexer.attn_k.weight") is not None:
            self.is_selected = self.select(layer, L, h, pos)
        return self.is_selected

    def select(self, layer, L, h, pos):
        """Returns the n tokens with the highest index scores, Σh w[h] · max(q[h] · k, 0) (DeepSeek-V3.2, 2025), or whole blocks of tokens by their keys,
        and the tokens after the last whole block (GLM 5.3, 2026). Among equal scores, the earlier ones come first."""
        g, T = self.g, len(h)
        n_heads, dim, rope_dims = g("attention.indexer.head_count"), g("attention.indexer.key_length"), g("rope.dimension_count")
        pairs = not feature(g("", ""), "index_halves")
        turn = lambda y: np.concatenate([self.turn(layer, y[..., :rope_dims], pos, pairs), y[..., rope_dims:]], -1)
        if L("indexer.q_input_norm.weight") is None:
            inputs = rms_norm(h @ L("attn_q_a.weight").T, L("attn_q_a_norm.weight"), self.eps)
        else:
            inputs = layer_norm(h, L("indexer.q_input_norm.weight"), L("indexer.q_input_norm.bias"), 1e-6)
        q = ssmax((inputs @ L("indexer.attn_q_b.weight").T).reshape(T, n_heads, dim), pos, L("indexer.ssmax.weight"), L("indexer.ssmax.bias"))
        k = layer_norm(h @ L("indexer.attn_k.weight").T, L("indexer.k_norm.weight"), L("indexer.k_norm.bias"), 1e-6)
        weights = h @ L("indexer.proj.weight").T / np.sqrt(n_heads * dim)
        block = g("attention.indexer.kpool", 1)
        keys = turn(k[:, None])[:, 0] if block == 1 else self.block_keys(L, h, k, block)
        scores = np.einsum("th,ths->ts", weights, np.maximum(np.einsum("thd,sd->ths", turn(q), keys), 0))
        places = pos - pos[0]  # an MTP layer begins at the second token
        n_whole = (places[:, None] + 1) // block  # blocks that a row could attend to
        scores[n_whole <= np.arange(len(keys))] = -np.inf
        chosen = np.argsort(-scores, 1, kind="stable")[:, :g("attention.indexer.top_k") // block]
        is_chosen = np.zeros(scores.shape, bool)
        np.put_along_axis(is_chosen, chosen, True, 1)
        is_selected = np.zeros((T, T), bool)
        is_selected[:, :len(keys) * block] = np.repeat(is_chosen & np.isfinite(scores), block, 1)
        return is_selected | (places[None] >= n_whole * block)

    @staticmethod
    def block_keys(L, h, k, block):
        """Returns the keys of whole blocks: means of their tokens' keys, in each dimension weighted by a softmax over the tokens."""
        n, dim = len(h) // block, k.shape[1]
        logits = (h @ L("indexer_compressor_gate.weight").T)[:n * block].reshape(n, block, dim) + L("indexer_compressor_ape.weight")
        return (softmax(logits.swapaxes(1, 2)).swapaxes(1, 2) * k[:n * block].reshape(n, block, dim)).sum(1)

    def attention(self, layer, L, h, n_head, pos):
        """Returns the output of attention to the selected tokens."""
        q, k, v = self.queries_keys_values(layer, L, h, n_head, pos)
        is_seen = (pos[:, None] >= pos[None]) & self.selected(layer, L, h, pos)
        s = np.where(is_seen, np.einsum("thd,shd->hts", q, k) * latent_scale(self.g), -np.inf)
        return np.einsum("hts,shd->thd", softmax(s), v).reshape(len(h), -1) @ L("attn_output.weight").T
