"""Downloads of models: `kvik pull`, -hf, and stored models as MODEL, from a hub on loopback."""
import contextlib
import json
import os
import pty
import re
import socket
import subprocess
import tempfile
import time
import unittest

import gguf
import hub as hub_server
import kvik
import packages
from hf_folder import FolderCase, folder_of
from pull_case import CONFIG_LAYER, FILE, MIB, MODEL_LAYER, REPO, PullCase, demo, noise, read
from server import Server


def huge_model():
    """The header of the demo with more layers, which need four times the memory of this machine, and no weights."""
    file = gguf.Gguf(kvik.DEMO)
    with open("/proc/meminfo", encoding="ascii") as f:
        memory = int(re.search(r"MemTotal: +(\d+)", f.read())[1]) << 10
    ffn = 1 << 20
    n_layers = min(1000, max(8, 4 * memory // (3 * ffn * 256 * 4)))
    layer = [t for t in file.tensors if t[0].startswith("blk.0.")]
    tensors = [t for t in file.tensors if not t[0].startswith("blk.")]
    for i in range(n_layers):
        for name, dims, kind, _ in layer:
            is_ffn = ".ffn_" in name and "norm" not in name
            dims = [ffn if d == file.get("llama.feed_forward_length") else d for d in dims] if is_ffn else dims
            tensors.append([name.replace("blk.0.", f"blk.{i}."), dims, 0 if is_ffn else kind, 0])
    offset = 0
    for tensor in tensors:
        tensor[3] = offset
        offset += -(-gguf.nbytes(tensor[1][::-1], tensor[2]) // gguf.ALIGNMENT) * gguf.ALIGNMENT
    file.tensors, file.data = tensors, b""
    file.set("llama.block_count", gguf.U32, n_layers).set("llama.feed_forward_length", gguf.U32, ffn)
    head = file.bytes()
    return hub_server.Zeros(head, len(head) + offset)


class Pull(PullCase):
    def assert_plan_of_demo(self, name):
        """Compares the plans, but for the free memory, which changes from call to call."""
        plan, want = (json.loads(text) for text in (self.succeeds("plan", name, "--json"), kvik.output("plan", "demo", "--json")))
        for key in ("ctx", "weights_bytes", "kv_bytes_per_token", "kv_bytes_per_user", "total_bytes", "fits", "weights_by_type"):
            self.assertEqual(plan[key], want[key], key)

    def test_a_quantization_is_downloaded_listed_shown_and_run(self):
        with self.serving(repositories={REPO: {FILE: demo(), "tiny-F32.gguf": noise(9 * MIB), "mmproj-tiny.gguf": noise(MIB), "README.md": b"x"}}):
            done = self.kvik("pull", f"{REPO}:q8_0")
            self.assertEqual(done.returncode, 0, done.stderr)
            output = done.stderr.decode()
            for line in ("pulling manifest", "skipping mmproj-tiny.gguf: Kvik reads text only", f"downloading {FILE}: 5.39 MiB", f"verifying {FILE}",
                         f"{REPO}:Q8_0 needs "):
                self.assertIn(line, output)
            self.assertIn(f"{REPO}:Q8_0: 5.39 MiB in ", done.stdout.decode())
        model = self.assert_stored(f"{REPO}:Q8_0", demo())
        self.assertEqual((model["format"], model["family"], model["quantization"], model["bytes"], model["digest"]),
                         ("gguf", "llama", "Q8_0", len(demo()), hub_server.sha256(demo())))
        self.assertRegex(self.succeeds("list"), rf"{REPO}:Q8_0 +5.39 MiB +Q8_0 +llama +\d+M +now")
        # The hub is gone: a stored model needs no connection.
        want = kvik.output("run", "demo", "-p", "ROMEO:", "-n", 4, "--temperature", 0)
        for name in (REPO, f"{REPO}:Q8_0", f"{REPO}/{FILE}", f"hf.co/{REPO}:Q8_0"):
            self.assertEqual(self.succeeds("run", name, "-p", "ROMEO:", "-n", 4, "--temperature", 0).encode(), want)
        self.assertIn("architecture llama", self.succeeds("show", f"{REPO}:Q8_0"))
        self.assertEqual(self.succeeds("tokenize", f"{REPO}:Q8_0", "ROMEO"), kvik.output("tokenize", "demo", "ROMEO").decode())
        self.assert_plan_of_demo(f"{REPO}:Q8_0")

    def test_one_file_of_a_repository_is_pulled_by_its_address(self):
        with self.serving(repositories={REPO: {FILE: demo(), "tiny-Q4_0.gguf": noise(MIB)}}):
            self.succeeds("pull", f"hf.co/{REPO}/{FILE}")
        self.assert_stored(f"{REPO}:Q8_0", demo())

    def test_run_and_other_commands_download_what_hf_names(self):
        with self.serving(repositories={REPO: {FILE: demo()}}) as hub:
            want = kvik.output("run", "demo", "-p", "ROMEO:", "-n", 4, "--temperature", 0)
            self.assertEqual(self.succeeds("run", "-hf", REPO, "-p", "ROMEO:", "-n", 4, "--temperature", 0).encode(), want)
            n_requests = len(hub.requests)
            self.assertEqual(self.succeeds("run", "-p", "ROMEO:", "-n", 4, "--temperature", 0, "-hf", f"{REPO}:Q8_0").encode(), want)
            self.assertEqual(len(hub.requests), n_requests)  # it is stored
            self.assertEqual(self.succeeds("tokenize", "ROMEO", "--hf-repo", REPO, "--hf-file", FILE), kvik.output("tokenize", "demo", "ROMEO").decode())
            self.assertIn("geometry", self.succeeds("show", f"{hub.url}/{REPO}/resolve/main/{FILE}"))
        self.assertIn("-hf; expected ORG/REPO[:QUANT] after it", self.fails(2, "run", "-hf"))

    def test_a_server_names_the_model_as_it_is_stored(self):
        with self.serving(repositories={REPO: {FILE: demo()}}):
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                port = s.getsockname()[1]
            with self.start("serve", "-hf", REPO, "--port", str(port), "--ctx", "256", "--kv-memory", "64MiB") as server:
                try:
                    deadline = time.monotonic() + 30
                    while time.monotonic() < deadline:
                        done = subprocess.run(["curl", "-sf", f"http://127.0.0.1:{port}/v1/models"], capture_output=True)
                        if done.returncode == 0:
                            break
                        time.sleep(0.1)
                    self.assertEqual(json.loads(done.stdout)["data"][0]["id"], f"{REPO}:Q8_0")
                finally:
                    server.terminate()
                    server.communicate(timeout=60)

    def test_a_running_router_follows_what_is_pulled_and_removed(self):
        other = "acme/Other-GGUF"

        def listed(server):
            return sorted(m["id"] for m in server.get("/v1/models").json["data"])

        def answer(server, model):
            return server.request("POST", "/v1/completions", {"model": model, "prompt": "ROMEO:", "max_tokens": 2})

        with self.serving(repositories={REPO: {FILE: demo()}, other: {FILE: demo()}}):
            self.succeeds("pull", REPO)
            with Server("--kv-memory=16MiB", "--memory", "8GiB", env=self.env) as server:
                self.assertEqual(listed(server), [f"{REPO}:Q8_0"])
                self.assertEqual(answer(server, f"{other}:Q8_0").status, 404)
                self.succeeds("pull", other)
                self.assertEqual(answer(server, f"{other}:Q8_0").status, 200)
                self.assertEqual(listed(server), [f"{other}:Q8_0", f"{REPO}:Q8_0"])
                self.assertEqual(sorted(m["name"] for m in server.get("/api/tags").json["models"]), listed(server))
                self.succeeds("rm", f"{other}:Q8_0")
                self.assertEqual(listed(server), [f"{REPO}:Q8_0"])
                self.assertEqual(answer(server, f"{other}:Q8_0").status, 404)
                # The same over HTTP, and with a short name.
                self.assertEqual(server.request("POST", "/api/pull", {"model": other, "stream": False}).status, 200)
                self.assertEqual(server.request("POST", "/api/copy", {"source": other, "destination": "short"}).status, 200)
                self.assertEqual(listed(server), [f"{other}:Q8_0", f"{REPO}:Q8_0", "short"])
                self.assertEqual(answer(server, "short").status, 200)
                self.assertEqual(server.request("DELETE", "/api/delete", {"model": f"{REPO}:Q8_0"}).status, 200)
                self.assertEqual(server.request("DELETE", "/api/delete", {"model": f"{other}:Q8_0"}).status, 200)
                self.assertEqual(listed(server), [])
                self.assertIn("there is no model; kvik pull NAME downloads one", answer(server, "short").error["message"])

    def test_without_a_quantization_the_usual_one_is_taken(self):
        data = {q: noise(MIB, i) for i, q in enumerate(("Q2_K", "Q4_K_M", "Q8_0", "IQ4_XS"))}
        with self.serving(repositories={REPO: {f"x-{q}.gguf": b for q, b in data.items()}}):
            self.succeeds("pull", "--force", REPO)
            self.assertEqual(self.names(), [f"{REPO}:Q4_K_M"])
            self.assertIn(f"{REPO} has no Q3_K; it has IQ4_XS, Q2_K, Q4_K_M, Q8_0", self.fails(1, "pull", f"{REPO}:Q3_K"))

    def test_split_models_have_all_pieces_or_are_not_listed(self):
        pieces = {f"big/m-Q4_K_M-0000{i}-of-00003.gguf": noise(2 * MIB + i, i) for i in (1, 2, 3)}
        with self.serving(repositories={REPO: pieces}):
            self.succeeds("pull", "--force", REPO)
            model = self.stored(f"{REPO}:Q4_K_M")
            self.assertEqual(model["bytes"], sum(map(len, pieces.values())))
            for i in (1, 2, 3):
                self.assertEqual(read(model["path"].replace("00001-of", f"0000{i}-of")), pieces[f"big/m-Q4_K_M-0000{i}-of-00003.gguf"])
            os.remove(model["path"].replace("00001-of", "00002-of"))
            self.assertEqual(self.names(), [])

    def test_a_split_model_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m-F32.gguf")
            subprocess.run(["/usr/bin/python3", os.path.join(kvik.ROOT, "tools/make/make_model.py"), "--preset", "test-llama", "--type", "f32", "--split", "3", path],
                           check=True, capture_output=True)
            files = {name: read(os.path.join(folder, name)) for name in os.listdir(folder)}
            self.assertEqual(len(files), 3)
            with self.serving(repositories={REPO: files}):
                self.assertIn("geometry", self.succeeds("show", f"hf.co/{REPO}:F32"))

    def test_a_model_of_ollama_is_stored_as_ollama_stores_it(self):
        config = json.dumps({"model_family": "llama", "model_type": "2.9M", "file_type": "Q8_0"}).encode()
        layers = [(MODEL_LAYER, demo()), ("application/vnd.ollama.image.template", b"{{ .Prompt }}"), (CONFIG_LAYER, config)]
        with self.serving(ollama={"library/tiny:1m": layers, "me/tiny:latest": layers}) as hub:
            self.succeeds("pull", "ollama://tiny:1m")
            n_bytes = hub.n_body_bytes
            self.succeeds("pull", "ollama://me/tiny")
            self.assertEqual(hub.n_body_bytes, n_bytes)  # the same blobs
            self.assertIn("has no 'tiny:none'", self.fails(1, "pull", "ollama://tiny:none"))
        model = self.assert_stored("tiny:1m", demo())
        self.assertEqual((model["family"], model["parameter_size"], model["quantization"]), ("llama", "2.9M", "Q8_0"))
        root = self.env["OLLAMA_MODELS"]
        manifest = json.loads(read(f"{root}/manifests/registry.ollama.ai/library/tiny/1m"))
        self.assertEqual(model["path"], f"{root}/blobs/" + manifest["layers"][0]["digest"].replace(":", "-"))
        for name in ("tiny:1m", "me/tiny", "ollama://me/tiny:latest"):
            self.succeeds("show", name)
        self.succeeds("rm", "tiny:1m")
        self.assertEqual(self.names(), ["me/tiny:latest"])
        self.succeeds("show", "me/tiny")
        self.succeeds("rm", "me/tiny:latest")
        self.assertEqual(os.listdir(f"{root}/blobs"), [])

    def test_a_file_is_downloaded_by_its_address(self):
        with self.serving(files={"tiny.gguf": demo()}) as hub:
            url = f"{hub.cdn}/files/tiny.gguf"
            for ranges, length in ((True, True), (False, True), (False, False)):
                hub.faults.ranges, hub.faults.length = ranges, length
                self.succeeds("pull", url + "?key=secret")
                self.assertEqual(self.names(), [url])
                self.assert_stored(url, demo())
                self.succeeds("show", url)
                self.succeeds("rm", url)
                self.assertEqual(self.names(), [])
            self.assertIn("the hub has no 'none.gguf'", self.fails(1, "pull", f"{hub.cdn}/files/none.gguf"))
        left = [f for _, _, files in os.walk(self.env["KVIK_DOWNLOADS"]) for f in files]
        self.assertTrue(all(".gguf" not in f or f == "none.gguf.lock" for f in left), left)

    def test_short_names_and_removal(self):
        with self.serving(repositories={REPO: {FILE: demo(), "tiny-Q4_0.gguf": noise(MIB)}}):
            self.succeeds("pull", f"{REPO}:Q8_0")
            self.succeeds("pull", "--force", f"{REPO}:Q4_0")
        self.succeeds("cp", f"{REPO}:Q8_0", "tiny")
        self.assertEqual(self.names(), [f"{REPO}:Q4_0", f"{REPO}:Q8_0", "tiny"])
        self.assertIn("geometry", self.succeeds("show", "tiny:latest"))
        greedy = ("-p", "ROMEO:", "-n", 4, "--temperature", 0)
        self.assertEqual(self.succeeds("run", "tiny", *greedy).encode(), kvik.output("run", "demo", *greedy))
        self.succeeds("cp", "tiny", "other:v1")
        self.succeeds("rm", "tiny")
        self.assertEqual(self.names(), [f"{REPO}:Q4_0", f"{REPO}:Q8_0", "other:v1"])
        self.assertIn(f"2 models of '{REPO}' are stored, name one of them: {REPO}:Q4_0, {REPO}:Q8_0", self.fails(2, "rm", REPO))
        self.succeeds("cp", f"{REPO}:Q8_0", "me/tiny")
        self.assertIn("geometry", self.succeeds("show", "me/tiny"))
        self.succeeds("rm", "me/tiny")
        for wrong in ("a/b/c", "../x", "a/..", "demo", "-x", "x:y:z", ""):
            self.assertIn("is not a short name", self.fails(2, "cp", "--", f"{REPO}:Q8_0", wrong))
        self.assertIn("no model 'none' is stored here", self.fails(1, "cp", "none", "x"))
        self.assertIn("no model 'none' is stored here", self.fails(1, "rm", "none"))
        self.succeeds("rm", f"{REPO}:Q8_0")  # with its short name
        self.assertEqual(self.names(), [f"{REPO}:Q4_0"])
        self.assertEqual(len(os.listdir(f"{self.cache}/models--acme--Tiny-GGUF/blobs")), 1)
        self.succeeds("rm", f"{REPO}:Q4_0")
        self.assertEqual([f for f in os.listdir(self.cache) if f != ".locks"], [])

    def test_an_unknown_model_says_what_was_tried_and_what_to_type(self):
        for name, pull in (("llama3.2", "ollama://llama3.2:latest"), ("llama3.2:1b", "ollama://llama3.2:1b"), ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
                           ("Qwen/Qwen3-GGUF:Q4_K_M", "Qwen/Qwen3-GGUF:Q4_K_M")):
            output = self.fails(1, "run", name, "-p", "x")
            self.assertIn(f"'{name}' is no file or folder, and no stored model (kvik list); kvik pull {pull} downloads it", output)
        self.assertIn("HF_HUB_OFFLINE forbids downloads", self.fails(1, "run", "-hf", REPO, "-p", "x", HF_HUB_OFFLINE="1"))

    def test_a_model_that_does_not_fit_is_not_downloaded(self):
        with self.serving(repositories={REPO: {"t-F32.gguf": huge_model(), FILE: demo(), "t-Q4_0.gguf": noise(MIB)}}) as hub:
            output = self.fails(1, "pull", f"{REPO}:F32")
            self.assertRegex(output, rf"{REPO}:F32 needs [\d.]+ [GT]iB of memory with a context of \d+ tokens, and this machine has [\d.]+ [GT]iB; "
                                   rf"{REPO}:Q8_0 fits: kvik pull {REPO}:Q8_0 \(kvik pull --force {REPO}:F32 downloads it anyway\)")
            self.assertLess(hub.n_body_bytes, 64 * MIB)
            self.assertEqual(self.names(), [])
            plan = json.loads(self.succeeds("plan", "-hf", f"{REPO}:F32", "--json"))
            self.assertFalse(plan["fits"])
            self.assertLess(hub.n_body_bytes, 80 * MIB)
            self.assert_plan_of_demo(f"hf.co/{REPO}:Q8_0")
            self.assertEqual(self.names(), [])
            self.assertIn("architecture 'nonsense'", self.fails(1, "pull", self.with_nonsense(hub)))

    def with_nonsense(self, hub):
        file = gguf.Gguf(kvik.DEMO).set("general.architecture", gguf.STR, "nonsense")
        data = file.bytes()
        hub.repositories["acme/nonsense"] = {"n-Q8_0.gguf": data}
        hub.blobs[hub.sha(data)] = data
        return "acme/nonsense"

    def test_without_libcurl_everything_but_downloads_works(self):
        with tempfile.TemporaryDirectory() as folder, self.serving(repositories={REPO: {FILE: demo()}}):
            for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
                with open(os.path.join(folder, name), "w", encoding="ascii") as f:
                    f.write("no library")
            output = self.fails(1, "pull", REPO, LD_LIBRARY_PATH=folder)
            self.assertIn("downloads need libcurl (", output)
            self.assertIn("install the package libcurl4", output)
            self.assertTrue(self.succeeds("run", "demo", "-p", "ROMEO:", "-n", 2, LD_LIBRARY_PATH=folder))

    def test_a_terminal_shows_rate_and_time_left(self):
        with self.serving(repositories={REPO: {FILE: noise(6 * MIB)}}) as hub:
            hub.faults.rate = MIB
            parent, child = pty.openpty()
            process = subprocess.Popen(kvik.command("pull", "--force", REPO), env=kvik.environment(**self.env), stdout=subprocess.DEVNULL, stderr=child)
            os.close(child)
            seen = b""
            with contextlib.suppress(OSError):  # the other end is closed
                while part := os.read(parent, 4096):
                    seen += part
            os.close(parent)
            self.assertEqual(process.wait(timeout=30), 0, seen)
            self.assertRegex(seen.decode(), r"downloading \[=* *\] [\d.]+ MiB of 6.00 MiB, [\d.]+ MiB/s, \d+ s left")


class Folders(FolderCase, PullCase):
    def setUp(self):
        PullCase.setUp(self)

    def test_a_folder_is_downloaded_as_a_whole(self):
        source = folder_of(kvik.preset("test-llama"))
        files = {name: read(os.path.join(source, name)) for name in os.listdir(source)}
        with self.serving(repositories={"acme/tiny": {**files, "README.md": b"x", "onnx/model.onnx": b"y"}}):
            done = self.kvik("pull", "acme/tiny")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("acme/tiny needs ", done.stderr.decode())
        model = self.stored("acme/tiny")
        self.assertEqual((model["format"], model["family"]), ("safetensors", "llama"))
        self.assertEqual({name: read(os.path.join(model["path"], name)) for name in os.listdir(model["path"])}, files)
        self.assertEqual(self.succeeds("logits", "acme/tiny", "--tokens", "5"), self.succeeds("logits", source, "--tokens", "5"))
        os.remove(os.path.join(model["path"], "model.safetensors"))
        self.assertEqual(self.names(), [])


@unittest.skipUnless(kvik.LONG, "installs huggingface_hub: --long")
class HuggingFaceHub(PullCase):
    def test_each_finds_what_the_other_has_downloaded(self):
        python = packages.python("huggingface_hub<1")
        other = "tiny-Q4_0.gguf"
        files = {FILE: demo(), other: noise(MIB), "config.json": b'{"model_type": "llama"}', "README.md": b"x"}
        with self.serving(repositories={REPO: files}) as hub:
            self.succeeds("pull", f"{REPO}:Q8_0")

            def hf(filename, **options):
                code = f"from huggingface_hub import hf_hub_download as d; print(d({REPO!r}, {filename!r}, cache_dir={self.cache!r}, **{options!r}), end='')"
                env = {**os.environ, **{k: v for k, v in self.env.items() if v}, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
                done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=env, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout
            self.assertEqual(hf(FILE, local_files_only=True), self.stored(f"{REPO}:Q8_0")["path"])
            n_bytes = hub.n_body_bytes
            self.assertEqual(hf(FILE), self.stored(f"{REPO}:Q8_0")["path"])  # it asks the hub, and downloads nothing
            self.assertEqual(hub.n_body_bytes, n_bytes)
            path = hf(other)
            self.assertEqual(self.stored(f"{REPO}:Q4_0")["path"], path)
            hub.requests.clear()
            n_bytes = hub.n_body_bytes
            self.succeeds("pull", "--force", f"{REPO}:Q4_0")
            self.assertEqual(hub.n_body_bytes, n_bytes)
            self.succeeds("rm", f"{REPO}:Q4_0")
            code = f"from huggingface_hub import scan_cache_dir as s; i = s({self.cache!r}); print([(r.repo_id, r.nb_files) for r in i.repos], list(i.warnings))"
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
            self.assertEqual(done.stdout.strip(), f"[('{REPO}', 1)] []")


if __name__ == "__main__":
    unittest.main()
