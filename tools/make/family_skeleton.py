#!/usr/bin/python3
"""Prints the skeleton of a catalogue entry for a Hugging Face model, and what it could not place.

    family_skeleton.py FOLDER                       # config.json and the safetensors files beside it
    family_skeleton.py config.json --tensors FILE   # FILE: model.safetensors, its index, or lines "NAME [SHAPE]"

The entry has the parts that the names and shapes of the tensors and the keys of config.json show. The tensors and keys that no family of the
catalogue has are listed after it: they are what a person must read about. Knows names and keys by reading src/catalogue and src/format/hf.
docs/design/add_a_model_family.md has the steps that follow.
"""
import argparse
import collections
import glob
import json
import os
import re
import struct
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
PREFIXES = ("language_model.model.", "model.language_model.", "model.", "backbone.", "gpt_neox.", "transformer.")
LAYER = re.compile(r"^(?:h\.|layers\.)(\d+)\.(.+)$")
# Tensors of other modalities and of MTP layers, and buffers.
IGNORED_TENSORS = re.compile(r"vision|visual|audio|multi_modal|^vit_|^patch_merge|^pre_mm_projector|inv_freq$|^mtp[._]|masked_bias$")
# Keys that do not change the forward pass of a text.
IGNORED_KEYS = re.compile(r"dropout|_range$|router_aux|^output_|^use_cache$|_token_id$|^architectures$|^(torch_)?dtype$|transformers_version|^pretraining|"
                          r"^_name_or_path$|^_attn|jitter|^auto_map$|aux_loss|z_loss|^problem_type$|^is_decoder$|^cache_implementation$|^return_|"
                          r"^(bos|eos|pad|unk|sep)_token|^id2label$|^label2id$|^initializer|^quantization_config$|^model_max_length$|pdrop$|^summary_|^chunk_size_feed|^is_encoder_dec|^mtp_|coef_clip$")

# Keys that other keys or the tensors imply.
IMPLIED_KEYS = {"qk_head_dim", "qkv_bias", "attention_out_bias", "no_rope_layer_interval", "topk_method", "moe_layer_end_index", "moe_norm_min",
                "enable_moe_fp32_combine", "swiglu_alpha", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "reorder_and_upcast_attn",
                "moe_layers", "number_of_conv_states"}
MLP_NAMES = ("gate_proj.weight", "up_proj.weight", "down_proj.weight")
XIELU = re.compile(r"N\.mlp\.act_fn\.(alpha_[pn]|beta|eps)")  # keys in GGUF files (src/format/hf/xielu.h)
NGRAMS = re.compile(r"N\.ple\.ple_embedding\.\w+\.weight")  # src/format/hf/parts/ngram_tensors.h


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


class Catalogue:
    """Names of tensors and keys that some family has."""

    def __init__(self):
        table = read("src/catalogue/tensor_roles.cpp").split("kRoles[] = {")[1].split("\n};")[0]
        self.usual = {}  # folder name: role
        for role, name in re.findall(r'\{(k\w+), k\w+, "[^"]+",\s*"([^"]+)"\}', table):
            self.usual.setdefault(name, role)
        self.others, self.keys = {}, {}  # of single families: folder name: role, and key: usual key
        source = "".join(read(os.path.relpath(path, ROOT)) for path in sorted(glob.glob(os.path.join(ROOT, "src/catalogue/families/**/*.h"), recursive=True)))
        for role, name in re.findall(r'\{(k[A-Z]\w*), "([^"]+)"\}', source):
            self.others.setdefault(name, role)
        for name in re.findall(r'"([\w.]+)"', read("src/format/hf/tensor_names.cpp").split("kOtherHeads[] = {")[1].split("}")[0]):
            self.others.setdefault(name, "kHead")
        self.keys = dict(re.findall(r'\{(?:\.name = )?"(\w+)", (?:\.usual = )?"(\w+)"', source))
        self.stacks = set(re.findall(r'(?:gate_up|up|down)(?:_bias)?_stack = "([^"]+)"', source + read("src/catalogue/family.h")))
        self.other_mlps = re.findall(r'other_mlp = "([^"]+)"', source)
        state = read("src/format/hf/state_tensors.h")
        self.stacks |= set(re.findall(r'kQkvzName =\s*"([^"]+)"', state))
        read_keys = "".join(read(os.path.relpath(path, ROOT)) for path in glob.glob(os.path.join(ROOT, "src/format/hf/**/*.cpp"), recursive=True))
        self.known_keys = set(re.findall(r'"([a-z_0-9]+)"', read_keys)) | set(re.findall(r'"(\w+)":', source))
        self.known_keys |= set(re.findall(r'\{"(\w+)", "[\w.]+"\}', source)) - set(self.keys)  # FolderValue


