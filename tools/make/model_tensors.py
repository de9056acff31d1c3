"""The tensors of random models, for make_model.py: their names, shapes, types and values."""
import numpy as np

import oracle_path  # noqa: F401
from gguf_file import BLOCK, F16, F32, MIXES, Q4_0, Q8_0, ROW_HEADER, TYPES, encode, nbytes, NUMBERS


def matrix_type(wanted, name, n_cols, n_layers, tied):
    """Returns the element type of one matrix: `wanted`, a key of TYPES, or the type that llama.cpp's mix of that name selects.

    Where rows are not a multiple of 256, llama.cpp falls back to Q5_0, Q5_1 or Q8_0; this function always falls back to Q8_0. MXFP4 is used
    only for experts, as in gpt-oss; everything else is then Q8_0.
    """
    if wanted == "mxfp4" and not name.endswith("_exps.weight"):
        wanted = "q8_0"
    most, more = MIXES.get(wanted, (TYPES.get(wanted), TYPES.get(wanted)))
    layer = int(name.split(".")[1]) if name.startswith("blk.") else 0
    eighth = n_layers // 8
    first_last_or_third = layer < eighth or layer >= 7 * n_layers // 8 or (layer - eighth) % 3 == 2
    is_head = name == "output.weight" or (tied and name == "token_embd.weight")
    t = more if is_head or (name.endswith((".attn_v.weight", ".ffn_down.weight", ".ffn_down_exps.weight", ".ffn_down_shexp.weight")) and first_last_or_third) else most
    if BLOCK[t][0] == 256 and n_cols % 256:
        t = Q8_0
    return F16 if n_cols % BLOCK[t][0] else t


