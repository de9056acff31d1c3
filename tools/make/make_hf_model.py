#!/usr/bin/python3
"""Writes a GGUF model as a Hugging Face folder: the same weights with other names and in another order.

    make_model.py --preset test-llama --type bf16 m.gguf && make_hf_model.py m.gguf FOLDER
    make_hf_model.py --shards 3 m.gguf FOLDER

config.json, tokenizer.json, tokenizer_config.json, generation_config.json and *.safetensors have the contents that transformers writes
for such a model; Kvik must compute the same bits from both. Reads F32, F16 and BF16 tensors, the architectures of make_model.py,
and vocabularies of the models "llama" and "gpt2". Needs numpy only.
"""
import argparse
import os
import struct
import sys

import numpy as np

import oracle_path  # noqa: F401
import folder_families
import gguf_file
import state_layers
from folder_files import DTYPES, write_json, write_tensors, write_vocabulary
from gguf_file import F32, MXFP4, nbytes, read_metadata
from reference_logits import llama3_divisors

# GGUF files rotate neighbors, (2i, 2i + 1) of a head; folders rotate (i, i + half).
PAIRED = ("llama", "granite", "granitemoe", "granitehybrid", "mistral3", "smollm3", "arcee", *state_layers.HALVED, "muse-glimmer")
GEMMAS = ("gemma2", "gemma3")
MODEL_TYPES = {"qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "gemma3": "gemma3_text", "gemma3n": "gemma3n_text", "gemma4": "gemma4_text", "mistral3": "ministral3",
               "glm4moe": "glm4_moe", "minimax-m2": "minimax_m2", "gpt-oss": "gpt_oss", **state_layers.FOLDER_TYPES, **state_layers.OTHER_TYPES, **{arch: folder_families.OF[arch]["type"] for arch in folder_families.OF}}
LATENT = ("deepseek2", "deepseek32", "glm-dsa", "mistral4", "mistral-large4", "kimi-linear", "bailingmoe3", "glm5-next")  # architectures with MLA
SIGMOIDS = ("glm4moe", "minimax-m2", *LATENT)  # architectures with sigmoid router scores

TOP = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight",
       "output_norm.bias": "model.norm.bias", "output.bias": "lm_head.bias",
       "per_layer_token_embd.weight": "model.embed_tokens_per_layer.weight", "per_layer_model_proj.weight": "model.per_layer_model_projection.weight",
       "per_layer_proj_norm.weight": "model.per_layer_projection_norm.weight"}
