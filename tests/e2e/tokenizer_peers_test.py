"""Tests that ids match Hugging Face's library on generated texts, and that every difference from the other peers is explained in
docs/reference/tokenizers.md. Runs with KVIK_TEST_LONG where node and the packages of bench/peers are installed
(npm install --prefix bench/peers), or with KVIK_TEST_PEERS set to a folder with these packages."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(os.environ.get("KVIK_TEST_VOCABULARIES", ROOT.parent / "shared" / "data" / "tokenizers"))
PACKAGES = pathlib.Path(os.environ.get("KVIK_TEST_PEERS", ROOT / "bench" / "peers"))
TOOL = pathlib.Path(os.environ.get("KVIK_BUILD", ROOT / "build")) / "tests" / "tokenizer_tool"
N_TEXTS = 5000

# Characters newer than Unicode 15.0, the version of ICU 72.
NEWER_UNICODE = r"[\u2ffc-\u2fff\u31ef\u1b7f\u2427-\u2429\u1c89\u1c8a\ua7cb-\ua7cd\ua7da-\ua7dc\U00010d40-\U00010d8f\U000105c0-\U000105ff]"
BLANKS = r"[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
# For each vocabulary and peer, a pattern of the shortest text that still differs.
EXPLAINED = {
    "": {"tokenizers": NEWER_UNICODE, "tokenizers-js": rf"[\ufeff\x85]|{NEWER_UNICODE}", "llama.cpp": NEWER_UNICODE},
    "falcon": {"tokenizers-js": r"\x0b", "llama.cpp": r"\x0b"},
    "deepseek-llm": {"llama.cpp": BLANKS},
    "phi-3": {"llama.cpp": r"</s>"},
    "unigram": {"tokenizers": "\u2581"},
    "word-piece": {"tokenizers": r"[^\x00-\u02ff]"},  # the definition of a mark depends on the version of Unicode
}


def compare(vocabulary, kind, peers):
    command = ["node", ROOT / "tools/measure/tokenizer_peers.mjs", vocabulary, "--as", kind, "--texts", str(N_TEXTS),
               "--seed", "7", "--peers", ",".join(peers), "--tool", TOOL, "--packages", PACKAGES]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout[run.stdout.index("{"):])


@unittest.skipUnless(os.environ.get("KVIK_TEST_LONG"), "KVIK_TEST_LONG asks for it")
@unittest.skipUnless(shutil.which("node") and (PACKAGES / "node_modules" / "@anush008").is_dir(),
                     "node or the packages of bench/peers are missing")
class Peers(unittest.TestCase):
    def agree(self, name, kind, peers):
        vocabulary = FOLDER / f"ggml-vocab-{name}.gguf"
        if not vocabulary.is_file():
            self.skipTest(f"{vocabulary} is missing")
        result = compare(vocabulary, kind, peers)
        for peer in peers:
            got = result["peers"][peer]
            self.assertTrue(got["loads"], f"{peer}: {got.get('why')}")
            known = "|".join(EXPLAINED.get(key, {}).get(peer) or "(?!)" for key in ("", name, kind))
            new = [k for k in got["kinds"] if not re.search(known, k["text"])]
            self.assertEqual(new, [], f"{name} as {kind}, {peer}")

    def test_real_vocabularies(self):
        for name in ("gpt-2", "falcon", "deepseek-llm", "llama-spm", "phi-3"):
            with self.subTest(name):
                self.agree(name, "itself", ["tokenizers", "tokenizers-js", "llama.cpp"])

    def test_kinds_that_are_derived(self):
        for name, kind in (("llama-spm", "unigram"), ("llama-spm", "gemma4"), ("gpt-2", "word-piece")):
            with self.subTest(kind):
                self.agree(name, kind, ["tokenizers"])

    def test_other_pre_tokenizers(self):
        for kind in ("default", "llama-bpe", "qwen2", "deepseek-coder", "deepseek-v3", "starcoder", "tekken",
                     "gpt-4o", "kimi-k2", "youtu", "afmoe"):
            with self.subTest(kind):
                self.agree("gpt-2", kind, ["tokenizers"])


if __name__ == "__main__":
    unittest.main()