def patterns(tensors):
    """Returns {name without prefix and numbers of layers, experts and shards: shape of the first}, for tensors of layers with a leading "N."."""
    found = {}
    for name, shape in tensors.items():
        if IGNORED_TENSORS.search(name):
            continue
        for prefix in PREFIXES:
            if name.startswith(prefix):
                name = name[len(prefix):]
                break
        name = name.removeprefix("language_model.")  # of the head
        layer = LAYER.match(name)
        if layer:
            name = "N." + layer[2]
        name = re.sub(r"\.shard_\d+\.", ".", name)
        found.setdefault(re.sub(r"\b(experts|altup_\w*projections)\.\d+\.", r"\1.{}.", name), shape)
    return found


class Family:
    """The traits of a model that its config and its tensors show."""

    def __init__(self, config, tensors, catalogue):
        self.whole, self.catalogue = config, catalogue
        self.config = config.get("text_config", config)
        self.patterns = patterns(tensors)
        self.names, self.unplaced = {}, {}  # role: unusual name; pattern: shape
        self.roles = collections.defaultdict(set)
        for pattern, shape in self.patterns.items():
            self.place(pattern, shape)
        self.aliases = {key: catalogue.keys[key] for key in self.config if key in catalogue.keys and key not in catalogue.known_keys - set(catalogue.keys)}
        self.unknown_keys = {key: value for key, value in self.config.items()
                             if key not in catalogue.known_keys | IMPLIED_KEYS | set(catalogue.keys) and not IGNORED_KEYS.search(key)
                             and not key.endswith("_config")}

    def place(self, pattern, shape):
        name = pattern.removeprefix("N.")
        for other in self.catalogue.other_mlps:
            if name.removeprefix(other) in MLP_NAMES:
                name = "mlp." + name.removeprefix(other)
        if name in self.catalogue.usual:
            self.roles[self.catalogue.usual[name]].add(tuple(shape or ()))
        elif name in self.catalogue.others:
            role = self.catalogue.others[name]
            self.names[role] = name
            self.roles[role].add(tuple(shape or ()))
        elif name in self.catalogue.stacks:
            self.roles["kExpertUp"].add(())
        elif not XIELU.fullmatch(pattern) and not NGRAMS.fullmatch(pattern):
            self.unplaced[pattern] = shape

    def has(self, *roles):
        return any(role in self.roles for role in roles)

    def name(self):
        return self.config.get("model_type", "unknown")

    def qk_norm(self):
        if not self.has("kQNorm"):
            return None
        shape = next(iter(self.roles["kQNorm"]))
        heads = self.config.get("num_attention_heads", 1)
        head_dim = self.config.get("head_dim") or self.config.get("hidden_size", 0) // heads
        return "QkNorm::kRow" if shape and shape[-1] == heads * head_dim and heads > 1 else "QkNorm::kHead"

    def attention(self):
        traits = {}
        if self.has("kQBias"):
            traits["qkv_bias"] = "Presence::kAlways"
        if self.has("kAttentionOutputBias"):
            traits["output_bias"] = "Presence::kAlways"
        if self.qk_norm():
            traits["qk_norm"] = self.qk_norm()
        if self.has("kQkv") and not self.has("kQ"):
            traits["is_fused"] = "true"
        if self.has("kSinks"):
            traits["has_sinks"] = "true"
        if self.has("kOutputGate") and self.has("kQ"):
            is_per_head = next(iter(self.roles["kOutputGate"]))[:1] == (self.config.get("num_attention_heads"),)
            traits["output_gate"] = "OutputGate::kPerHead" if is_per_head else "OutputGate::kOwn"
        if self.has("kKvDown"):
            traits["is_latent"] = "true"
        types = self.config.get("layer_types") or []
        if "sliding_attention" in types:
            globals_at = [i for i, kind in enumerate(types) if kind == "full_attention"]
            if globals_at:
                every = globals_at[1] - globals_at[0] if len(globals_at) > 1 else globals_at[0] + 1
                traits |= {"global_every": every, "global_at": globals_at[0] % every}
            traits["lists_windows"] = "true"
        return traits

    def norms(self):
        traits = {}
        eps = self.config.get("rms_norm_eps")
        if self.has("kOutputNormBias"):
            traits["kind"] = "NormKind::kLayerWithBias"
        elif eps is None and any(key in self.config for key in ("layer_norm_eps", "norm_epsilon", "layer_norm_epsilon")):
            traits["kind"] = "NormKind::kLayer"
        if eps not in (None, 1e-5):
            traits["eps"] = repr(eps)
        layer_norms = [p for p in self.patterns if p.startswith("N.") and p.endswith("norm.weight") and "." not in p[2:-len(".weight")]]
        if self.has("kPostFfnNorm"):
            if not self.has("kAttentionNorm"):
                traits["has_pre_norms"] = "false"
            traits["has_post_norms"] = "true"
        elif len(layer_norms) == 1:
            traits["is_shared"] = "true"
        return traits

    def experts(self):
        if not self.has("kRouter"):
            return None
        traits = {}
        if self.has("kSharedExpertGate"):
            traits["has_shared_gate"] = "true"
        if self.config.get("scoring_func") == "sigmoid" or self.has("kCorrectionBias"):
            traits["scoring"] = "ExpertScoring::kSigmoid"
        if self.has("kCorrectionBias"):
            traits["correction_bias"] = "Presence::kAlways"
        return traits

    def activation(self):
        act = self.config.get("hidden_activation") or self.config.get("hidden_act") or self.config.get("mlp_hidden_act") or "silu"
        gated = self.has("kGate", "kExpertGate") or "gate_up" in "".join(self.patterns)
        known = {("silu", True): None, ("gelu_pytorch_tanh", True): "kGeluTanh", ("gelu_new", False): "kPlainGeluTanh",
                 ("gelu_pytorch_tanh", False): "kPlainGeluTanh", ("gelu", False): "kGelu", ("gelu", True): "kGatedGelu", ("relu2", False): "kReluSquared",
                 ("xielu", False): "kXielu"}
        return known.get((act, gated), f"?{act}{'' if gated else ' without a gate'}")

    def is_gate_fused(self):
        return any("gate_up_proj" in p and "expert" not in p for p in self.patterns) and not self.has("kGate")


