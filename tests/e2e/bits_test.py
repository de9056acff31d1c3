"""Tests that the bits of the logits match the table in this folder, for every weight type, KV type and instruction set.

exactness_test.py shows that a program agrees with itself; this test shows that it agrees with the previous version. A change that
intentionally changes bits rewrites the table, on a machine with all instruction sets, and mentions it:

    KVIK_BINARY=build/kvik tests/e2e/bits_test.py --write

--add keeps all rows and adds those of new cases, on any machine with avx512bf16. A set that the machine lacks must have the bits of the scalar
one, except where products with bf16 weights round in their own way: there the table does not name it.
"""
import concurrent.futures
import functools
import hashlib
import os
import sys
import unittest
import zlib

import kvik
from kvik import gguf_file

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bits.tsv")
KV_TYPES = ("f32", "bf16", "int8", "int4", "int8/int4")


def types_of(model, types):
    """Returns the types in the order of the table's rows for that model, then the types that it lacks."""
    with open(TABLE) as f:
        rows = (line.split("\t")[0] for line in f)
        known = dict.fromkeys(row.removeprefix(model) for row in rows if row.startswith(model))
    return (*(t for t in known if t in types), *(t for t in types if t not in known))


# Types of `synthetic:` models. Their small matrices have no blocks of 256; the converted demo model does.
SYNTHETIC_TYPES = types_of("synthetic:test-llama:", (*gguf_file.WEIGHT_TYPES, *gguf_file.MIXES))
DEMO_TYPES = types_of("demo:", (*gguf_file.TYPES, *gguf_file.MIXES))
FAMILY_TYPES = ("f32", "bf16", "q8_0", "q4_0")
SYNTHETIC_TOKENS = kvik.random_tokens(77, 260, 5)  # longer than two pages and than the windows of 32
DEMO_TOKENS = kvik.random_tokens(33, 2045, 5)
# Prose of 600 tokens, two splits of attention. Trained weights attend to some tokens many times as much as to others, as random ones do not.
TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "texts/harbor.txt")


def cases():
    """Yields (model, KV type): on one family each weight type with each KV type. The KV types of a preset depend on its name, so that a new preset
    leaves the rows of the others unchanged."""
    yield from ((f"synthetic:test-llama:{t}", kv) for t in SYNTHETIC_TYPES for kv in KV_TYPES)
    yield from ((f"synthetic:{name}:{t}", KV_TYPES[(zlib.crc32(name.encode()) + j) % 4])
                for name in kvik.PRESETS if name != "test-llama" for j, t in enumerate(FAMILY_TYPES))
    yield from ((f"demo:{t}", KV_TYPES[i % 4]) for i, t in enumerate(DEMO_TYPES))
    yield from (("text:q8_0", kv) for kv in KV_TYPES)


@functools.cache
def text_tokens():
    with open(TEXT) as f:
        return [int(i) for i in kvik.output("tokenize", "demo", f.read()).split()][:600]


def digest(case, isa):
    model, kv_type = case
    path, tokens = model, SYNTHETIC_TOKENS
    if model.startswith("demo:"):
        path, tokens = kvik.demo_as(model.removeprefix("demo:")), DEMO_TOKENS
    is_text = model.startswith("text:")  # of which only the last logits count
    if is_text:
        path, tokens = kvik.demo_as(model.removeprefix("text:")), text_tokens()
    text = kvik.logits_text(path, tokens, all=not is_text, kv_type=kv_type, threads=1, env={"KVIK_ISA": isa})
    return hashlib.sha256(text).hexdigest()


def digests(isas, some=None):
    """Returns {(case, set): hash of the printed logits}, of all cases or of some."""
    wanted = [(case, isa) for case in some or cases() for isa in isas]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(kvik.demo_as, DEMO_TYPES))  # each file is made once, then read with every set
        return dict(zip(wanted, pool.map(lambda w: digest(*w), wanted)))


def read_table():
    """Returns {(case, set): hash}. Each line holds the model, the KV type, and one pair (sets, hash) per distinct hash; nearly all sets agree."""
    table = {}
    with open(TABLE) as f:
        for line in f:
            model, kv_type, *groups = line.split()
            for sets, value in zip(groups[::2], groups[1::2]):
                for isa in kvik.ISAS if sets == "all" else sets.split(","):
                    table[(model, kv_type), isa] = value
    return table


def write_table(table):
    """Writes the hashes of all cases, {(case, set): hash}."""
    with open(TABLE, "w") as f:
        for case in cases():
            groups = {}
            for isa in kvik.ISAS:
                if (case, isa) in table:
                    groups.setdefault(table[case, isa], []).append(isa)
            columns = ["all" if len(sets) == len(kvik.ISAS) else ",".join(sets) for sets in groups.values()]
            print(*case, *(text for pair in zip(columns, groups) for text in pair), sep="\t", file=f)


def measured_table():
    missing = set(kvik.ISAS) - set(kvik.isas())
    if missing:
        sys.exit(f"this processor lacks {', '.join(sorted(missing))}: their rows would be lost")
    return digests(kvik.ISAS)


def extended_table():
    """Returns the table with the cases that it lacks."""
    if "avx512bf16" not in kvik.isas():
        sys.exit("this processor lacks avx512bf16, which shows where products with bf16 weights round in their own way")
    table = read_table()
    known = {case for case, _ in table}
    got = digests(kvik.isas(), [case for case in cases() if case not in known])
    for (case, _), _ in list(got.items()):
        rounds = got[case, "avx512bf16"] != got[case, "scalar"]
        others = set(kvik.ISAS) - set(kvik.isas()) - (kvik.ROUND_TO_BF16 if rounds else set())
        got |= {(case, isa): got[case, "scalar"] for isa in others}
    return table | got


class Bits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table, cls.got = read_table(), digests(kvik.isas())

    def test_the_table_has_every_case(self):
        every = {(case, isa) for case in cases() for isa in kvik.ISAS}
        self.assertLessEqual(set(self.table), every)
        self.assertLessEqual({(case, isa) for case, isa in every if isa not in kvik.ROUND_TO_BF16}, set(self.table))


def test_of(isa):
    def test(self):
        if isa not in kvik.isas():
            self.skipTest(f"this processor has no {isa}")
        wrong = [" ".join(case) for (case, of), value in self.got.items() if of == isa and self.table.get((case, of), value) != value]
        self.assertEqual(wrong, [], f"{len(wrong)} of the table's rows have other bits under {isa}")

    return test


for name in kvik.ISAS:
    setattr(Bits, f"test_bits_under_{name}_are_those_of_the_table", test_of(name))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_table(measured_table())
    elif sys.argv[1:] == ["--add"]:
        write_table(extended_table())
    else:
        unittest.main()
