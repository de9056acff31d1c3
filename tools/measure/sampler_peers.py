#!/usr/bin/python3
"""Compares the distributions of Kvik's samplers with those of llama.cpp's, on the same logits.

    sampler_peers.py --node-modules bench/peers/node_modules --build build        # 10^6 draws a case

llama.cpp is the library that node-llama-cpp carries (bench/peers/README.md); its samplers need no model. Their final
probabilities are compared with the shares of Kvik's draws (`bench/sampler_draws`, -DKVIK_BUILD_BENCH=ON): the total
variation distance, and the one expected by chance for that many draws. Needs numpy.
"""
import argparse
import ctypes
import glob
import os
import subprocess

import numpy as np

KINDS = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
N_VOCAB = 1000
UNUSED_SEED = 7


class TokenData(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float)]


class TokenDataArray(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(TokenData)), ("size", ctypes.c_size_t), ("selected", ctypes.c_int64),
                ("sorted", ctypes.c_bool)]


class Vector(ctypes.Structure):
    """A std::vector, as libstdc++ lays it out."""
    _fields_ = [("begin", ctypes.c_void_p), ("end", ctypes.c_void_p), ("limit", ctypes.c_void_p)]


def vector_of(items):
    """Returns a vector that borrows the array of items."""
    begin = ctypes.addressof(items)
    return Vector(begin, begin + ctypes.sizeof(items), begin + ctypes.sizeof(items))


class LlamaCpp:
    """llama.cpp's samplers."""

    def __init__(self, node_modules):
        folder = os.path.join(node_modules, "@node-llama-cpp/linux-x64/bins/linux-x64")
        for name in ("libggml-base.so", "libggml.v*.so", "libllama.v*.so"):
            path = glob.glob(os.path.join(folder, name))
            if not path:
                raise SystemExit(f"{folder} has no {name}; `npm install --prefix bench/peers` brings it")
            self.lib = ctypes.CDLL(path[0], mode=ctypes.RTLD_GLOBAL)
        self.version = os.path.basename(path[0])

    def make(self, name, *arguments):
        function = getattr(self.lib, name)
        function.restype = ctypes.c_void_p
        return ctypes.c_void_p(function(*arguments))

    def sampler(self, kind, p):
        real, whole = ctypes.c_float, ctypes.c_int32
        if kind == "penalties":
            return self.make("llama_sampler_init_penalties", whole(N_VOCAB), whole(p["repeat_last_n"]), real(p["repetition_penalty"]),
                             real(p["frequency_penalty"]), real(p["presence_penalty"]))
        if kind == "dry":
            return self.dry(p)
        if kind == "top_n_sigma":
            return self.make("llama_sampler_init_top_n_sigma", real(p["top_n_sigma"]))
        if kind == "top_k":
            return self.make("llama_sampler_init_top_k", whole(p["top_k"]))
        if kind == "xtc":
            return self.make("llama_sampler_init_xtc", real(p["xtc_probability"]), real(p["xtc_threshold"]), ctypes.c_size_t(0),
                             ctypes.c_uint32(UNUSED_SEED))
        if kind == "temperature":
            return self.make("llama_sampler_init_temp_ext", real(p["temperature"]), real(p["dynatemp_range"]),
                             real(p["dynatemp_exponent"]))
        name, field = {"typ_p": ("typical", "typical_p"), "top_p": ("top_p", "top_p"), "min_p": ("min_p", "min_p")}[kind]
        return self.make(f"llama_sampler_init_{name}", real(p[field]), ctypes.c_size_t(0))

    def dry(self, p):
        """Makes the sampler by the function that its own tests use: it takes breakers as tokens."""
        rows = [(ctypes.c_int32 * len(breaker))(*breaker) for breaker in p["breakers"]]
        vectors = (Vector * len(rows))(*map(vector_of, rows))
        function = "_Z30llama_sampler_init_dry_testingffiiRKSt6vectorIS_IiSaIiEESaIS1_EE"
        return self.make(function, ctypes.c_float(p["dry_multiplier"]), ctypes.c_float(p["dry_base"]),
                         ctypes.c_int32(p["dry_allowed_length"]), ctypes.c_int32(p["dry_penalty_last_n"]),
                         ctypes.byref(vector_of(vectors)))

    def probabilities(self, logits, tokens, p, order):
        """Returns the distribution from which the last sampler draws."""
        if 0 < p["xtc_probability"] < 1 and "xtc" in order:
            never, always = (self.probabilities(logits, tokens, {**p, "xtc_probability": x}, order) for x in (0, 1))
            return always * p["xtc_probability"] + never * (1 - p["xtc_probability"])
        if p["mirostat"]:
            temperature = self.make("llama_sampler_init_temp", ctypes.c_float(p["temperature"]))
            tau, eta, seed = ctypes.c_float(p["mirostat_tau"]), ctypes.c_float(p["mirostat_eta"]), ctypes.c_uint32(UNUSED_SEED)
            if p["mirostat"] == 1:
                mirostat = self.make("llama_sampler_init_mirostat", ctypes.c_int32(len(logits)), seed, tau, eta, ctypes.c_int32(100))
            else:
                mirostat = self.make("llama_sampler_init_mirostat_v2", seed, tau, eta)
            samplers = [temperature, mirostat]
        else:
            samplers = [self.sampler(kind, p) for kind in order]
        data = (TokenData * len(logits))(*((i, float(x), 0.0) for i, x in enumerate(logits)))
        array = TokenDataArray(data, len(logits), -1, False)
        for sampler in samplers:
            for token in tokens:
                self.lib.llama_sampler_accept(sampler, ctypes.c_int32(token))
            self.lib.llama_sampler_apply(sampler, ctypes.byref(array))
            self.lib.llama_sampler_free(sampler)
        left = np.full(len(logits), -np.inf)
        for i in range(array.size):
            left[array.data[i].id] = array.data[i].logit
        weights = np.exp(left - left.max())
        return weights / weights.sum()