LAYER = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight", "attn_k.weight": "self_attn.k_proj.weight", "attn_v.weight": "self_attn.v_proj.weight",
    "attn_q.bias": "self_attn.q_proj.bias", "attn_k.bias": "self_attn.k_proj.bias", "attn_v.bias": "self_attn.v_proj.bias",
    "attn_q_norm.weight": "self_attn.q_norm.weight", "attn_k_norm.weight": "self_attn.k_norm.weight",
    "attn_qkv.weight": "self_attn.qkv_proj.weight", "attn_output.weight": "self_attn.o_proj.weight",
    "post_attention_norm.weight": "post_attention_layernorm.weight", "post_ffw_norm.weight": "post_feedforward_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight", "ffn_up.weight": "mlp.up_proj.weight", "ffn_down.weight": "mlp.down_proj.weight",
    "ffn_gate_inp.weight": "mlp.gate.weight", "ffn_gate_inp_shexp.weight": "mlp.shared_expert_gate.weight",
    "ffn_gate_shexp.weight": "mlp.shared_expert.gate_proj.weight", "ffn_up_shexp.weight": "mlp.shared_expert.up_proj.weight",
    "ffn_down_shexp.weight": "mlp.shared_expert.down_proj.weight",
    "attn_output.bias": "self_attn.o_proj.bias", "attn_sinks.weight": "self_attn.sinks",
    "ffn_gate_inp.bias": "mlp.router.bias", "exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
    "attn_q_a.weight": "self_attn.q_a_proj.weight", "attn_q_a_norm.weight": "self_attn.q_a_layernorm.weight",
    "attn_q_b.weight": "self_attn.q_b_proj.weight", "attn_kv_a_mqa.weight": "self_attn.kv_a_proj_with_mqa.weight",
    "attn_kv_a_norm.weight": "self_attn.kv_a_layernorm.weight", "attn_kv_b.weight": "self_attn.kv_b_proj.weight",
    "nextn.eh_proj.weight": "eh_proj.weight", "nextn.enorm.weight": "enorm.weight", "nextn.hnorm.weight": "hnorm.weight",
    "nextn.shared_head_norm.weight": "shared_head.norm.weight",
    "nextn.embed_tokens.weight": "embed_tokens.weight", "nextn.shared_head_head.weight": "shared_head.head.weight",
    "ffn_gate_inp.scale": "router.scale", "ffn_down_exps.scale": "router.per_expert_scale", "ffn_gate_up_exps.weight": "experts.gate_up_proj",
    "pre_ffw_norm_2.weight": "pre_feedforward_layernorm_2.weight", "post_ffw_norm_1.weight": "post_feedforward_layernorm_1.weight",
    "post_ffw_norm_2.weight": "post_feedforward_layernorm_2.weight", "inp_gate.weight": "per_layer_input_gate.weight",
    "proj.weight": "per_layer_projection.weight", "post_norm.weight": "post_per_layer_input_norm.weight", "layer_output_scale.weight": "layer_scalar",
    "altup_router_norm.weight": "altup.router_norm.weight", "altup_router.weight": "altup.modality_router.weight",
    "altup_predict_coef.weight": "altup.prediction_coefs.weight", "altup_correct_coef.weight": "altup.correction_coefs.weight",
    "altup_correct_scale.weight": "altup.correct_output_scale", "laurel_l.weight": "laurel.linear_left.weight",
    "laurel_r.weight": "laurel.linear_right.weight", "laurel_post_norm.weight": "laurel.post_laurel_norm.weight",
}
MTP_TENSORS = {"nextn.eh_proj.weight": "fc.weight", "nextn.enorm.weight": "pre_fc_norm_embedding.weight", "nextn.hnorm.weight": "pre_fc_norm_hidden.weight",
           "nextn.shared_head_norm.weight": "norm.weight", "nextn.embed_tokens.weight": "embed_tokens.weight",
           "nextn.shared_head_head.weight": "lm_head.weight",
           **{f"nextn.hc_head_{part}.weight": f"hyper_connection_mixer.{name}.weight" for part, name in (
               ("norm", "hc_norm"), ("down", "input_mix_weight_down"), ("up", "input_mix_weight_up"))}}  # Qwen's names
STREAMS = {"altup_proj.weight": "altup_projections", "altup_unembd_proj.weight": "altup_unembed_projections"}  # stacks of matrices
EXPERTS = {"ffn_gate_exps.weight": ("gate_proj", "w1"), "ffn_up_exps.weight": ("up_proj", "w3"), "ffn_down_exps.weight": ("down_proj", "w2")}