def quantized_noise(rng, shape, std, t):
    """Returns a large matrix composed of runs of 256 values that are quantized once, because a searching quantizer would take minutes for a
    billion values. Rows are whole runs, or whole blocks if a run has several."""
    raw = np.frombuffer(encode(rng.standard_normal(256 * 8192, np.float32) * np.float32(std), t), np.uint8)
    header, pool = raw[:ROW_HEADER.get(t, 0)], raw[ROW_HEADER.get(t, 0):].reshape(8192, -1)
    n_rows = int(np.prod(shape[:-1]))
    n_bytes = nbytes(shape, t) - n_rows * len(header)
    blocks = pool[rng.integers(0, len(pool), -(-n_bytes // pool.shape[1]))].reshape(-1)[:n_bytes]
    return np.concatenate([np.broadcast_to(header, (n_rows, len(header))), blocks.reshape(n_rows, -1)], 1).tobytes()


class Tensors:
    """The tensors of a model: (name, shape rows-first, type, function that makes the bytes)."""

    def __init__(self, wanted, n_layer, tied, seed):
        self.wanted, self.n_layer, self.tied = wanted, n_layer, tied
        self.fused_kv = False  # true for files of 2024
        self.lacks_qk_norm = False
        self.rng = np.random.default_rng(seed)
        self.all = []

    def mat(self, name, *shape, gain=1.0, t=None):
        t = matrix_type(self.wanted, name, shape[-1], self.n_layer, self.tied) if t is None else t
        std = gain / np.sqrt(shape[-1])
        if BLOCK[t][0] > 1 and t not in (Q4_0, Q8_0) and np.prod(shape) > 2**22:
            make = lambda: quantized_noise(self.rng, shape, std, t)
        else:
            make = lambda: encode(self.rng.standard_normal(shape, np.float32) * np.float32(std), t)
        self.all.append((name, shape, t, make))

    def vec(self, name, n, centre, factor=1.0):
        self.all.append((name, (n,), F32, lambda: encode(factor * (centre + 0.1 * self.rng.standard_normal(n)), F32)))

    def norm(self, name, family, dim):
        self.vec(name + ".weight", dim, 1)
        if family.get("layer_norm") == "biased":
            self.vec(name + ".bias", dim, 0)

    def values(self, name, x):
        self.all.append((name, (len(x),), F32, lambda: encode(np.asarray(x), F32)))

    def adapters(self, p, n, rank, dim, q_dim, kv_dim, ffn):
        """Adds the factors of a layer's changes by n adapters, after those of none, which change nothing."""
        for name, n_rows, n_cols in (("attn_q", q_dim, dim), ("attn_k", kv_dim, dim), ("attn_v", kv_dim, dim), ("attn_output", dim, q_dim),
                                     ("ffn_gate", ffn, dim), ("ffn_up", ffn, dim), ("ffn_down", dim, ffn)):
            self.mat(p + name + ".lora_a", n + 1, rank, n_cols, t=F32)
            self.all.append((p + name + ".lora_b", (n + 1, n_rows, rank), F32, lambda r=n_rows: encode(self.changes(n, r, rank), F32)))

    def changes(self, n, n_rows, rank):
        return np.concatenate([np.zeros((1, n_rows, rank)), self.rng.standard_normal((n, n_rows, rank)) / np.sqrt(rank)]).astype(np.float32)

    def latent_attention(self, p, family, dim, n_head, rank, q_rank, still, rope_dims, value, has_k=True):
        self.vec(p + "attn_norm.weight", dim, 1)
        if q_rank:
            self.mat(p + "attn_q_a.weight", q_rank, dim)
            self.vec(p + "attn_q_a_norm.weight", q_rank, 1)
            self.mat(p + "attn_q_b.weight", n_head * (still + rope_dims), q_rank)
        else:
            self.mat(p + "attn_q.weight", n_head * (still + rope_dims), dim)
        if has_k:
            self.mat(p + "attn_kv_a_mqa.weight", rank + rope_dims, dim)
            self.vec(p + "attn_kv_a_norm.weight", rank, 1)
        if self.fused_kv:
            self.mat(p + "attn_kv_b.weight", n_head * (still + value), rank)
        else:
            self.mat(p + "attn_k_b.weight", n_head, rank, still, gain=np.sqrt(still / rank))
            self.mat(p + "attn_v_b.weight", n_head, value, rank)
        if family.get("own_gate"):
            self.mat(p + "attn_gate.weight", n_head, dim)
        if family.get("ssmax"):
            self.ssmax(p + "attn_ssmax", n_head)
        self.mat(p + "attn_output.weight", dim, n_head * value)

    def ssmax(self, name, n_heads):
        """Adds the numbers from which the scale of each head's queries follows."""
        self.vec(name + ".weight", n_heads, 0)
        self.vec(name + ".bias", n_heads, 1)

    def indexer(self, p, family, dim, q_rank, n_heads, head_dim):
        self.mat(p + "indexer.attn_q_b.weight", n_heads * head_dim, q_rank or dim)
        if family.get("ssmax"):
            self.vec(p + "indexer.q_input_norm.weight", dim, 1)
            self.vec(p + "indexer.q_input_norm.bias", dim, 0)
            self.ssmax(p + "indexer.ssmax", n_heads)
        self.mat(p + "indexer.attn_k.weight", head_dim, dim)
        self.vec(p + "indexer.k_norm.weight", head_dim, 1)
        self.vec(p + "indexer.k_norm.bias", head_dim, 0)
        self.mat(p + "indexer.proj.weight", n_heads, dim, t=F32)

    def joint_attention(self, p, dim, n_head, hd, joint, n_tokens, indexer):
        """Attention with K and V as one vector, and entries of n_tokens, of which an indexer selects those of 4."""
        q_rank, n_groups, group_rank = joint
        self.vec(p + "attn_norm.weight", dim, 1)
        self.mat(p + "attn_q_a.weight", q_rank, dim)
        self.vec(p + "attn_q_a_norm.weight", q_rank, 1)
        self.mat(p + "attn_q_b.weight", n_head * hd, q_rank)
        self.mat(p + "attn_kv.weight", hd, dim)
        self.vec(p + "attn_kv_a_norm.weight", hd, 1)
        self.mat(p + "attn_output_a.weight", n_groups * group_rank, n_head * hd // n_groups)
        self.mat(p + "attn_output_b.weight", dim, n_groups * group_rank)
        self.vec(p + "attn_sinks.weight", n_head, 0)
        parts = 2 if n_tokens == 4 else 1
        for prefix, width in (("attn_compressor", hd), ("indexer_compressor", indexer[1]))[:parts if n_tokens else 0]:
            for part in ("kv", "gate"):
                self.mat(f"{p}{prefix}_{part}.weight", parts * width, dim)
            self.mat(f"{p}{prefix}_ape.weight", n_tokens, parts * width, t=F32)
            self.vec(f"{p}{prefix}_norm.weight", width, 1)
        if n_tokens == 4:
            self.mat(p + "indexer.attn_q_b.weight", indexer[0] * indexer[1], q_rank)
            self.mat(p + "indexer.proj.weight", indexer[0], dim, t=F32)

    def mixed_streams(self, p, dim, n, is_output=False):
        """Hyper-connections whose mix is doubly stochastic."""
        rows = n if is_output else (2 + n) * n
        self.mat(p + "fn.weight", rows, n * dim, t=F32)
        self.vec(p + "base.weight", rows, 0)
        self.vec(p + "scale.weight", 1 if is_output else 3, 1)

    def token_table(self, p, n_vocab, n, n_used):
        """The experts of each token."""
        make = lambda: np.argsort(self.rng.random((n_vocab, n)), 1)[:, :n_used].astype("<i4").tobytes()
        self.all.append((p + "ffn_gate_tid2eid.weight", (n_vocab, n_used), NUMBERS, make))

    def index_means(self, p, dim, head_dim, block):
        """Adds the tensors of the weights of an index key in the mean of its block."""
        self.mat(p + "indexer_compressor_gate.weight", head_dim, dim, t=F32)
        self.mat(p + "indexer_compressor_ape.weight", block, head_dim, t=F32)

    def block_indexer(self, p, dim, n_heads, head_dim):
        self.mat(p + "indexer.q_proj.weight", n_heads * head_dim, dim)
        self.mat(p + "indexer.k_proj.weight", head_dim, dim)
        self.vec(p + "indexer.q_norm.weight", head_dim, 1)
        self.vec(p + "indexer.k_norm.weight", head_dim, 1)

    def attention(self, p, family, dim, q_dim, kv_dim, hd, kv=("k", "v")):
        if family.get("norms") not in ("after", "streams"):
            self.norm(p + "attn_norm", family, dim)
        if family.get("fused_qkv"):
            self.mat(p + "attn_qkv.weight", q_dim + 2 * kv_dim, dim)
        else:
            self.mat(p + "attn_q.weight", 2 * q_dim if family.get("gated") else q_dim, dim)
            for name in kv:
                self.mat(p + f"attn_{name}.weight", kv_dim // hd * family.get("value_dim", hd) if name == "v" else kv_dim, dim)
        if family.get("own_gate"):
            self.mat(p + "attn_gate.weight", q_dim // hd if family["own_gate"] == "head" else q_dim, dim)
        self.mat(p + "attn_output.weight", dim, q_dim // hd * family.get("value_dim", hd))
        if family.get("output_bias"):
            self.vec(p + "attn_output.bias", dim, 0)
        if family.get("sinks"):
            self.vec(p + "attn_sinks.weight", q_dim // hd, 0)
        if family.get("bias") and family.get("fused_qkv"):
            self.vec(p + "attn_qkv.bias", q_dim + 2 * kv_dim, 0)
        elif family.get("bias"):
            self.vec(p + "attn_q.bias", q_dim, 0)
            self.vec(p + "attn_k.bias", kv_dim, 0)
            self.vec(p + "attn_v.bias", kv_dim, 0)
        if "q_factor" in family:
            self.values(p + "attn_q_norm.weight", np.full(hd, family["q_factor"]))
            self.values(p + "attn_k_norm.weight", np.ones(hd))
        elif family.get("qk_norm") == "layer" and not self.lacks_qk_norm:  # weights for each head
            for name, dims in (("q", q_dim), ("k", kv_dim)):
                self.stack_of_vectors(p + f"attn_{name}_norm.weight", dims // hd, hd, center=1)
        elif "qk_norm" in family and not self.lacks_qk_norm:
            self.vec(p + "attn_q_norm.weight", hd if family["qk_norm"] == "head" else q_dim, 1)
            if kv:
                # If nothing else scales the scores, this norm does.
                self.vec(p + "attn_k_norm.weight", hd if family["qk_norm"] == "head" else kv_dim, 1, hd**-0.5 if family.get("unscaled") else 1.0)
        if family.get("norms") in ("after", "both"):
            self.post_norms(p, dim)

    def post_norms(self, p, dim):
        self.vec(p + "post_attention_norm.weight", dim, 1)
        self.vec(p + "post_ffw_norm.weight", dim, 1)

    def parallel_experts(self, p, dim, experts):
        """Adds Gemma 4's experts, which run in parallel with an MLP."""
        n, _, expert_ffn = experts
        self.mat(p + "ffn_gate_inp.weight", n, dim, t=F32, gain=np.sqrt(dim))
        self.vec(p + "ffn_gate_inp.scale", dim, 1)
        self.mat(p + "ffn_gate_up_exps.weight", n, 2 * expert_ffn, dim)
        self.mat(p + "ffn_down_exps.weight", n, dim, expert_ffn)
        self.vec(p + "ffn_down_exps.scale", n, 1)
        for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
            self.vec(p + name + ".weight", dim, 1)

    def per_layer_embedding(self, n_vocab, n_layer, dim, width):
        if width:
            self.mat("per_layer_token_embd.weight", n_vocab, n_layer * width, gain=np.sqrt(n_layer))
            self.mat("per_layer_model_proj.weight", n_layer * width, dim)
            self.vec("per_layer_proj_norm.weight", width, 1)

    def per_layer_input(self, p, dim, width):
        if width:
            self.mat(p + "inp_gate.weight", width, dim)
            self.mat(p + "proj.weight", dim, width)
            self.vec(p + "post_norm.weight", dim, 1)

    def stream_projections(self, dim, n):
        self.mat("altup_proj.weight", n - 1, dim, dim)
        self.mat("altup_unembd_proj.weight", n - 1, dim, dim)

    def streams(self, p, dim, n, rank):
        """Adds the tensors of a layer with several residual streams (Gemma 3n)."""
        self.vec(p + "altup_router_norm.weight", dim, 1)
        self.mat(p + "altup_router.weight", n, dim, gain=np.sqrt(dim), t=F32)
        self.mat(p + "altup_predict_coef.weight", n * n, n, gain=0.5, t=F32)
        self.mat(p + "altup_correct_coef.weight", n, n, gain=0.5, t=F32)
        self.vec(p + "altup_correct_scale.weight", dim, 1)
        self.mat(p + "laurel_l.weight", rank, dim)
        self.mat(p + "laurel_r.weight", dim, rank)
        self.vec(p + "laurel_post_norm.weight", dim, 1)

    def hyper_connections(self, p, dim, n, rank, injects=True):
        self.vec(p + "norm.weight", n * dim, 1)
        self.mat(p + "down.weight", rank, n * dim)
        self.mat(p + "up.weight", n * dim, rank)
        if injects:
            self.mat(p + "inject.weight", n, n * dim, gain=4.0, t=F32)

    def ngrams(self, p, dim, n_streams, n_tokens, heads, columns, kernel):
        """Adds the tensors of n-grams beside their table."""
        width = (n_tokens - 1) * heads * columns
        self.mat(p + "ple_key.weight", n_streams * dim, width)
        self.mat(p + "ple_value.weight", dim, width)
        for name in ("key", "query", "conv"):
            self.vec(p + f"ple_norm_{name}.weight", n_streams * dim, 1)
        self.mat(p + "ple_conv1d.weight", n_streams * dim, kernel, t=F32)

    def mtp_layer(self, p, dim, own_vocab, has_output_norm, hidden_dim):
        """Adds the tensors that an MTP head has in addition to those of a layer. own_vocab: rows of an embedding and a head of its own; 0: none."""
        if own_vocab:
            self.mat(p + "nextn.embed_tokens.weight", own_vocab, dim, gain=np.sqrt(dim))
            self.mat(p + "nextn.shared_head_head.weight", own_vocab, dim, gain=4.0)
        self.mat(p + "nextn.eh_proj.weight", dim, 2 * dim)
        self.vec(p + "nextn.enorm.weight", dim, 1)
        self.vec(p + "nextn.hnorm.weight", hidden_dim, 1)
        if has_output_norm:
            self.vec(p + "nextn.shared_head_norm.weight", dim, 1)

    def stack_of_vectors(self, name, *shape, center=0):
        self.all.append((name, shape, F32, lambda: encode(center + 0.1 * self.rng.standard_normal(shape), F32)))

    def mlp(self, p, family, dim, ffn, experts, is_softmax=False, latent=None):
        if family.get("single_block"):
            self.vec(p + "attn_norm.weight", dim, 1)
        elif family.get("norms") not in ("after", "shared", "streams"):
            self.norm(p + family.get("ffn_norm", "ffn_norm"), family, dim)
            if family.get("beside"):  # Falcon-H1 has no suffix
                self.all[-1] = (p + "ffn_norm", *self.all[-1][1:])
        if experts:
            n, _, expert_ffn, *shared = experts
            self.mat(p + "ffn_gate_inp.weight", n, dim, t=F32)
            if family.get("score_bias"):
                self.vec(p + "ffn_gate_inp.bias", n, 0)
            if family.get("choice_bias") and not is_softmax:
                self.vec(p + "exp_probs_b.bias", n, 0)
            if not family.get("has_no_gate"):
                self.mat(p + "ffn_gate_exps.weight", n, expert_ffn, dim)
            self.mat(p + "ffn_up_exps.weight", n, expert_ffn, latent or dim)
            self.mat(p + "ffn_down_exps.weight", n, latent or dim, expert_ffn)
            if latent:
                self.mat(p + "ffn_latent_down.weight", latent, dim)
                self.mat(p + "ffn_latent_up.weight", dim, latent)
            if family.get("expert_bias"):
                self.stack_of_vectors(p + "ffn_gate_exps.bias", n, expert_ffn)
                self.stack_of_vectors(p + "ffn_up_exps.bias", n, expert_ffn)
                self.stack_of_vectors(p + "ffn_down_exps.bias", n, dim)
            if shared:
                if "choice_bias" not in family and "plain_shared" not in family:
                    self.vec(p + "ffn_gate_inp_shexp.weight", dim, 0)
                if not family.get("has_no_gate"):
                    self.mat(p + "ffn_gate_shexp.weight", shared[0], dim)
                self.mat(p + "ffn_up_shexp.weight", shared[0], dim)
                self.mat(p + "ffn_down_shexp.weight", dim, shared[0])
            return
        is_fused = family.get("fused_mlp")
        if not is_fused and not family.get("has_no_gate"):
            self.mat(p + "ffn_gate.weight", ffn, dim)
        self.mat(p + "ffn_up.weight", 2 * ffn if is_fused else ffn, dim)
        self.mat(p + "ffn_down.weight", dim, ffn)
        if family.get("mlp_bias"):
            self.vec(p + "ffn_up.bias", ffn, 0)
            self.vec(p + "ffn_down.bias", dim, 0)
