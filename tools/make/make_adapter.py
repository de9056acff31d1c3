#!/usr/bin/python3
"""Writes random LoRA adapters for a GGUF model, for tests and benchmarks (speed does not depend on the values).

    make_adapter.py model.gguf adapter.gguf --rank 16 --type f16     # as llama.cpp's convert_lora_to_gguf.py writes them
    make_adapter.py model.gguf FOLDER --rank 16 --seed 7             # the same values as PEFT saves them

Every matrix gets a pair of factors, or only those whose names after "blk.N." begin with one of --only. Needs numpy only.
"""
import argparse
import os
import sys

import numpy as np

import oracle_path  # noqa: F401
import make_hf_model
import gguf_file
import state_layers
from folder_files import DTYPES, write_json, write_safetensors
from gguf_file import BF16, F, F16, F32, STR, to_bf16

TYPES = {"f32": F32, "f16": F16, "bf16": BF16}
# Names of matrices after "blk.N.". In stacks, each expert has its own pair.
MATRICES = ("attn_kv.weight", "attn_output_b.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_qkv.weight", "attn_output.weight", "attn_q_a.weight",
            "attn_q_b.weight", "attn_kv_a_mqa.weight", "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", "ffn_gate_inp.weight",
            "ffn_gate_inp_shexp.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight", "ffn_gate_shexp.weight",
            "ffn_up_shexp.weight", "ffn_down_shexp.weight", "inp_gate.weight", "proj.weight", "attn_gate.weight", "ssm_beta.weight",
            "ssm_alpha.weight", "ssm_ba.weight", "ssm_in.weight", "ssm_x.weight", "ssm_dt.weight", "ssm_f_a.weight", "ssm_f_b.weight", "ssm_g_a.weight", "ssm_g_b.weight", "ssm_out.weight", "shortconv.in_proj.weight", "shortconv.out_proj.weight")
TOP = ("token_embd.weight", "output.weight", "per_layer_model_proj.weight")

# Modules of a folder that hold two matrices of a GGUF file; both then have the same A.
FUSED = {"qwen3next": {("attn_qkv.weight", "attn_gate.weight"): "linear_attn.in_proj_qkvz.weight"},
         "granitehybrid": {("ffn_gate_shexp.weight", "ffn_up_shexp.weight"): "shared_mlp.input_linear.weight",
                           ("ffn_gate.weight", "ffn_up.weight"): "shared_mlp.input_linear.weight"},
         "graniteswitch": {("ffn_gate.weight", "ffn_up.weight"): "shared_mlp.input_linear.base_layer.weight"}}


class Names(make_hf_model.Folder):
    """Maps tensor names to those of a Hugging Face folder, without reading tensors."""

    def add(self, name, shape, t, data):
        pass

    def __init__(self, path):
        self.metadata = {k: v[1] for k, v in gguf_file.read_metadata(path).items()}
        super().__init__(path)

    def stacks(self, prefix):
        """Returns the module whose parameters are all experts of the layer."""
        return prefix + {"lfm2moe": "feed_forward.experts", "gemma4": "experts"}.get(self.arch, "mlp.experts")

    def expert_name(self, part, i):
        plain, _ = make_hf_model.EXPERTS[part]
        return f"mlp.experts.{i}.{plain}.weight" if self.arch in ("deepseek4", "mistral-large4") else super().expert_name(part, i)

    def layer_name(self, part):
        if self.arch == "deepseek4":
            return {"attn_kv.weight": "self_attn.kv_proj.weight", "attn_output_b.weight": "self_attn.o_b_proj.weight"}.get(part) or \
                make_hf_model.LAYER[part].replace("shared_expert.", "shared_experts.")
        if self.arch == "mistral-large4":  # adapters have the names of Transformers, folders those of Mistral
            return make_hf_model.LAYER[part].replace("shared_expert.", "shared_experts.")
        if self.arch in state_layers.FOLDER_SPACES and part in state_layers.SPACE_NAMES:
            return ("mixer." if self.arch in state_layers.HALVED else "mamba.") + state_layers.SPACE_NAMES[part]
        if self.arch == "jamba" and part in state_layers.SCAN_NAMES:
            return "mamba." + state_layers.SCAN_NAMES[part]
        if self.arch == "glm5-next" and part in ("ssm_f_a.weight", "ssm_f_b.weight"):  # as in Transformers
            return "self_attn.forget_gate." + state_layers.KDA_NAMES[part]
        if self.arch in ("kimi-linear", "glm5-next") and part in state_layers.KDA_NAMES:
            return "self_attn." + state_layers.KDA_NAMES[part]
        if self.arch == "granitehybrid" and part == "ffn_down.weight":
            return "shared_mlp.output_linear.weight"
        return state_layers.LAYER_NAMES.get(self.arch, {}).get(part) or super().layer_name(part)