def braces(traits):
    return "{" + ", ".join(f".{name} = {value}" for name, value in traits.items()) + "}"


def camel(name):
    return "".join(word.capitalize() for word in re.split(r"[_.-]", name))


def entry(family, architecture):
    """Returns the text of src/catalogue/families/NAME.h."""
    name, config = camel(family.name()), family.config
    defaults = {key: config[key] for key in ("rms_norm_eps", "layer_norm_eps", "tie_word_embeddings", "head_dim") if config.get(key) is not None}
    lines = ["#pragma once", "", '#include "catalogue/family.h"', "", "namespace kvik::families {", "", "using enum TensorRole;", ""]
    if family.names:
        lines += [f"inline constexpr FolderName k{name}Names[] = {{", *(f'    {{{role}, "{tensor}"}},' for role, tensor in family.names.items()), "};"]
    if family.aliases:
        lines += [f"inline constexpr FolderKey k{name}Keys[] = {{", *(f'    {{"{key}", "{usual}"}},' for key, usual in family.aliases.items()), "};"]
    lines += [f"inline constexpr FolderType k{name}Folders[] = {{", f'    {{.model_type = "{family.name()}",']
    if "text_config" in family.whole:
        lines.append(f'     .multimodal_type = "{family.whole.get("model_type")}",')
    fields = [f'.defaults = R"({json.dumps(defaults)})"']
    if family.aliases:
        fields.append(f".keys = k{name}Keys")
    if "sliding_attention" in (config.get("layer_types") or []):
        fields.append(".window = FolderWindow::kListed")
    elif config.get("sliding_window"):
        fields.append(".window = FolderWindow::kStated")
    if family.experts() is not None:
        fields.append(".has_experts = true")
    if family.names:
        fields.append(f".names = k{name}Names")
    lines += [f"     {field}," for field in fields[:-1]] + [f"     {fields[-1]}}},", "};", ""]
    lines += [f"inline constexpr Family k{name}Families[] = {{", f'    {{.name = "{architecture}",']
    activation = family.activation()
    traits = [f".activation = Activation::{activation}"] if activation else []
    traits += [f".attention = {braces(family.attention())}"] if family.attention() else []
    traits += [".rope = {.pairing = RopePairing::kHalves}"]
    traits += [f".norms = {braces(family.norms())}"] if family.norms() else []
    if family.experts() is not None:
        traits.append(f".experts = ExpertTraits{braces(family.experts())}")
    if family.norms().get("is_shared"):
        traits.append(".has_parallel_halves = true")
    if family.has("kUpBias"):
        traits.append(".mlp_bias = Presence::kAlways")
    if family.is_gate_fused():
        traits.append(".has_fused_mlp = true")
    if family.has("kHeadBias"):
        traits.append(".has_head_bias = true")
    lines += [f"     {trait}," for trait in traits] + [f"     .folders = k{name}Folders}},", "};", "", "}  // namespace kvik::families"]
    return "\n".join(lines)


