"""Tests hostile model files: exit code 1, one sentence, no crash."""
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
import unittest

import gguf
import kvik
from gguf import ARR, BOOL, F, I32, STR, U32, U64

CONFIG = json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                     "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 300, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
                     "rope_theta": 10000.0})


class ModelFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "model.gguf")
        with open(kvik.preset("test-llama"), "rb") as f:
            cls.whole = f.read()
        cls.header_bytes = gguf.tiny().header_bytes()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def attempt(self, content, command=("logits", "--tokens", "5,6")):
        with open(self.path, "wb") as f:
            f.write(content)
        return kvik.run(command[0], self.path, *command[1:], timeout=60)

    def refused(self, content, *words):
        done = self.attempt(content.bytes() if isinstance(content, gguf.Gguf) else content)
        output = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, 1, f"{done.returncode}: {output}")
        self.assertEqual(done.stdout, b"")
        self.assertEqual(output.count("\n"), 1, output)
        for word in words:
            self.assertIn(word, output)

    def test_the_whole_file_is_taken(self):
        self.assertEqual(self.attempt(self.whole).returncode, 0)
        self.assertEqual(self.attempt(gguf.tiny().bytes()).returncode, 0)

    def test_files_cut_anywhere(self):
        offsets = set(range(0, 160)) | set(range(0, self.header_bytes, 1 if kvik.LONG else 61))
        offsets |= {self.header_bytes - n for n in range(-3, 40)}
        offsets |= set(range(self.header_bytes, len(self.whole), len(self.whole) // 20)) | {len(self.whole) - n for n in (1, 2, 33, 200)}
        for n in sorted(offsets):
            with self.subTest(bytes=n):
                self.refused(self.whole[:n])

    def test_random_damage_never_crashes(self):
        rng = random.Random(1)
        for i in range(1000 if kvik.LONG else 150):
            damaged = bytearray(self.whole)
            for _ in range(rng.choice((1, 1, 2, 8))):
                damaged[rng.randrange(self.header_bytes)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            done = self.attempt(bytes(damaged), ("show",))
            with self.subTest(i=i):
                self.assertIn(done.returncode, (0, 1), done.stderr)
                self.assertEqual(done.stderr.count(b"\n"), done.returncode, done.stderr)

    def test_a_file_that_is_cut_while_it_is_read_ends_it_with_a_sentence(self):
        """Truncates the file at a random moment: the process has already read what it needs, or exits with 1; no signal ends it."""
        rng = random.Random(2)
        whole = kvik.made("two-layers.gguf", "make_model.py", "--preset", "tinyllama-1.1b", "--type", "q8_0", "--layers", 2)
        path, codes = self.path + ".cut", set()
        for _ in range(200 if kvik.LONG else 30):
            shutil.copy(whole, path)
            with subprocess.Popen(kvik.command("logits", path, "--tokens", "1"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  env=kvik.environment()) as process:
                time.sleep(rng.uniform(0, 0.15))
                os.truncate(path, rng.randrange(os.path.getsize(path)))
                output = process.stderr.read()
                codes.add(process.wait(60))
                self.assertIn(process.returncode, (0, 1), output)
                self.assertEqual(output.count(b"\n"), process.returncode, output)
        self.assertIn(1, codes)

    def test_pipes_and_folders_by_the_names_of_files_are_refused_and_not_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe.gguf")
            os.mkfifo(pipe)
            self.assertEqual(kvik.run("show", pipe, timeout=20).returncode, 1)
            for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "model.safetensors.index.json"):
                for make in (os.mkfifo, os.mkdir):
                    model = os.path.join(folder, "model")
                    os.mkdir(model)
                    with open(os.path.join(model, "config.json"), "w") as f:
                        f.write(CONFIG)
                    path = os.path.join(model, name)
                    if os.path.exists(path):
                        os.remove(path)
                    make(path)
                    done = kvik.run("show", model, timeout=20)
                    with self.subTest(name=name, make=make):
                        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)
                    shutil.rmtree(model)

    def test_versions_that_do_not_exist(self):
        for version in (0, 1, 4, 2**31, 3 << 24):
            model = gguf.tiny()
            model.version = version
            self.refused(model)

    def test_version_2_is_taken(self):
        model = gguf.tiny()
        model.version = 2
        self.assertEqual(self.attempt(model.bytes()).returncode, 0)

    def test_counts_that_cannot_be(self):
        for n in (2**63, 2**64 - 1, 2**40, 10**6):
            self.refused(gguf.tiny().bytes(n_tensors=n))
            self.refused(gguf.tiny().bytes(n_metadata=n))

    def test_shapes_that_cannot_be(self):
        for dims in ([0, 260], [64, 0], [2**42 + 1, 260], [2**32, 2**32], [2**63, 2], [64, 2**64 - 1], [], [64, 260, 1, 1, 1], [64, 261], [63, 260], [64]):
            model = gguf.tiny()
            model.tensor("token_embd.weight")[1] = dims
            with self.subTest(dims=dims):
                self.refused(model, "token_embd.weight")

    def test_offsets_that_cannot_be(self):
        for offset in (2**63, 2**64 - 32, len(self.whole), 16, 1):
            model = gguf.tiny()
            model.tensor("output.weight")[3] = offset
            with self.subTest(offset=offset):
                self.refused(model, "output.weight")

    def test_tensors_that_overlap(self):
        model = gguf.tiny()
        model.tensor("blk.0.attn_k.weight")[3] = model.tensor("blk.0.attn_q.weight")[3]
        self.refused(model)

    def test_element_types_that_are_not_known(self):
        for element_type in (99, 2**31, 4, 5):
            model = gguf.tiny()
            model.tensor("blk.0.attn_k.weight")[2] = element_type
            self.refused(model, "blk.0.attn_k.weight")

    def test_alignments_that_cannot_be(self):
        for value_type, value in ((U32, 0), (U32, 2**31), (U32, 3), (STR, "32"), (U64, 2**63)):
            with self.subTest(value=value):
                self.refused(gguf.tiny().set("general.alignment", value_type, value), "general.alignment")

    def test_keys_empty_and_twice(self):
        model = gguf.tiny()
        model.metadata.append(("", U32, 1))
        self.refused(model)
        model = gguf.tiny()
        model.metadata.append(("llama.block_count", U32, 2))
        self.refused(model, "llama.block_count")

    def test_tensors_twice(self):
        model = gguf.tiny()
        model.tensors.append(list(model.tensor("output_norm.weight")))
        self.refused(model, "output_norm.weight")

    def test_known_keys_of_a_wrong_type(self):
        wrong = {
            "general.architecture": (U32, 1),
            "llama.block_count": (STR, "2"),
            "llama.embedding_length": (F, 64.0),
            "llama.attention.head_count": (ARR, (STR, ["4"])),
            "llama.attention.layer_norm_rms_epsilon": (STR, "1e-5"),
            "llama.rope.freq_base": (ARR, (F, [1e4])),
            "tokenizer.ggml.model": (BOOL, True),
            "tokenizer.ggml.tokens": (STR, "a b c"),
            "tokenizer.ggml.scores": (ARR, (STR, ["0"] * 260)),
            "tokenizer.ggml.token_type": (F, 1.0),
            "tokenizer.ggml.bos_token_id": (STR, "1"),
        }
        for key, (value_type, value) in wrong.items():
            with self.subTest(key=key):
                self.refused(gguf.tiny().set(key, value_type, value), key)

    def test_numbers_that_make_no_geometry(self):
        wrong = {
            "llama.block_count": (0, 2**31, 2**32 - 1, 3),
            "llama.embedding_length": (0, 2**31, 63, 128),
            "llama.attention.head_count": (0, 2**31, 3),
            "llama.attention.head_count_kv": (0, 3, 2**31, 8),
            "llama.attention.key_length": (0, 2**31, 17),
            "llama.feed_forward_length": (0, 2**31, 161),
            "llama.context_length": (0,),
            "llama.rope.dimension_count": (2**31, 18, 15),
        }
        for key, values in wrong.items():
            for value in values:
                with self.subTest(key=key, value=value):
                    self.refused(gguf.tiny().set(key, U32, value))
        for key, value in (("llama.attention.layer_norm_rms_epsilon", float("nan")), ("llama.rope.freq_base", 0.0),
                           ("llama.rope.freq_base", float("inf")), ("llama.attention.layer_norm_rms_epsilon", -1.0)):
            with self.subTest(key=key, value=value):
                self.refused(gguf.tiny().set(key, F, value))

    def test_what_is_missing_is_named(self):
        for key in ("general.architecture", "llama.block_count", "llama.embedding_length", "llama.attention.head_count",
                    "tokenizer.ggml.model", "tokenizer.ggml.tokens"):
            with self.subTest(key=key):
                self.refused(gguf.tiny().drop(key), key)
        for name in ("token_embd.weight", "output_norm.weight", "blk.1.ffn_up.weight", "blk.0.attn_norm.weight"):
            with self.subTest(tensor=name):
                self.refused(gguf.tiny().without_tensor(name), name)

    def test_families_that_are_not_known_are_named(self):
        self.refused(gguf.tiny().set("general.architecture", STR, "rwkv99"), "rwkv99")

    def test_a_vocabulary_that_disagrees_with_the_embedding(self):
        tokens = gguf.tiny().get("tokenizer.ggml.tokens")[1]
        for changed in (tokens[:-1], tokens + [b"one too many"], tokens[:10]):
            model = gguf.tiny().set("tokenizer.ggml.tokens", ARR, (STR, changed))
            model.set("tokenizer.ggml.scores", ARR, (F, [0.0] * len(changed)))
            model.set("tokenizer.ggml.token_type", ARR, (I32, [1] * len(changed)))
            self.refused(model)

    def test_vocabularies_that_cannot_be(self):
        tokens = gguf.tiny().get("tokenizer.ggml.tokens")[1]
        self.refused(gguf.tiny().set("tokenizer.ggml.tokens", ARR, (STR, [])))
        self.refused(gguf.tiny().set("tokenizer.ggml.scores", ARR, (F, [0.0] * 3)))
        self.refused(gguf.tiny().set("tokenizer.ggml.token_type", ARR, (I32, [1] * (len(tokens) + 1))))
        for key in ("bos", "eos", "unknown"):
            for token in (260, 2**31, 2**32 - 1):
                with self.subTest(key=key, token=token):
                    self.refused(gguf.tiny().set(f"tokenizer.ggml.{key}_token_id", U32, token))
        self.refused(gguf.tiny().set("tokenizer.ggml.model", STR, "abacus"), "abacus")

    def test_arrays_in_arrays_without_end(self):
        nested = gguf.pack_value(U32, 7)
        for _ in range(100_000):
            nested = gguf.struct.pack("<IQ", ARR, 1) + nested
        head = b"GGUF" + gguf.struct.pack("<IQQ", 3, 0, 1) + gguf.pack_str("deep") + gguf.struct.pack("<I", ARR)
        self.refused(head + nested)

    def test_lengths_that_cannot_be(self):
        start = b"GGUF" + gguf.struct.pack("<IQQ", 3, 0, 1)
        for n in (2**63, 2**64 - 1, 2**40):
            self.refused(start + gguf.struct.pack("<Q", n) + b"key")
            self.refused(start + gguf.pack_str("key") + gguf.struct.pack("<IQ", STR, n) + b"value")
            self.refused(start + gguf.pack_str("key") + gguf.struct.pack("<IIQ", ARR, U32, n) + b"values")

    def test_what_is_no_file_is_refused(self):
        for path in ("/dev/null", "/", "/proc/self/mem", self.folder.name):
            done = kvik.run("show", path, timeout=30)
            self.assertIn(done.returncode, (1, 2), path)
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