def shapes(path):
    """Returns {name: shape, rows first}. K and V of MLA heads are given as the one matrix that adapters modify."""
    out = {}
    for name, shape, _, _ in make_hf_model.read_tensors(path):
        layer, _, part = name.rpartition("attn_k_b.weight")
        if layer and not part:
            out[layer + "attn_kv_b.weight"] = shape
        elif name.endswith("attn_v_b.weight"):
            n_heads, rank, still = out[name.replace("attn_v_b", "attn_kv_b")]
            out[name.replace("attn_v_b", "attn_kv_b")] = (n_heads * (still + shape[1]), rank)
        else:
            out[name] = shape
    return out


def rounded(x, kind):
    """Returns x [...] rounded to float32 values that the type represents exactly."""
    x = x.astype(np.float32)
    if kind == "f16":
        return x.astype(np.float16).astype(np.float32)
    return (to_bf16(x).astype(np.uint32) << 16).view(np.float32) if kind == "bf16" else x


def is_wanted(name, only):
    part = name.split(".", 2)[2] if name.startswith("blk.") else name
    known = part in MATRICES or part in TOP or part == "attn_kv_b.weight"
    return known and (not only or part.startswith(tuple(only)))


def random_pairs(path, rank=8, seed=1, kind="f32", only=(), gain=0.15):
    """Returns {matrix name: (a [rank, k], b [n, rank])}; stacks have their axis first. b · a is about as large as gain times a weight."""
    rng, out, layers = np.random.default_rng(seed), {}, set()
    for name, shape in shapes(path).items():
        if name.startswith("blk."):
            layers.add(int(name.split(".")[1]))
    metadata = {k: v[1] for k, v in gguf_file.read_metadata(path).items()}
    arch = metadata["general.architecture"].decode()
    below = {lower: upper for upper, lower in FUSED.get(arch, {})}
    n_mtp_layers = metadata.get(f"{arch}.nextn_predict_layers", 0)
    for name, shape in shapes(path).items():
        if not is_wanted(name, only) or (name.startswith("blk.") and int(name.split(".")[1]) > max(layers) - n_mtp_layers):
            continue
        shape = (1, *shape) if len(shape) == 1 else shape
        *stack, n, k = shape
        a = rng.standard_normal((*stack, rank, k)) / np.sqrt(n if name == "token_embd.weight" else k)
        b = rng.standard_normal((*stack, n, rank)) * gain / np.sqrt(rank)
        if name == "token_embd.weight":  # its rows have deviation 1
            a *= np.sqrt(n)
        out[name] = rounded(a, kind), rounded(b, kind)
        block, _, part = name.rpartition(".weight")[0].rpartition(".")
        if f"{part}.weight" in below and (upper := f"{block}.{below[f'{part}.weight']}") in out:
            out[name] = out[upper][0], out[name][1]
    return out


def merge(weights, pairs, scale):
    """Returns the weights of reference_logits.load() with the adapter applied: W + scale · b · a in float64."""
    out = dict(weights)
    for name, (a, b) in pairs.items():
        delta = scale * (b.astype(np.float64) @ a.astype(np.float64))
        if name.endswith("attn_kv_b.weight"):
            k, v = (name.replace("attn_kv_b", part) for part in ("attn_k_b", "attn_v_b"))
            n_heads, rank, still = weights[k].shape
            delta = delta.reshape(n_heads, -1, rank)
            out[k] = weights[k] + delta[:, :still].swapaxes(1, 2)
            out[v] = weights[v] + delta[:, still:]
            continue
        if name == "token_embd.weight" and "output.weight" not in weights:
            out.setdefault("output.weight", weights[name])  # a tied output matrix is not changed
        base = out.get(name, weights.get("token_embd.weight"))
        out[name] = base + delta.reshape(base.shape)
    return out


