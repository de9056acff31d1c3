"""Shared helpers of the end-to-end tests: running the binary, making models, the oracle."""
import functools
import hashlib
import os
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(ROOT, "../shared/data")  # real vocabularies; absent in a plain clone
DEMO = os.path.join(ROOT, "models/demo.gguf")
DEMO_BOS, DEMO_EOS = 2045, 2046
LONG = bool(os.environ.get("KVIK_TEST_LONG"))
SANITIZED = "sanitize" in os.environ.get("KVIK_BUILD", "")  # a sanitizer uses additional memory and stack

sys.path[:0] = [os.path.join(ROOT, folder) for folder in ("tools", "tools/client", "tools/make", "tools/measure", "tools/oracle")]
import gguf_file  # noqa: E402
import model_presets  # noqa: E402
import reference_logits  # noqa: E402
from program import BINARY, command, environment  # noqa: E402

ISAS = ("scalar", "avx2", "avxvnni", "avx512", "avx512bf16", "amx")  # trying one shows whether the processor has it
ROUND_TO_BF16 = {"avx512bf16", "amx"}  # these round activations to bf16 where weights are bf16: other bits


def run(*args, stdin=b"", env=None, timeout=300):
    """Runs the binary and returns the finished process; stdout and stderr are bytes."""
    return subprocess.run(command(*args), input=stdin, capture_output=True, env=environment(**(env or {})), timeout=timeout)


def output(*args, **options):
    """Returns stdout of a run that must succeed."""
    done = run(*args, **options)
    if done.returncode != 0:
        raise AssertionError(f"kvik {' '.join(map(str, args))}: exit code {done.returncode}\n{done.stderr.decode(errors='replace')}")
    return done.stdout


def joined(tokens):
    return ",".join(str(int(t)) for t in tokens)


def flags(options):
    """Converts {kv_type: "f32", all: True, seed: None} to --kv-type f32 --all."""
    out = []
    for name, value in options.items():
        if value is not None and value is not False:
            out.append("--" + name.replace("_", "-"))
            if value is not True:
                out.append(str(value))
    return out


def logits_text(model, tokens, env=None, **options):
    return output("logits", model, "--tokens", joined(tokens), *flags(options), env=env)


def logits(model, tokens, env=None, **options):
    """Returns logits as [n_rows, n_vocab]."""
    lines = logits_text(model, tokens, env, **options).splitlines()
    return np.array([np.array(line.split(b" "), np.float64) for line in lines])


def greedy(model, tokens, n, env=None, **options):
    text = output("run", model, "--tokens", joined(tokens), "--max-tokens", n, "--temperature", 0, "--ids", "--ignore-eos",
                  *flags(options), env=env)
    return [int(t) for t in text.split()]


# The small models of all families.
PRESETS = tuple(name for name in model_presets.PRESETS if name.startswith("test-"))

# Presets whose logits move by 0.5 to 3.7e-6 when weights change by half a unit in the last place: models with the delta rule, which subtracts the
# stored value from the new one, Nemotron-H, LFM3 (products of three projections, normalized before they are added), Jamba (norms of few inputs) and Gemma 3n (gates cut off by
# the mean and deviation of a row).
ILL_CONDITIONED = ("test-qwen35", "test-qwen35moe", "test-qwen3next", "test-nemotronh", "test-nemotronhmoe", "test-nemotron3", "test-puzzle", "test-lfm3", "test-jamba", "test-gemma3n", "test-kimilinear",
                   "test-bailingmoe3", "test-qwen4exp", "test-glm5next")


@functools.cache
def isas():
    """Returns the instruction sets that can be selected here, the best one last. Scalar always works."""
    return tuple(isa for isa in ISAS if isa == "scalar" or
                 run("logits", "demo", "--tokens", "1", env={"KVIK_ISA": isa}).returncode == 0)


# --- models: made once and kept between runs in a folder whose name depends on the tools ---

@functools.cache
def model_folder():
    digest = hashlib.sha256()
    tools = ("make/make_model", "make/model_tensors", "make/model_presets", "make/convert_gguf", "oracle/gguf_file", "oracle/k_quants", "oracle/small_quants",
             "oracle/code_quants", "oracle/state_layers", "oracle/qwen4_layers", "oracle/deepseek4_layers", "oracle/family_features", "oracle/reference_logits")
    for name in (*(f"tools/{tool}.py" for tool in tools), "models/demo.gguf"):
        with open(os.path.join(ROOT, name), "rb") as f:
            digest.update(f.read())
    folder = os.path.join(tempfile.gettempdir(), f"kvik-test-models-{os.getuid()}-{digest.hexdigest()[:16]}")
    os.makedirs(folder, exist_ok=True)
    return folder


def made(name, tool, *args):
    """Returns the path of model_folder()/name, which the tool writes if it is missing. Two tests may call this at the same time."""
    path = os.path.join(model_folder(), name)
    if not os.path.exists(path):
        unfinished = f"{path}.{os.getpid()}"
        subprocess.run([sys.executable, os.path.join(ROOT, "tools/make", tool), *map(str, args), unfinished], check=True, capture_output=True)
        os.replace(unfinished, path)
    return path


def preset(name, element_type="f32", seed=0, *more):
    tail = "".join(str(m) for m in more)
    return made(f"{name}-{element_type}-{seed}{tail}.gguf", "make_model.py", "--preset", name, "--type", element_type, "--seed", seed, *more)


def demo_as(element_type):
    """Returns the demo model with its matrices in another type; q8_0 is the embedded one."""
    return "demo" if element_type == "q8_0" else made(f"demo-{element_type}.gguf", "convert_gguf.py", "--type", element_type, DEMO)


@functools.lru_cache(4)
def weights(path):
    return reference_logits.load(DEMO if path == "demo" else path)


def reference(path, tokens):
    """Returns [n_tokens, n_vocab] in float64, computed without a cache."""
    return reference_logits.forward(*weights(path), list(map(int, tokens)))


def f32_bound(meta, weights, tokens, want, **ways):
    """Returns the error bound of f32: two millionths of a row's largest magnitude. If the model is worse conditioned, the bound is a small
    multiple of the change of the oracle's f64 values when weights change by half a unit in the last place of f32. Reasons are keys of the delta
    rule that are short before their normalization, and the depth of 27 layers."""
    rng = np.random.default_rng(1)
    perturbed = {name: w * (1 + 2.0**-24 * rng.uniform(-1, 1, w.shape)) if w.ndim > 1 and "tid2eid" not in name else w for name, w in weights.items()}
    got = reference_logits.forward(meta, perturbed, list(map(int, tokens)), **ways)
    return max(2e-6, 8 * (np.abs(got - want).max(1) / np.abs(want).max(1)).max())


def reference_greedy(path, tokens, n):
    tokens = list(map(int, tokens))
    for _ in range(n):
        tokens.append(int(reference(path, tokens)[-1].argmax()))
    return tokens[-n:]


def random_tokens(n, n_vocab, seed):
    return np.random.default_rng(seed).integers(4, n_vocab, n).tolist()


@functools.cache
def demo_vocabulary():
    """Returns the bytes of each of the demo's tokens. GPT-2 represents a byte by a printable character. Control tokens, from DEMO_BOS on, have no
    text."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    byte_of = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
    pieces = gguf_file.read_metadata(DEMO)["tokenizer.ggml.tokens"][1][1]
    return [bytes(byte_of[c] for c in piece.decode()) if i < DEMO_BOS else b"" for i, piece in enumerate(pieces)]


def demo_text(ids):
    return b"".join(demo_vocabulary()[i] for i in ids)
