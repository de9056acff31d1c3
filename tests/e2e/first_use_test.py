"""Tests a first session with Kvik by a user with the habits of llama.cpp, Ollama and vLLM."""
import json
import os
import subprocess
import tempfile
import unittest

import kvik
import scripted_model
from server import Server

SEEDED = ("--seed", 1, "-t", 1)
IMAGES = (
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]}),
    ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}]}),
    ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]}),
)


def machine_bytes():
    """Returns the machine's memory as Kvik reads it: the limit of a control group if that is lower."""
    report = json.loads(kvik.output("plan", "demo", "--json"))
    return report["memory_bytes"]


class Refused(unittest.TestCase):
    def refused(self, code, *args, **options):
        """Returns stderr of a run that is rejected with one sentence."""
        done = kvik.run(*args, **options)
        output = done.stderr.decode()
        self.assertEqual((done.returncode, output.count("\n")), (code, 1), output)
        return output


class Memory(Refused):
    def test_a_context_that_the_cache_cannot_hold_is_a_warning_with_both(self):
        with Server("demo", "--ctx", 1024, "--kv-memory", "1MiB") as server:
            n_ctx = server.get("/props").json["default_generation_settings"]["n_ctx"]
            self.assertLess(n_ctx, 1024)
            self.assertIn(f"--ctx 1024 is cut to {n_ctx}: --kv-memory 1.00 MiB holds no more tokens", server.said())

    def test_a_context_that_fits_is_no_warning(self):
        with Server("demo", "--ctx", 512, "--kv-memory", "64MiB") as server:
            self.assertNotIn("is cut to", server.said())

    def test_more_memory_than_the_machine_has_is_refused_at_once(self):
        for size in (2 * machine_bytes(), "4TiB"):
            done = kvik.run("serve", "demo", "--port", 0, "--kv-memory", size, timeout=10)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr.decode(), r"kvik: .* of memory are needed .* this machine has .*--kv-memory .*--overcommit")

    def test_overcommit_starts_with_more_memory_than_the_machine_has(self):
        process = subprocess.Popen(kvik.command("serve", "demo", "--port", 0, "--kv-memory", machine_bytes(), "--overcommit"),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=kvik.environment())
        try:
            self.assertTrue(any(b"may swap or kill" in line for line in process.stderr))
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def test_far_more_threads_than_processors_are_cut_with_a_warning(self):
        if len(os.sched_getaffinity(0)) > 200:
            self.skipTest("this machine has work for 999 threads")
        done = kvik.run("run", "demo", "-p", "ROMEO:", "-n", 2, "--seed", 1, "--threads", 999)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"--threads 999 is far more than this machine's", done.stderr)