def encode(x, kind):
    if kind == "bf16":
        return to_bf16(x.astype(np.float32)).astype(np.uint16)
    return x.astype(np.float16 if kind == "f16" else np.float32)


def write_gguf(path, model, pairs, alpha, kind, architecture=None):
    arch = architecture or gguf_file.read_metadata(model)["general.architecture"][1]
    kv = {"general.type": (STR, "adapter"), "general.architecture": (STR, arch), "adapter.type": (STR, "lora"),
          "adapter.lora.alpha": (F, alpha)}
    tensors = []
    for name, (a, b) in pairs.items():
        if name == "token_embd.weight":
            a, b = b, np.ascontiguousarray(a.T)  # llama.cpp's order: first the factor over tokens, then the one of the model's width
        for half, x in (("lora_a", a), ("lora_b", b)):
            x = np.ascontiguousarray(encode(x, kind))
            tensors.append((f"{name}.{half}", x.shape, TYPES[kind], x.tobytes))
    gguf_file.write_gguf(path, kv, tensors)


def fused_modules(names, pairs, all_shapes):
    """Returns ([(module, a, b)], the other pairs) for matrices that share a module. A part without a pair gets zeros."""
    modules, rest = [], dict(pairs)
    for parts, module in FUSED.get(names.arch, {}).items():
        for upper in [n for n in all_shapes if n.startswith("blk.") and n.endswith("." + parts[0])]:
            both = [upper, upper.removesuffix(parts[0]) + parts[1]]
            found = [n for n in both if n in rest]
            if not found or both[1] not in all_shapes:
                continue
            a = rest[found[0]][0]
            b = [rest[n][1] if n in rest else np.zeros((all_shapes[n][0], len(a)), np.float32) for n in both]
            if names.arch == "qwen3next":
                for part, x in zip(parts, b):
                    found_in = state_layers.folder_tensors(names.arch, names.key, part, x, names.pending)
                b = found_in["in_proj_qkvz.weight"]
            else:
                b = np.concatenate(b)
            modules.append((f"model.layers.{upper.split('.')[1]}.{module}", a, b))
            for n in found:
                del rest[n]
    return modules, rest


def in_order_of_folder(names, part, a, b):
    """Returns the pair of a matrix of a recurrent layer, with value heads in the folder's order."""
    if part == "ssm_out.weight":
        (name, a), = state_layers.folder_tensors(names.arch, names.key, part, a, names.pending).items()
    else:
        (name, b), = state_layers.folder_tensors(names.arch, names.key, part, b, names.pending).items()
    return f"linear_attn.{name}", a, b


def halves(modules, kind):
    """Returns PEFT's tensors of [(module, a, b)]."""
    return {f"base_model.model.{m.removesuffix('.weight')}.lora_{half}.weight": (TYPES[kind], np.ascontiguousarray(encode(x, kind)))
            for m, a, b in modules for half, x in (("A", a), ("B", b))}


