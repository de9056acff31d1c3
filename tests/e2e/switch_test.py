"""Tests models whose own adapters tokens choose (graniteswitch): what a control token changes, and that the prefix cache changes no answer."""
import json
import os
import unittest

import kvik
from hf_folder import FolderCase, folder_of
from server import Server, in_parallel

PRESET = "test-graniteswitch"
N_VOCAB = 260


def controls(path):
    """Returns [(control token, token whose embedding it has)]: the first one ends adapters, each other one chooses one."""
    meta, _ = kvik.weights(path)
    return list(zip(*(meta[f"graniteswitch.adapters.token_ids_{name}"][1] for name in ("activate", "substitute"))))


def plain(n, seed):
    """Returns tokens without control tokens."""
    chosen = {token for token, _ in controls(kvik.preset(PRESET, "f32", 1))}
    return [token for token in kvik.random_tokens(2 * n, N_VOCAB, seed) if token not in chosen][:n]


class Control(unittest.TestCase):
    def setUp(self):
        self.model = kvik.preset(PRESET, "f32", 1)
        self.controls = controls(self.model)

    def logits(self, *parts):
        tokens = [token for part in parts for token in (part if isinstance(part, list) else [part])]
        return kvik.logits_text(self.model, tokens, all=True, kv_type="f32").splitlines()

    def test_the_token_that_ends_adapters_is_its_substitute_without_one(self):
        before, after = plain(40, 1), plain(30, 2)
        end, substitute = self.controls[0]
        self.assertEqual(self.logits(before, end, after), self.logits(before, substitute, after))

    def test_a_row_has_the_adapter_of_the_last_control_token(self):
        before, after = plain(40, 1), plain(30, 2)
        rows = [self.logits(before, token, after) for token, _ in self.controls]
        for i, got in enumerate(rows):
            self.assertEqual(got[:40], rows[0][:40])  # rows before a control token do not change
            self.assertFalse(i and set(got[40:]) & set(rows[0][40:]), i)
        self.assertEqual(len({tuple(got[40:]) for got in rows}), len(self.controls))

    def test_k_and_v_of_an_adapter_stay_when_it_ends(self):
        before, after = plain(40, 1), plain(30, 2)
        (end, _), (first, substitute), *_ = self.controls
        with_it, without = (self.logits(token, before, end, after) for token in (first, substitute))
        self.assertFalse(set(with_it) & set(without))


class Folder(FolderCase):
    def test_a_change_with_one_factor_is_refused(self):
        with open(kvik.preset(PRESET), "rb") as f:
            content = f.read()
        path = os.path.join(self.root.name, "one-factor.gguf")
        with open(path, "wb") as f:
            f.write(content.replace(b"blk.0.attn_q.lora_a", b"blk.0.attn_q.lora_x"))
        words = f"{path}: tensor 'blk.0.attn_q.lora_a' is missing, but 'blk.0.attn_q.lora_b' is there"
        for command in (("plan",), ("logits", "--tokens", "5")):
            with self.subTest(command=command):
                self.refused(path, words, command=command)

    def changed(self, **changes):
        return self.copy(("config.json", lambda config: config.update(changes)), model=PRESET)

    def config(self):
        with open(os.path.join(folder_of(kvik.preset(PRESET)), "config.json")) as f:
            return json.load(f)

    def test_the_switch_may_have_two_layers(self):
        folder = self.changed(ms_code_m=3, num_hidden_layers=self.config()["num_hidden_layers"] + 1)
        self.assert_same_logits(kvik.preset(PRESET), folder)

    def test_there_may_be_no_token_that_ends_adapters(self):
        config = self.config()
        lists = {key: config[key][1:] for key in ("adapter_token_ids", "adapter_substitute_token_ids")}
        end, substitute = (config[key][0] for key in lists)
        tokens = [*plain(30, 1), config["adapter_token_ids"][2], *plain(20, 2)]
        folder = self.changed(**lists)
        self.assertEqual(kvik.logits_text(folder, tokens, all=True), kvik.logits_text(kvik.preset(PRESET), tokens, all=True))
        tokens = [end, *tokens]  # which is now a token like any other
        self.assertNotEqual(kvik.logits_text(folder, tokens, all=True), kvik.logits_text(kvik.preset(PRESET), tokens, all=True))

    def test_what_a_folder_states_wrongly_is_named(self):
        config = self.config()
        n, ids = config["num_adapters"], config["adapter_token_ids"]
        for changes, words in (
                ({"adapter_token_ids": ids[2:]}, ("adapter_token_ids", f"a token for each of {n} adapters")),
                ({"adapter_substitute_token_ids": ids[1:]}, ("adapter_substitute_token_ids", f"expected {n + 1}")),
                ({"adapter_token_ids": [*ids[:-1], ids[0]]}, (f"the token {ids[0]} twice",)),
                ({"adapter_token_ids": [*ids[:-1], N_VOCAB]}, (f"the token {N_VOCAB}", f"below {N_VOCAB}")),
                ({"num_hidden_layers": 1}, ("num_hidden_layers", "more than the 1 of the switch")),
                ({"max_lora_rank": 4}, ("lora_A", "shape")),
                ({"num_adapters": 0}, ("num_adapters",)),
                ({"dual_stream": True}, ("dual_stream",))):
            with self.subTest(changes=changes):
                self.refused(self.changed(**changes), *words)

    def test_such_a_model_drafts_for_no_other(self):
        model = kvik.preset(PRESET)
        self.refused(model, "adapters that its tokens choose", command=("run", "--draft", model, "-p", "a"))


class Cache(unittest.TestCase):
    def test_the_cache_and_other_requests_change_no_answer(self):
        """The prompts differ in their control tokens only, and continue with the same tokens."""
        model = kvik.preset(PRESET, "q8_0", 1)
        tokens, more = plain(70, 4), plain(40, 5)
        chosen = [token for token, _ in controls(model)]
        prompts = [[*tokens, *more]]
        prompts += [[*tokens[:n], token, *tokens[n:], *more] for token in chosen[:3] for n in (0, 33, 69)]
        prompts += [[chosen[1], *tokens, token, *more] for token in (chosen[0], *chosen[2:4])]
        want = [kvik.greedy(model, prompt, 24) for prompt in prompts]
        self.assertGreater(len({tuple(ids) for ids in want}), 6)
        for flags in ((), ("--speculate", 4)):
            with self.subTest(flags=flags), Server(model, *flags) as server:
                def answer(prompt):
                    got = server.complete(prompt, max_tokens=24, ignore_eos=True, return_token_ids=True)
                    return got["choices"][0]["token_ids"], got["usage"]["prompt_tokens_details"]["cached_tokens"]
                for _ in range(2):
                    answers = in_parallel(*(lambda p=p: answer(p) for p in prompts))
                    self.assertEqual([ids for ids, _ in answers], want)
                self.assertTrue(all(cached for _, cached in answers))


if __name__ == "__main__":
    unittest.main()