class Habits(Refused):
    def test_help_and_version_are_commands_too(self):
        self.assertEqual(kvik.output("help"), kvik.output("--help"))
        self.assertEqual(kvik.output("help", "serve"), kvik.output("serve", "--help"))
        self.assertEqual(kvik.output("version"), kvik.output("--version"))

    def test_mistyped_commands_flags_and_presets_are_recognised(self):
        for args, meant in ((("serv", "demo"), "serve"), (("run", "demo", "--max-tokns", 3), "--max-tokens"),
                            (("serve", "demo", "--ctxsize", 3), "--ctx-size")):
            self.assertIn(f"did you mean {meant}?", self.refused(2, *args))
        self.assertIn("did you mean tinyllama-1.1b?", self.refused(1, "show", "synthetic:tinylama-1.1b"))
        self.assertNotIn("did you mean", self.refused(2, "download", "demo"))

    def test_flags_of_llama_cpp_mean_the_same_here(self):
        want = kvik.output("run", "demo", "--prompt", "ROMEO:", "--max-tokens", 8, "--threads", 1, "--ctx", 512, "--temperature", 0)
        for args in (("-m", "demo", "-p", "ROMEO:", "-n", 8, "-t", 1, "-c", 512, "--temp", 0, "--n-gpu-layers", 0),
                     ("--model", "demo", "-p", "ROMEO:", "--n-predict", 8, "-t", 1, "--ctx-size", 512, "--temp", 0, "-ngl", 0)):
            self.assertEqual(kvik.output("run", *args), want)
        done = kvik.run("run", "demo", "-p", "ROMEO:", "-n", 2, *SEEDED, "-ngl", 99)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count(b"--n-gpu-layers 99 changes nothing: --device (cpu or cuda) computes all layers"), 1)
        self.assertIn("'many' is not a number of layers", self.refused(2, "run", "demo", "-p", "x", "-ngl", "many"))
        whole = kvik.output("run", "demo", "-p", "ROMEO:", "-n", 600, "-c", 300, *SEEDED, "--ignore-eos", "--ids").split()
        for more in (("-c", 300), ("-c", 0)):
            n = len(kvik.output("run", "demo", "-p", "ROMEO:", "-n", -1, *more, *SEEDED, "--ignore-eos", "--ids").split())
            self.assertTrue(n == len(whole) if more[1] else n > len(whole), (more, n))

    def test_flags_that_other_programs_have_are_named_whole_with_what_to_do(self):
        for command, args, hint in (("serve", ("-hf",), "expected ORG/REPO[:QUANT] after it"), ("serve", ("-ctk", "q8_0"), "--kv-type"),
                                    ("run", ("-ctv=q8_0",), "--kv-type"), ("serve", ("-np", 4), "--max-running"), ("run", ("-np", 4), "--max-running"),
                                    ("serve", ("-fa", "on"), "leave it out"), ("serve", ("--flash-attn",), "leave it out"),
                                    ("serve", ("--no-mmap",), "leave it out"), ("serve", ("--jinja",), "chat template"), ("run", ("-b", 512), "leave it out"),
                                    ("serve", ("--parallel", 4), "--max-running"), ("serve", ("--cache-type-k", "q8_0"), "--kv-type"),
                                    ("serve", ("--max-model-len", 99), "--ctx"),
                                    ("serve", ("--gpu-memory-utilization", 0.9), "--kv-memory"), ("run", ("--system-prompt", "x"), "--system")):
            output = self.refused(2, command, "demo", *args)
            word = args[0].partition("=")[0]
            self.assertIn(f"unknown flag {word}; ", output)
            self.assertIn(hint, output)
        self.assertIn("unknown flag -nope; kvik run --help", self.refused(2, "run", "demo", "-nope"))
        kvik.output("run", "demo", "-pROMEO:", "-n2", *SEEDED)  # a value may directly follow its flag

    def test_commands_that_other_programs_have_say_what_to_do(self):
        for command, hint in (("download", "kvik pull NAME"), ("ls", "kvik list")):
            self.assertRegex(self.refused(2, command, "llama3.2"), f"unknown command '{command}'; .*{hint}")

    def test_what_is_missing_is_named_as_the_help_names_it(self):
        self.assertIn("kvik run needs MODEL\n", self.refused(2, "run"))
        self.assertIn("kvik adapter show needs MODEL and ADAPTER; 1 of 2 is given", self.refused(2, "adapter", "show", "x.gguf"))
        self.assertIn("'f16' is not a KV type, bf16 takes as much memory", self.refused(2, "run", "demo", "x", "--kv-type", "f16"))

    def test_a_model_by_flag_leaves_the_words_to_the_message(self):
        kvik.output("run", "-m", "demo", "Who", "art", "thou?", "-n", 2, *SEEDED)

    def test_an_api_key_may_come_as_a_flag_or_from_the_environment(self):
        for flags, env in ((("--api-key", "s3cret"), {}), ((), {"KVIK_API_KEY": "s3cret"})):
            with Server("demo", "--kv-memory", "16MiB", *flags, env=env) as server:
                self.assertEqual(server.get("/v1/models").status, 401)
                for path in ("/v1/models", "/metrics"):
                    self.assertEqual(server.get(path, headers={"Authorization": "Bearer s3cret"}).status, 200)
                self.assertNotIn("s3cret", server.said())
        self.assertNotIn("tw o", self.refused(2, "serve", "demo", "--api-key", "tw o"))

    def test_types_of_weights_and_pages_have_the_names_of_llama_cpp(self):
        with tempfile.TemporaryDirectory() as folder:
            def made(name):
                path = os.path.join(folder, name)
                kvik.output("quantize", "demo", path, "--type", name)
                with open(path, "rb") as f:
                    return f.read()

            self.assertEqual(made("Q4_K_M"), made("q4_k"))
            self.assertEqual(made("q5_k_m"), made("Q5_K"))
        for name, ours in (("q8_0", "int8"), ("Q4_0", "int4")):
            self.assertEqual(kvik.logits_text("demo", [1, 2, 3], kv_type=name), kvik.logits_text("demo", [1, 2, 3], kv_type=ours))

    def test_a_name_of_a_hub_says_how_to_download_it(self):
        for name, pull in (("llama3.2", "ollama://llama3.2:latest"), ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"), ("hf://org/name", "ORG/REPO:QUANT")):
            output = self.refused(1, "run", name, "-p", "x")
            self.assertIn(f"'{name}' is no file or folder, and no stored model (kvik list); kvik pull {pull} downloads ", output)
        self.assertIn("'llama3.2' is no file or folder", self.refused(1, "run", "llama3.2", stdin=b""))
        self.assertIn("did you mean synthetic:llama-3.2-1b", self.refused(1, "run", "llama-3.2-1b", "-p", "x"))

    def test_a_safetensors_file_says_to_pass_its_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            open(path, "w").close()
            self.assertIn(f"pass its folder, '{folder}'", self.refused(2, "show", path))

    def test_plan_names_the_model_its_types_and_whether_it_fits(self):
        output = kvik.output("plan", "tinyllama-1.1b", "--memory", "16GiB").decode()
        self.assertRegex(output, r"\Amodel    .*tinyllama-1.1b.*, weights as q8_0 \(assumed; PRESET:TYPE names another\)\n"
                               r"fits: yes  \(.* of 16.00 GiB, with K and V as int8\)\n")
        output = kvik.output("plan", "tinyllama-1.1b:q4_k_m", "--memory", "256MiB").decode()
        self.assertIn("weights as q4_k\nfits: no  (", output)


class Agents(unittest.TestCase):
    def test_a_context_too_short_for_agents_is_said_once_at_the_start(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "tools.gguf")
            scripted_model.write(model, ["Done."], "task")
            for n_ctx, n_lines in (("16k", 1), ("64k", 0)):
                with Server(model, "--ctx", n_ctx, "--kv-memory", "64MiB") as server:
                    self.assertEqual(server.said().count("coding agents need a context of 32768 tokens or more"), n_lines)
        with Server("demo", "--ctx", 512, "--kv-memory", "16MiB") as server:  # its template does not support tools
            self.assertNotIn("coding agents", server.said())


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", "--kv-memory", "16MiB")
        cls.addClassCleanup(cls.server.stop)

    def test_an_unknown_model_is_404_and_names_the_flag_that_allows_it(self):
        for path, body in (("/v1/completions", {"prompt": "x"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                           ("/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}), ("/v1/responses", {"input": "x"})):
            answer = self.server.post(path, {"model": "gpt-4o", **body})
            self.assertEqual(answer.status, 404, answer.body)
            self.assertIn("the model 'gpt-4o' does not exist; 'demo' is served (kvik serve --alias '*' answers to any name)", answer.error["message"])

    def test_images_are_refused_by_name(self):
        for path, body in IMAGES:
            answer = self.server.post(path, body)
            self.assertEqual((answer.status, answer.error["message"]), (400, "images are not supported; send text"), path)


class Pipes(Refused):
    def test_piped_output_ends_with_a_newline(self):
        output = kvik.output("run", "demo", "-p", "ROMEO:", "-n", 5, *SEEDED)
        self.assertTrue(output.endswith(b"\n"))
        self.assertEqual(output.count(b"\n\n"), kvik.output("run", "demo", "-p", "ROMEO:", "-n", 5, "--stats", *SEEDED).count(b"\n\n"))

    def test_an_empty_pipe_is_nothing_to_do(self):
        self.assertIn("there is nothing to do: stdin is empty", self.refused(2, "run", "demo", stdin=b""))
        kvik.output("run", "demo", "Who art thou?", "-n", 2, *SEEDED, stdin=b"")

    def test_json_that_was_cut_says_so(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as schema:
            json.dump({"type": "array", "items": {"enum": ["to be", "not to be"]}, "minItems": 40, "maxItems": 40}, schema)
            schema.flush()
            done = kvik.run("run", "demo", "Speak", "--json-schema", schema.name, "-n", 6, *SEEDED)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"kvik: the answer was cut after 6 tokens, so that it is incomplete: give more --max-tokens", done.stderr)
            whole = kvik.run("run", "demo", "Speak", "--regex", "[ab]", "-n", 6, *SEEDED)
            self.assertNotIn(b"was cut", whole.stderr)


if __name__ == "__main__":
    unittest.main()