OFF = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "typical_p": 1, "top_n_sigma": 0, "repetition_penalty": 1,
       "presence_penalty": 0, "frequency_penalty": 0, "repeat_last_n": 64, "xtc_probability": 0, "xtc_threshold": 0.1,
       "dynatemp_range": 0, "dynatemp_exponent": 1, "mirostat": 0, "mirostat_tau": 5, "mirostat_eta": 0.1, "dry_multiplier": 0,
       "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": 200, "breakers": [[3], [5, 6]]}

ALL = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "typical_p": 0.95, "top_n_sigma": 2.5,
       "repetition_penalty": 1.1, "presence_penalty": 0.1, "frequency_penalty": 0.1, "xtc_probability": 0.5,
       "xtc_threshold": 0.1, "dry_multiplier": 0.8}

# Name, parameters that differ from OFF, and the order; None: that of a request without `samplers`.
CASES = [
    ("temperature 0.7", {"temperature": 0.7}, ["temperature"]),
    ("top-k 40", {"top_k": 40}, ["top_k"]),
    ("top-p 0.9", {"top_p": 0.9}, ["top_p"]),
    ("min-p 0.05", {"min_p": 0.05}, ["min_p"]),
    ("typical-p 0.9", {"typical_p": 0.9}, ["typ_p"]),
    ("typical-p 0.3", {"typical_p": 0.3}, ["typ_p"]),
    ("top-n-sigma 1", {"top_n_sigma": 1}, ["top_n_sigma"]),
    ("XTC, always, 0.05", {"xtc_probability": 1, "xtc_threshold": 0.05}, ["xtc"]),
    ("XTC, 0.4, 0.02", {"xtc_probability": 0.4, "xtc_threshold": 0.02}, ["xtc"]),
    ("dynamic temperature 1 ± 0.5", {"dynatemp_range": 0.5}, ["temperature"]),
    ("dynamic temperature 0.8 ± 0.8, exponent 2", {"temperature": 0.8, "dynatemp_range": 0.8, "dynatemp_exponent": 2}, ["temperature"]),
    ("Mirostat 1, tau 3", {"mirostat": 1, "mirostat_tau": 3}, KINDS),
    ("Mirostat 2, tau 3", {"mirostat": 2, "mirostat_tau": 3}, KINDS),
    ("penalties 1.3, 0.5, 0.2 of 64 tokens", {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.2},
     ["penalties"]),
    ("DRY 0.8", {"dry_multiplier": 0.8}, ["dry"]),
    ("all but Mirostat, default order", ALL, None),
    ("the same, temperature first", ALL, ["temperature"] + KINDS[:-1]),
    ("the same, XTC, penalties and DRY last", ALL,
     ["top_k", "typ_p", "top_p", "min_p", "temperature", "top_n_sigma", "xtc", "penalties", "dry"]),
    ("top-k 40, top-p 0.95, min-p 0.05, 0.8: Kvik's fast path", {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
     "fast"),
]


def shares_of_kvik(program, logits, tokens, p, order, n_draws):
    lines = ["logits " + " ".join(repr(float(x)) for x in logits), "tokens 100 " + " ".join(map(str, tokens))]
    lines += [f"set {name} {value}" for name, value in p.items() if name != "breakers"]
    lines += ["breaker " + " ".join(map(str, breaker)) for breaker in p["breakers"]]
    if order and order != "fast":
        lines.append("order " + " ".join(str(KINDS.index(kind)) for kind in order))
    lines.append(f"draw {n_draws}")
    done = subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{program}: {done.stderr}")
    return np.array(done.stdout.split(), float) / n_draws


def by_chance(p, n_draws):
    """Returns the expected total variation distance of n_draws from their distribution."""
    return np.sqrt(2 * p * (1 - p) / (np.pi * n_draws)).sum() / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node-modules", default="bench/peers/node_modules")
    parser.add_argument("--build", default="build")
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--case", default="", help="only cases whose name has this")
    args = parser.parse_args()
    llama = LlamaCpp(args.node_modules)
    random = np.random.default_rng(1)
    logits = random.normal(0, 2, N_VOCAB).astype(np.float32)
    # Likely tokens that repeat, in phrases of different lengths.
    phrase = [int(x) for x in np.argsort(-logits)[:12]]
    tokens = [int(x) for x in random.integers(0, N_VOCAB, 60)] + phrase + [9] + phrase[4:] + [3] + phrase[:7] + [8] + phrase[:6]
    print(f"{llama.version}, {args.draws:,} draws, {N_VOCAB:,} tokens\n")
    print("| samplers | tokens left | distance | by chance |\n|---|---|---|---|")
    for name, changes, order in CASES:
        if args.case not in name:
            continue
        p = {**OFF, **changes}
        peers_order = {"fast": ["temperature", "min_p", "top_k", "top_p"]}.get(order, order) if isinstance(order, str) else order or KINDS
        expected = llama.probabilities(logits, tokens, p, peers_order)
        got = shares_of_kvik(os.path.join(args.build, "bench/sampler_draws"), logits, tokens, p, order, args.draws)
        distance = np.abs(expected - got).sum() / 2
        print(f"| {name} | {np.count_nonzero(expected)} | {distance:.5f} | {by_chance(expected, args.draws):.5f} |", flush=True)


if __name__ == "__main__":
    main()