def read_tensors(path):
    """Returns [(name, shape rows-first, type, bytes)] in the file's order."""
    with open(path, "rb") as f:
        raw = f.read()
    metadata = read_metadata(path)
    at = len(b"GGUF" + struct.pack("<IQQ", 3, 0, 0) +
             b"".join(gguf_file.pack_str(k) + struct.pack("<I", t) + gguf_file.pack_value(t, v) for k, (t, v) in metadata.items()))
    infos = []
    for _ in range(struct.unpack_from("<Q", raw, 8)[0]):
        n = struct.unpack_from("<Q", raw, at)[0]
        name, at = raw[at + 8:at + 8 + n].decode(), at + 8 + n
        rank = struct.unpack_from("<I", raw, at)[0]
        dims = struct.unpack_from(f"<{rank}Q", raw, at + 4)
        t, offset = struct.unpack_from("<IQ", raw, at + 4 + 8 * rank)
        infos.append((name, dims[::-1], t, offset))
        at += 16 + 8 * rank
    base = -(-at // 32) * 32
    return [(name, shape, t, raw[base + offset:base + offset + nbytes(shape, t)]) for name, shape, t, offset in infos]


class Folder:
    """The contents of a folder: keys of config.json, and tensors by their names."""

    def __init__(self, path):
        self.metadata = {k: v[1] for k, v in read_metadata(path).items()}
        self.arch = self.metadata["general.architecture"].decode()
        self.has_experts = bool(self.key("expert_count", 0))
        self.model_type = MODEL_TYPES.get(self.arch, self.arch)
        if self.arch == "llama" and self.has_experts:
            self.model_type = "mixtral"
        elif self.arch == "olmo2" and self.key("attention.sliding_window"):
            self.model_type = "olmo3"
        elif self.arch == "deepseek2":
            self.model_type = "deepseek_v3" if self.key("attention.q_lora_rank") else "deepseek_v2"
        elif self.arch == "llama" and self.key("attention.sliding_window"):
            self.model_type = "mistral"
        self.tensors, self.rope_vectors, self.pending = {}, {}, {}
        is_puzzle = isinstance(self.key("expert_used_count"), tuple)
        if is_puzzle:
            self.model_type = "nemotron_h_puzzle"
        self.prefix = "backbone." if self.arch in state_layers.HALVED and not is_puzzle else "model."
        self.top = TOP | state_layers.TOP_NAMES.get(self.arch.removesuffix("_moe").removesuffix("moe"), {}) | folder_families.of(self.arch, "top")
        if is_puzzle:
            self.top = {part: name.replace("backbone.", "model.") for part, name in self.top.items()}
        for tensor in read_tensors(path):
            self.add(*tensor)
        for name, (_, values) in ((k, v) for k, v in self.metadata.items() if k.startswith("xielu.")):
            for i, value in enumerate(values):
                self.tensors[f"model.layers.{i}.mlp.act_fn.{name.removeprefix('xielu.')}"] = (F32, np.float32([value]))

    def key(self, name, otherwise=None):
        return self.metadata.get(f"{self.arch}.{name}", otherwise)

    def head_dim(self):
        return self.key("attention.key_length") or self.key("embedding_length") // self.key("attention.head_count")

    def add(self, name, shape, t, data):
        if t == MXFP4 and self.model_type == "gpt_oss":
            x = np.frombuffer(data, np.uint8).reshape(*shape[:-1], shape[-1] // 32 * 17)
        elif t in DTYPES:
            x = np.frombuffer(data, DTYPES[t][1]).reshape(shape)
        else:
            sys.exit(f"{name} has the element type {t}; folders have F32, F16 or BF16")
        if name == "rope_freqs.weight" and self.arch == "mistral-large4":
            alpha = -np.log(x.astype(np.float64))
            self.tensors["lerope.alpha"] = (F32, alpha.astype(np.float32))
            assert np.array_equal(np.exp(-self.tensors["lerope.alpha"][1].astype(np.float64)).astype(np.float32), x), "divisors without an exponent"
        elif name.startswith("rope_"):
            self.rope_vectors[name] = x
        elif name == "per_layer_token_embd.weight" and self.arch == "qwen4exp":
            layer = self.key("ple.layers")[1][0]
            for i, rows in enumerate(np.split(x, folder_families.SHARDS)):
                self.tensors[f"model.layers.{layer}.ple.ple_embedding.ngram_embedding.shard_{i}.weight"] = (t, rows)
        elif name in STREAMS:
            self.tensors |= {f"model.{STREAMS[name]}.{i}.weight": (t, matrix) for i, matrix in enumerate(x)}
        elif name in self.top:
            self.tensors[self.top[name]] = (t, self.less_one(name, t, x))
        else:
            _, layer, part = name.split(".", 2)
            if self.arch in state_layers.FOLDER_TYPES and int(layer) == self.n_layers():
                self.add_to_mtp_head(part, t, x, *(("mtp.", MTP_TENSORS[part]) if part in MTP_TENSORS else ("mtp.layers.0.", None)))
            elif self.arch in folder_families.MTP and int(layer) == self.n_layers():
                self.add_to_mtp_head(part, t, x, *folder_families.mtp_name(self.arch, self.n_layers(), part))
            else:
                self.add_to_layer(f"{folder_families.of(self.arch, 'layers') or self.prefix + 'layers.'}{layer}.", part, t, x)

    def n_layers(self):
        return self.key("block_count") - self.key("nextn_predict_layers", 0)

    def add_to_mtp_head(self, part, t, x, prefix, name):
        halves = folder_families.MTP_HALVES.get(self.arch)
        if part == "nextn.eh_proj.weight" and halves:  # the columns for the embedding, and those for the hidden state
            self.tensors |= {prefix + of: (t, np.ascontiguousarray(half)) for of, half in zip(halves, np.split(x, 2, 1))}
        elif name:
            is_paired = part in ("attn_q.weight", "attn_k.weight") and self.arch in PAIRED
            self.tensors[prefix + name] = (t, self.less_one(part, t, self.halved(x) if is_paired else x))
        else:
            self.add_to_layer(prefix, part, t, x)

    def add_to_layer(self, prefix, part, t, x):
        if self.arch == "muse-glimmer" and part in ("attn_q_norm.weight", "attn_k_norm.weight"):
            return  # "qk_scale_factor"
        if self.arch in state_layers.FOLDER_TYPES and part in state_layers.FOLDER_NAMES:
            found = state_layers.folder_tensors(self.arch, self.key, part, x, self.pending)
            self.tensors |= {f"{prefix}linear_attn.{name}": (t, y) for name, y in found.items()}
            return
        if part in ("ffn_gate_shexp.weight", "ffn_up_shexp.weight") and self.arch == "granitehybrid":
            both = prefix + "shared_mlp.input_linear.weight"
            self.tensors[both] = (t, np.concatenate([self.tensors[both][1], x]) if part == "ffn_up_shexp.weight" else x)
            return
        if part in ("ffn_gate.weight", "ffn_up.weight") and self.arch == "graniteswitch":
            both = prefix + "shared_mlp.input_linear.base_layer.weight"
            self.tensors[both] = (t, np.concatenate([self.tensors[both][1], x]) if part == "ffn_up.weight" else x)
            return
        if part.endswith((".lora_a", ".lora_b")):  # without the factors for rows without an adapter
            matrix, factor = part.rsplit(".lora_", 1)
            x = self.halved(x[1:]) if part in ("attn_q.lora_b", "attn_k.lora_b") else x[1:]
            self.tensors[prefix + folder_families.SWITCH_LORA[matrix].format(factor.upper())] = (t, x[:, None])
            return
        if part in EXPERTS and self.model_type in ("granitemoe", "granitemoehybrid"):
            stack = prefix + ("block_sparse_moe.output_linear.weight" if part == "ffn_down_exps.weight" else "block_sparse_moe.input_linear.weight")
            self.tensors[stack] = (t, np.concatenate([self.tensors[stack][1], x], 1) if part == "ffn_up_exps.weight" else x)
            return
        if part.split("_exps")[0] + "_exps.weight" in EXPERTS and self.model_type == "gpt_oss":
            return self.add_interleaved(prefix + "mlp.experts.", part, t, x)
        if part == "ffn_down_exps.weight" and self.arch == "gemma4":
            self.tensors[prefix + "experts.down_proj"] = (t, x)
            return
        stack = folder_families.of(self.arch, "transposed_experts")
        if part in EXPERTS and stack:
            self.pending[part] = x.swapaxes(1, 2)
            if part == "ffn_up_exps.weight":
                both = [self.pending[f"ffn_{half}_exps.weight"] for half in ("gate", "up")]
                self.tensors[f"{prefix}{stack}gate_up_proj"] = (t, np.concatenate(both, 2))
            elif part == "ffn_down_exps.weight":
                self.tensors[f"{prefix}{stack}down_proj"] = (t, np.ascontiguousarray(self.pending[part]))
            return
        if part in EXPERTS and part not in folder_families.of(self.arch, "names"):
            for i, expert in enumerate(x):
                self.tensors[prefix + self.expert_name(part, i)] = (t, expert)
            return
        if self.arch == "qwen4exp" and part in ("indexer.q_proj.weight", "indexer.k_proj.weight"):
            both = prefix + "self_attn.indexer.index_qk_proj.weight"
            self.tensors[both] = (t, np.concatenate([self.tensors[both][1], x]) if both in self.tensors else x)
            return
        if part in ("attn_k_b.weight", "attn_v_b.weight"):
            return self.add_latent_up(prefix, part, t, x)
        if part in ("attn_q.weight", "attn_k.weight") and self.arch in PAIRED:
            x = self.halved(x)
        if part == "attn_qkv.weight" and self.arch == "graniteswitch":
            n_paired = (self.key("attention.head_count") + self.key("attention.head_count_kv")) * self.head_dim()
            x = np.concatenate([self.halved(x[:n_paired]), x[n_paired:]])
        x = self.with_qkv_by_head(part, x)
        if part in folder_families.of(self.arch, "transposed"):
            x = np.ascontiguousarray(x.T)
        if part == "attn_output.weight" and prefix + "attention.A_log" in self.tensors:  # published folders have this name in layers of KDA
            self.tensors[prefix + "attention.o_proj.weight"] = (t, x)
            return
        plain = state_layers.plain_tensor(self.arch, part, x)
        if plain:
            self.tensors[prefix + plain[0]] = (t, plain[1])
            return
        self.tensors[prefix + self.layer_name(part)] = (t, self.less_one(part, t, x))

    def halved(self, x):
        """Returns the rows of heads in the order of folders."""
        return x.reshape(-1, self.head_dim() // 2, 2, x.shape[-1]).swapaxes(1, 2).reshape(x.shape)

    def with_qkv_by_head(self, part, x):
        """Returns the rows of Q, K and V for each head in turn, if the family's folders have them like this."""
        if not part.startswith("attn_qkv.") or not folder_families.of(self.arch, "has_qkv_by_head"):
            return x
        return x.reshape(3, -1, self.head_dim(), *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)

    def add_latent_up(self, prefix, part, t, x):
        """Combines K and V of all heads into one matrix, with K's part transposed."""
        if part == "attn_k_b.weight":
            self.pending[prefix] = x.swapaxes(1, 2)
        else:
            self.tensors[prefix + self.layer_name("attn_kv_b.weight")] = (t, np.concatenate([self.pending.pop(prefix), x], 1).reshape(-1, x.shape[2]))

    def add_interleaved(self, prefix, part, t, x):
        """gpt-oss: gates and ups are interleaved; weights are transposed or in 4-bit blocks."""
        is_bias = part.endswith(".bias")
        name = prefix + ("down_proj" if "down" in part else "gate_up_proj") + ("_bias" if is_bias else "")
        if "up" in part:
            gates = self.pending.pop(name)
            x = np.stack([gates, x], 2).reshape(x.shape[0], -1, *x.shape[2:])
        elif "gate" in part:
            self.pending[name] = x
            return
        if t == MXFP4:
            n_blocks = x.shape[2] // 17
            b = x.reshape(*x.shape[:2], n_blocks, 17)
            levels = np.concatenate([b[..., 1:] & 15, b[..., 1:] >> 4], -1)
            self.tensors[name + "_blocks"] = ("U8", levels[..., 0::2] | levels[..., 1::2] << 4)
            self.tensors[name + "_scales"] = ("U8", np.ascontiguousarray(b[..., 0]))
        else:
            self.tensors[name] = (t, x if is_bias else np.ascontiguousarray(x.swapaxes(1, 2)))

    def expert_name(self, part, i):
        plain, mixtral = EXPERTS[part]
        if self.arch in ("llama4", "jamba"):
            return f"feed_forward.experts.{i}.{plain}.weight"
        if self.arch == "deepseek4":
            return f"ffn.experts.{i}.{mixtral}.weight"
        if self.arch == "mistral-large4":
            return f"experts.{i}.{mixtral}.weight"
        if self.arch in ("lfm2moe", "nemotron_h_moe"):
            return f"feed_forward.experts.{i}.{mixtral}.weight" if self.arch == "lfm2moe" else f"mixer.experts.{i}.{plain}.weight"
        return f"block_sparse_moe.experts.{i}.{mixtral}.weight" if self.model_type in ("mixtral", "minimax_m2", "minimax_m3", "kimi_linear") else f"mlp.experts.{i}.{plain}.weight"

    def layer_name(self, part):
        other = folder_families.of(self.arch, "names").get(part)
        if other:
            return other
        if part == "ffn_gate_inp.weight" and self.arch == "gemma4":
            return "router.proj.weight"
        if part == "ffn_norm.weight":
            return "pre_feedforward_layernorm.weight" if self.arch.startswith("gemma") else "post_attention_layernorm.weight"
        if part == "ffn_up.weight" and self.arch == "phi3":
            return "mlp.gate_up_proj.weight"
        if part == "ffn_gate_inp.weight" and self.model_type in ("mixtral", "minimax_m2"):
            return "block_sparse_moe.gate.weight"
        if part == "exp_probs_b.bias" and self.model_type == "minimax_m2":
            return "block_sparse_moe.e_score_correction_bias"
        if part == "ffn_gate_inp.weight" and self.model_type == "gpt_oss":
            return "mlp.router.weight"
        if "_shexp" in part and self.arch in SIGMOIDS:
            return LAYER[part].replace("shared_expert", "shared_experts")
        if part == "ffn_gate_inp.weight" and self.model_type == "granitemoe":
            return "block_sparse_moe.router.layer.weight"
        return LAYER[part]

    def less_one(self, name, t, x):
        """Subtracts one from Gemma's norms, as folders store them. The subtraction must be exact."""
        if name == "ffn_gate_inp_shexp.weight":
            return x.reshape(1, -1)
        if self.arch == "muse-glimmer" and name == "output_norm.weight":
            return x
        is_norm = name.endswith("norm.weight") or name.startswith("ple_norm_")
        if self.arch not in ("gemma", "minimax-m3", "muse-glimmer", "nemotron", "step35", *GEMMAS, *state_layers.FOLDER_TYPES) or not is_norm:
            return x
        assert t == F32 and np.array_equal((x - np.float32(1)) + np.float32(1), x), name
        return x - np.float32(1)

    def config(self):
        mtp_blocks = state_layers.mtp_blocks(self.key, self.n_layers()) if self.model_type == "nemotron_h_puzzle" else {}
        n_mtp_layers = folder_families.leave_out_mtp_layers(self.arch, self.metadata)
        n_heads = self.key("attention.head_count")
        config = {
            "model_type": self.model_type,
            "num_hidden_layers": self.n_layers(),
            "num_nextn_predict_layers": n_mtp_layers,
            "hidden_size": self.key("embedding_length"),
            "intermediate_size": self.key("feed_forward_length"),
            "num_attention_heads": n_heads,
            "num_key_value_heads": self.key("attention.head_count_kv", n_heads),
            "head_dim": self.head_dim(),
            "max_position_embeddings": self.key("context_length"),
            "rms_norm_eps": self.key("attention.layer_norm_rms_epsilon", self.key("attention.layer_norm_epsilon")),
            "vocab_size": self.key("vocab_size", len(self.tensors[self.top["token_embd.weight"]][1])),
            "rope_theta": self.key("rope.freq_base", 1e4),
            "tie_word_embeddings": self.top["output.weight"] not in self.tensors,
            "sliding_window": self.key("attention.sliding_window"),
            "rope_scaling": self.rope_scaling(),
            "bos_token_id": self.metadata.get("tokenizer.ggml.bos_token_id"),
            "eos_token_id": self.metadata.get("tokenizer.ggml.eos_token_id"),
        }
        is_gemma = self.arch.startswith("gemma")
        config["hidden_activation" if is_gemma else "hidden_act"] = "gelu_pytorch_tanh" if is_gemma else "silu"
        n_dims = self.key("rope.dimension_count", self.head_dim())
        if n_dims != self.head_dim() and self.arch not in LATENT:
            config["partial_rotary_factor"] = n_dims / self.head_dim()
        if self.arch in GEMMAS:
            config |= {"query_pre_attn_scalar": self.head_dim(), "attn_logit_softcapping": self.key("attn_logit_softcapping"),
                       "final_logit_softcapping": self.key("final_logit_softcapping")}
        if self.arch.startswith("granite"):
            config |= {"embedding_multiplier": self.key("embedding_scale"), "residual_multiplier": self.key("residual_scale"),
                       "attention_multiplier": self.key("attention.scale"), "logits_scaling": self.key("logit_scale")}
        if self.arch in LATENT:
            rope_dims = self.key("rope.dimension_count")
            config |= {"kv_lora_rank": self.key("attention.kv_lora_rank"), "q_lora_rank": self.key("attention.q_lora_rank"),
                       "qk_nope_head_dim": self.key("attention.key_length_mla") - rope_dims, "qk_rope_head_dim": rope_dims,
                       "v_head_dim": self.key("attention.value_length_mla"), "head_dim": rope_dims, "num_key_value_heads": n_heads,
                       "n_group": self.key("expert_group_count", 1), "topk_group": self.key("expert_group_used_count", 1)}
        if self.arch in SIGMOIDS:
            config |= {"n_shared_experts": self.key("expert_shared_count"), "first_k_dense_replace": self.key("leading_dense_block_count"),
                       "routed_scaling_factor": self.key("expert_weights_scale"), "scoring_func": "sigmoid" if self.key("expert_gating_func", 2 if self.arch not in LATENT else 1) == 2 else "softmax"}
        if self.has_experts:
            config |= {"num_local_experts" if self.model_type in ("mixtral", "granitemoe", "gpt_oss", "minimax_m2") else "num_experts": self.key("expert_count"),
                       "num_experts_per_tok": self.key("expert_used_count"), "moe_intermediate_size": self.key("expert_feed_forward_length"),
                       "shared_expert_intermediate_size": self.key("expert_shared_feed_forward_length"),
                       "norm_topk_prob": {"qwen2_moe": False, "qwen3_moe": True, "glm4_moe": True, "deepseek_v3": True, "deepseek_v2": False}.get(self.model_type)}
        if self.arch in state_layers.FOLDER_TYPES:
            config |= state_layers.folder_config(self.key)
        if self.arch in state_layers.OTHER_TYPES:
            config = state_layers.other_config(self.arch, self.key, config) | mtp_blocks
        if self.arch == "gemma4":
            config = self.with_layer_kinds(config)
        if self.arch == "gemma3n":
            config |= self.stream_keys()
        config = folder_families.with_other_keys(self.arch, self.key, config)
        if "rope_factors_long.weight" in self.rope_vectors:
            config["original_max_position_embeddings"] = self.key("rope.scaling.original_context_length")
        return {k: v for k, v in config.items() if v is not None or k == "sliding_window"}

    def stream_keys(self):
        """Returns the config keys of Gemma 3n."""
        cutoffs, windowed = self.key("activation_sparsity_scale")[1], self.key("attention.sliding_window_pattern")[1]
        return {"layer_types": ["sliding_attention" if w else "full_attention" for w in windowed],
                "activation_sparsity_pattern": [0.0 if np.isinf(cutoff) else 0.95 for cutoff in cutoffs],
                "intermediate_size": [self.key("feed_forward_length")] * len(windowed), "altup_num_inputs": self.key("altup.num_inputs"),
                "laurel_rank": self.key("laurel.rank"), "num_kv_shared_layers": self.key("attention.shared_kv_layers"),
                "hidden_size_per_layer_input": self.key("embedding_length_per_layer_input"),
                "vocab_size_per_layer_input": self.key("vocab_size"), "final_logit_softcapping": self.key("final_logit_softcapping"),
                "rope_local_base_freq": self.key("rope.freq_base_swa")}

    def with_layer_kinds(self, config):
        """Returns the config keys of Gemma 4's differing layers."""
        windowed = self.key("attention.sliding_window_pattern")[1]
        of_layers = lambda name: self.key(name)[1] if isinstance(self.key(name), tuple) else [self.key(name)] * len(windowed)
        kv, ffn, width = of_layers("attention.head_count_kv"), of_layers("feed_forward_length"), self.key("embedding_length_per_layer_input")
        config |= {
            "layer_types": ["sliding_attention" if w else "full_attention" for w in windowed],
            "head_dim": self.key("attention.key_length_swa"), "global_head_dim": self.key("attention.key_length"),
            "num_key_value_heads": kv[0], "num_global_key_value_heads": kv[-1] if kv[-1] != kv[0] else None,
            "attention_k_eq_v": any(f"model.layers.{i}.self_attn.v_proj.weight" not in self.tensors for i in range(len(kv) - self.key("attention.shared_kv_layers"))),
            "num_kv_shared_layers": self.key("attention.shared_kv_layers"), "intermediate_size": ffn[0], "use_double_wide_mlp": ffn[-1] == 2 * ffn[0],
            "hidden_size_per_layer_input": width, "vocab_size_per_layer_input": config["vocab_size"] if width else None,
            "final_logit_softcapping": self.key("final_logit_softcapping"), "enable_moe_block": self.has_experts,
            "rope_parameters": {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": self.key("rope.freq_base")},
                                "sliding_attention": {"rope_type": "default", "rope_theta": self.key("rope.freq_base_swa")}}}
        if self.has_experts:
            config["top_k_experts"] = config.pop("num_experts_per_tok")
        for name in ("rope_theta", "rope_scaling", "norm_topk_prob"):
            config.pop(name, None)
        return config

    def rope_scaling(self):
        if "rope_factors_long.weight" in self.rope_vectors:
            long, short = (list(map(float, self.rope_vectors[f"rope_factors_{n}.weight"])) for n in ("long", "short"))
            return {"type": "longrope", "long_factor": long, "short_factor": short}
        if "rope_freqs.weight" in self.rope_vectors and self.arch not in ("gemma4", "lfm3"):
            scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
            n_dims = self.key("rope.dimension_count", self.head_dim())
            want = llama3_divisors(n_dims, self.key("rope.freq_base")).astype(np.float32)
            assert np.array_equal(self.rope_vectors["rope_freqs.weight"], want), "divisors that Llama 3.1 does not have"
            return scaling
        kind = (self.key("rope.scaling.type") or b"").decode()
        if not kind:
            return None
        scaling = {"rope_type": kind, "factor": self.key("rope.scaling.factor")}
        if kind == "yarn":
            scaling["original_max_position_embeddings"] = self.key("rope.scaling.original_context_length")
            scaling["truncate"] = self.arch != "gpt-oss"
            if self.key("rope.scaling.yarn_log_multiplier"):
                m = self.key("rope.scaling.yarn_log_multiplier") * (10 if self.arch in LATENT else 1)
                scaling |= {"mscale": m if self.arch in LATENT else 1.0, "mscale_all_dim": m}
            if self.key("attention.temperature_scale"):
                scaling["llama_4_scaling_beta"] = self.key("attention.temperature_scale")
        return scaling


def fuse_experts(tensors):
    """Replaces a layer's experts by one tensor each for gates and ups and for downs, as in transformers 5."""
    stacks = {}
    for name in [n for n in tensors if ".experts." in n and ".shared_experts." not in n]:
        prefix, rest = name.split(".experts.")
        index, part = rest.removesuffix(".weight").split(".")
        stacks.setdefault(prefix, {})[int(index), part] = tensors.pop(name)
    for prefix, parts in stacks.items():
        gate, up, down = ("w1", "w3", "w2") if (0, "w1") in parts else ("gate_proj", "up_proj", "down_proj")
        n = 1 + max(i for i, _ in parts)
        if (0, gate) not in parts:  # no gates
            for part in (up, down):
                tensors[f"{prefix}.experts.{part}"] = (parts[0, up][0], np.stack([parts[i, part][1] for i in range(n)]))
            continue
        t = parts[0, gate][0]
        tensors[f"{prefix}.experts.gate_up_proj"] = (t, np.stack([np.concatenate([parts[i, gate][1], parts[i, up][1]]) for i in range(n)]))
        tensors[f"{prefix}.experts.down_proj"] = (t, np.stack([parts[i, down][1] for i in range(n)]))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", help="a GGUF file")
    ap.add_argument("folder", help="will be made")
    ap.add_argument("--shards", type=int, default=1, help="files that the tensors are spread over")
    ap.add_argument("--fused-experts", action="store_true", help="one tensor for all experts of a layer")
    a = ap.parse_args()
    folder = Folder(a.model)
    if a.fused_experts:
        fuse_experts(folder.tensors)
    os.makedirs(a.folder, exist_ok=True)
    write_json(f"{a.folder}/config.json", folder.config())
    write_vocabulary(a.folder, folder.metadata)
    write_tensors(a.folder, folder.tensors, a.shards)


if __name__ == "__main__":
    main()