def report(family):
    lines = [f"tensors that no family has: {len(family.unplaced) or 'none'}"]
    lines += [f"  {pattern} {shape or ''}".rstrip() for pattern, shape in sorted(family.unplaced.items())]
    lines += [f"keys of config.json that no family has: {len(family.unknown_keys) or 'none'}"]
    lines += [f"  {key}: {json.dumps(value)[:100]}" for key, value in sorted(family.unknown_keys.items())]
    if str(family.activation()).startswith("?"):
        lines.append(f"activation: {family.activation()[1:]} is not there")
    return "\n".join(lines)


# --- tensors ---

def of_safetensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return {name: value["shape"] for name, value in header.items() if name != "__metadata__"}


def of_lines(path):
    with open(path, encoding="utf-8") as f:
        rows = [line.split(None, 1) for line in f if line.strip()]
    return {row[0]: json.loads(row[1]) if len(row) > 1 else None for row in rows}


def read_tensors(path):
    """Returns {name: shape, or None if the file does not say}."""
    if path.endswith(".safetensors"):
        return of_safetensors(path)
    if path.endswith(".json"):
        with open(path, encoding="utf-8") as f:
            found = json.load(f)
        return dict.fromkeys(found["weight_map"]) if "weight_map" in found else found
    return of_lines(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="config.json, or a folder")
    parser.add_argument("--tensors", help="safetensors file, its index, or a text file with a tensor a line")
    parser.add_argument("--architecture", help='"general.architecture" of GGUF files (default: the model type)')
    args = parser.parse_args()
    is_folder = os.path.isdir(args.model)
    path = os.path.join(args.model, "config.json") if is_folder else args.model
    if not os.path.exists(path):
        sys.exit(f"{path}: no such file, expected config.json or a folder with one")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    files = [args.tensors] if args.tensors else sorted(glob.glob(os.path.join(args.model, "*.safetensors"))) if is_folder else []
    if not files:
        sys.exit("no list of tensors: expected safetensors files in the folder, or --tensors FILE")
    tensors = {name: shape for file in files for name, shape in read_tensors(file).items()}
    family = Family(config, tensors, Catalogue())
    print(entry(family, args.architecture or family.name()))
    print(report(family), file=sys.stderr)


if __name__ == "__main__":
    main()