def module_tensors(names, name, a, b, kind):
    """Returns PEFT's tensors of one matrix."""
    prefix, t = "base_model.model.", TYPES[kind]
    if name == "token_embd.weight":
        return {f"{prefix}model.embed_tokens.lora_embedding_A": (t, encode(b.T, kind)), f"{prefix}model.embed_tokens.lora_embedding_B": (t, encode(a.T, kind))}
    if name in TOP:
        modules = [(make_hf_model.TOP[name], a, b)]
    else:
        _, layer, part = name.split(".", 2)
        at = f"model.layers.{layer}."
        if part in make_hf_model.EXPERTS:
            modules = [(at + names.expert_name(part, i), a[i], b[i]) for i in range(len(a))]
        elif part == "attn_kv_b.weight":
            modules = [(at + names.layer_name(part), a, b)]
        elif names.arch in state_layers.FOLDER_TYPES and part in state_layers.FOLDER_NAMES:
            module, a, b = in_order_of_folder(names, part, a, b)
            modules = [(at + module, a, b)]
        else:
            if part in ("attn_q.weight", "attn_k.weight") and names.arch in make_hf_model.PAIRED:
                hd = names.head_dim()
                b = b.reshape(-1, hd // 2, 2, b.shape[-1]).swapaxes(1, 2).reshape(b.shape)
            modules = [(at + names.layer_name(part), a, names.with_qkv_by_head(part, b))]
    return halves(modules, kind)


def flat_stack(a, b):
    """Returns PEFT's (lora_A, lora_B) of a parameter of all experts, from a [experts, rank, in] and b [experts, out, rank]
    (ParamWrapper.get_delta_weight)."""
    return a.reshape(-1, a.shape[-1]), np.ascontiguousarray(b.transpose(1, 2, 0)).reshape(b.shape[1], -1)


def stacked_modules(names, pairs):
    """Returns ([(module, lora_A, lora_B)] of experts as parameters, [parameters], the other pairs). Gates and ups, which each have an A, become
    one pair of twice the rank, as PEFT converts old adapters of single experts."""
    modules, parameters, rest = [], [], dict(pairs)
    granite = names.arch in ("granitemoe", "granitehybrid")
    for gate in [n for n in pairs if n.endswith("ffn_gate_exps.weight")]:
        at = f"model.layers.{gate.split('.')[1]}."
        (gate_a, gate_b), (up_a, up_b), down = [rest.pop(gate.replace("ffn_gate", part)) for part in ("ffn_gate", "ffn_up", "ffn_down")]
        nothing = np.zeros_like(gate_b)
        parts = [np.concatenate([gate_b, nothing], 2), np.concatenate([nothing, up_b], 2)]
        both = np.stack(parts, 2).reshape(len(gate_b), -1, parts[0].shape[2]) if names.arch == "gpt-oss" else np.concatenate(parts, 1)
        gate_up = flat_stack(np.concatenate([gate_a, up_a], 1), both)
        if granite:
            paths = [f"{at}block_sparse_moe.{half}_linear" for half in ("input", "output")]
            parameters += [f"{path}.weight" for path in paths]
        else:
            path = names.stacks(at)
            paths, parameters = [f"{path}.base_layer", path], parameters + [f"{path}.gate_up_proj", f"{path}.down_proj"]
        modules += [(paths[0], *gate_up), (paths[1], *flat_stack(*down))]
    return modules, parameters, rest


def write_peft(folder, model, pairs, rank, alpha, kind, stacked=False, **more):
    names = Names(model)
    tensors = {}
    if stacked:
        modules, parameters, pairs = stacked_modules(names, pairs)
        tensors = halves(modules, kind)
        wide = r".*\.(gate_up_proj|input_linear\.weight)"
        more |= {"target_parameters": parameters, "rank_pattern": {wide: 2 * rank}, "alpha_pattern": {wide: 2 * alpha}, "peft_version": "0.19.1"}
    modules, rest = fused_modules(names, pairs, shapes(model))
    tensors |= halves(modules, kind)
    for name, (a, b) in rest.items():
        tensors |= module_tensors(names, name, a, b, kind)
    os.makedirs(folder, exist_ok=True)
    modules = sorted({n.split(".lora_")[0].rsplit(".", 1)[1] for n in tensors})
    write_json(f"{folder}/adapter_config.json", {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "random", "r": rank, "lora_alpha": alpha,
        "lora_dropout": 0.0, "target_modules": modules, "bias": "none", "fan_in_fan_out": False, "use_rslora": False, "use_dora": False,
        "modules_to_save": None, "rank_pattern": {}, "alpha_pattern": {}, "init_lora_weights": True, "inference_mode": True, **more})
    write_safetensors(f"{folder}/adapter_model.safetensors", tensors)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", help="a GGUF file")
    ap.add_argument("out", help="a .gguf file, or a folder")
    ap.add_argument("--rank", type=int, default=16)
    ap.add_argument("--alpha", type=float, help="default: twice the rank")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--type", choices=TYPES, default="f32")
    ap.add_argument("--only", default="", help="beginnings of names, with commas between")
    a = ap.parse_args()
    pairs = random_pairs(a.model, a.rank, a.seed, a.type, [o for o in a.only.split(",") if o])
    if not pairs:
        sys.exit(f"no matrix of {a.model} has a name that begins with one of {a.only}")
    alpha = 2.0 * a.rank if a.alpha is None else a.alpha
    if a.out.endswith(".gguf"):
        write_gguf(a.out, a.model, pairs, alpha, a.type)
    else:
        write_peft(a.out, a.model, pairs, a.rank, alpha, a.type)


if __name__ == "__main__":
    main()
