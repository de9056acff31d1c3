"""Writes the files of a Hugging Face folder: safetensors, JSON and tokenizer.json, for make_hf_model.py."""
import json
import struct
import sys

import numpy as np

import oracle_path  # noqa: F401
from gguf_file import BF16, F16, F32, NUMBERS

DTYPES = {F32: ("F32", np.float32), F16: ("F16", np.float16), BF16: ("BF16", np.uint16), NUMBERS: ("I32", np.int32)}


def write_safetensors(path, tensors, padding=True):
    """tensors: {name: (type, array)}. The header is padded to 8 bytes, as most writers do."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (t, x) in tensors.items():
        header[name] = {"dtype": t if isinstance(t, str) else DTYPES[t][0], "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8 if padding else 0)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, x in tensors.values():
            f.write(np.ascontiguousarray(x).tobytes())


def write_tensors(folder, tensors, n_shards):
    if n_shards == 1:
        return write_safetensors(f"{folder}/model.safetensors", tensors)
    names = list(tensors)
    weight_map = {}
    for i in range(n_shards):
        file = f"model-{i + 1:05}-of-{n_shards:05}.safetensors"
        share = names[i * len(names) // n_shards:(i + 1) * len(names) // n_shards]
        write_safetensors(f"{folder}/{file}", {n: tensors[n] for n in share})
        weight_map |= dict.fromkeys(share, file)
    total = sum(x.nbytes for _, x in tensors.values())
    write_json(f"{folder}/model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})


def write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f, indent=1, ensure_ascii=False)


def spm_merges(tokens, scores):
    """Returns pairs of tokens whose concatenation is a token, best first: the merges equivalent to SentencePiece's BPE of characters."""
    rank = {token: i for i, token in enumerate(tokens)}
    merges = [(-scores[i], len(token[:cut]), token[:cut], token[cut:]) for i, token in enumerate(tokens)
              for cut in range(1, len(token)) if token[:cut] in rank and token[cut:] in rank]
    return [[left, right] for _, _, left, right in sorted(merges, key=lambda m: (m[0], m[1]))]


def tokenizer_json(metadata):
    kind = metadata["tokenizer.ggml.model"].decode()
    tokens = [t.decode() for t in metadata["tokenizer.ggml.tokens"][1]]
    types = metadata["tokenizer.ggml.token_type"][1] if "tokenizer.ggml.token_type" in metadata else [1] * len(tokens)
    added = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": types[i] != 4}
             for i in range(len(tokens)) if types[i] in (2, 3, 4)]
    vocab = {t: i for i, t in enumerate(tokens)}
    out = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": None,
           "post_processor": None, "decoder": None}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
             "byte_fallback": False, "vocab": vocab}
    if kind == "llama":
        plain = [t if types[i] == 1 else "" for i, t in enumerate(tokens)]
        model |= {"unk_token": tokens[metadata.get("tokenizer.ggml.unknown_token_id", 0)], "fuse_unk": True, "byte_fallback": True,
                  "merges": spm_merges(plain, metadata["tokenizer.ggml.scores"][1])}
        out["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                                                  {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
        out["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                                                           {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    elif kind == "gpt2":
        assert metadata.get("tokenizer.ggml.pre", b"gpt-2") in (b"gpt-2", b"default"), "another pre-tokenizer than GPT-2's"
        model["merges"] = [m.decode() for m in metadata["tokenizer.ggml.merges"][1]]
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        out["pre_tokenizer"] = out["decoder"] = byte_level
    else:
        sys.exit(f"a vocabulary of the model '{kind}' is not written here")
    if metadata.get("tokenizer.ggml.add_bos_token", kind == "llama"):
        bos = metadata["tokenizer.ggml.bos_token_id"]
        part = {"SpecialToken": {"id": tokens[bos], "type_id": 0}}
        out["post_processor"] = {"type": "TemplateProcessing", "single": [part, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                                 "special_tokens": {tokens[bos]: {"id": tokens[bos], "ids": [bos], "tokens": [tokens[bos]]}}}
    return {**out, "model": model}, tokens


def write_vocabulary(folder, metadata):
    content, tokens = tokenizer_json(metadata)
    write_json(f"{folder}/tokenizer.json", content)
    config = {}
    for name in ("bos", "eos"):
        if f"tokenizer.ggml.{name}_token_id" in metadata:
            config[f"{name}_token"] = tokens[metadata[f"tokenizer.ggml.{name}_token_id"]]
    if "tokenizer.chat_template" in metadata:
        config["chat_template"] = metadata["tokenizer.chat_template"].decode()
    write_json(f"{folder}/tokenizer_config.json", config)
    if "tokenizer.ggml.eos_token_id" in metadata:
        write_json(f"{folder}/generation_config.json", {"eos_token_id": [metadata["tokenizer.ggml.eos_token_id"]]})
