"""Downloads of models from a hub on loopback that fails in many ways, and from a hostile one."""
import concurrent.futures
import json
import os
import resource
import signal
import subprocess
import time
import unittest

import hub as hub_server
from pull_case import CONFIG_LAYER, FILE, MIB, MODEL_LAYER, REPO, PullCase, demo, noise


class Trouble(PullCase):
    def test_a_token_is_sent_to_the_hub_alone(self):
        """Threat 51."""
        with self.serving(repositories={REPO: {FILE: demo()}}, token="hf_s3cret") as hub:
            output = self.fails(1, "pull", REPO)
            self.assertIn("answers 401", output)
            self.assertIn("HF_TOKEN", output)
            with open(os.path.join(self.folder, "token"), "w", encoding="ascii") as f:
                f.write("hf_s3cret\n")
            done = self.kvik("pull", REPO, HF_TOKEN_PATH=f.name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn(b"s3cret", done.stdout + done.stderr)
            of_hub = [r for r in hub.requests if not r.path.startswith("/cdn/")]
            of_cdn = hub.of_path("/cdn/")
            self.assertTrue(of_cdn and all("authorization" not in r.headers for r in of_cdn))
            self.assertTrue(any(r.headers.get("authorization") == "Bearer hf_s3cret" for r in of_hub))
            hub.faults.redirect = hub.url.replace("127.0.0.1", "localhost") + "/files/x"  # the same port, another name
            hub.requests.clear()
            self.succeeds("rm", REPO)
            self.fails(1, "pull", REPO, HF_TOKEN="hf_s3cret")
            self.assertTrue(all("authorization" not in r.headers for r in hub.of_path("/files/x")))
            self.assertTrue(hub.of_path("/files/x"))
            self.assertIn("HF_TOKEN has a blank or a control character", self.fails(2, "pull", REPO, HF_TOKEN="a\nHost: b"))

    def test_refusals_are_one_sentence(self):
        with self.serving(repositories={REPO: {FILE: demo()}}) as hub:
            for status, words in ((403, "accept its terms"), (404, f"the hub has no '{REPO}'"), (418, "answers 418")):
                hub.status = status
                self.assertIn(words, self.fails(1, "pull", REPO))
        self.env["HF_ENDPOINT"] = "http://127.0.0.1:1"
        self.assertIn("127.0.0.1", self.fails(1, "pull", REPO))
        self.assertIn("HF_ENDPOINT is 'ftp://x', expected the URL of a server", self.fails(2, "pull", REPO, HF_ENDPOINT="ftp://x"))

    def test_a_proxy_is_used(self):
        with self.serving(repositories={REPO: {FILE: demo()}}) as hub:
            self.env["HF_ENDPOINT"] = "http://hub.invalid"
            self.assertIn("hub.invalid", self.fails(1, "pull", "--force", REPO))
            self.assertEqual(hub.requests, [])
            self.succeeds("pull", "--force", REPO, http_proxy=hub.url, no_proxy="localhost")
            self.assert_stored(f"{REPO}:Q8_0", demo())
            self.assertTrue(any(r.path.startswith("http://hub.invalid/") for r in hub.requests))

    def test_busy_servers_are_asked_again(self):
        with self.serving(repositories={REPO: {FILE: demo()}}) as hub:
            hub.faults.statuses, hub.faults.retry_after = [429, 503, 500, 429], 1
            begin = time.monotonic()
            self.succeeds("pull", "--force", REPO)
            self.assertGreater(time.monotonic() - begin, 2)
            self.assert_stored(f"{REPO}:Q8_0", demo())
            self.succeeds("rm", REPO)
            hub.faults.statuses, hub.faults.retry_after = [429] * 99, 0
            self.assertIn("answers 429", self.fails(1, "pull", "--force", REPO))

    def test_outdated_addresses_are_asked_for_again(self):
        with self.serving(repositories={REPO: {FILE: demo()}}) as hub:
            hub.faults.refused_urls = 3
            self.succeeds("pull", "--force", REPO)
            self.assert_stored(f"{REPO}:Q8_0", demo())

    def test_truncated_bodies_are_completed(self):
        for ranges in (True, False):
            with self.subTest(ranges=ranges), self.serving(repositories={REPO: {FILE: demo()}}) as hub:
                hub.faults.ranges = ranges
                hub.faults.cut_at, hub.faults.n_cuts = (300_000, 12) if ranges else (3 * MIB, 2)
                self.succeeds("pull", "--force", REPO)
                self.assert_stored(f"{REPO}:Q8_0", demo())
                if ranges:  # no byte twice, but for what was under way when a connection broke
                    self.assertLess(hub.n_body_bytes, len(demo()) + 12 * 64 * 1024)
                self.succeeds("rm", REPO)

    def test_wrong_bytes_are_never_stored(self):
        """Threat 52."""
        layers = [(MODEL_LAYER, demo()), (CONFIG_LAYER, b"{}")]
        with self.serving(repositories={REPO: {FILE: demo(), "tiny-Q4_0.gguf": noise(MIB)}}, ollama={"library/tiny:latest": layers}) as hub:
            hub.faults.flip = True
            for name in (f"{REPO}:Q8_0", f"{REPO}:Q4_0", "ollama://tiny"):
                self.assertRegex(self.fails(1, "pull", "--force", name), r"the SHA-256 is [0-9a-f]{64}, expected [0-9a-f]{64}; the bytes are discarded")
            self.assertEqual(self.names(), [])
            hub.faults.flip = False
            listing = hub.listing(REPO)
            listing["siblings"][0]["lfs"]["size"] = listing["siblings"][0]["size"] = 6 * MIB
            hub.model_json = json.dumps(listing).encode()
            self.assertIn(f"the server has {len(demo())} bytes, expected {6 * MIB}", self.fails(1, "pull", "--force", f"{REPO}:Q8_0"))
            self.assertEqual(self.names(), [])
            hub.model_json = None
            self.succeeds("pull", "--force", f"{REPO}:Q8_0")
            self.assert_stored(f"{REPO}:Q8_0", demo())

    def test_small_files_are_verified_by_their_git_id(self):
        config = b'{"model_type": "llama"}'
        with self.serving(repositories={"acme/x": {"config.json": config, "model.safetensors": noise(1000)}}) as hub:
            listing = hub.listing("acme/x")
            listing["siblings"][0]["blobId"] = hub_server.git_id(b"other")
            hub.model_json = json.dumps(listing).encode()
            self.assertIn("the Git object id is " + hub_server.git_id(config), self.fails(1, "pull", "--force", "acme/x"))
            self.assertEqual(self.names(), [])

    def test_killed_at_ten_points_it_goes_on_where_it_was(self):
        data = noise(12 * MIB + 77)
        with self.serving(repositories={REPO: {FILE: data}}) as hub:
            hub.faults.rate = 1.5 * MIB  # of each connection
            n_killed = 0
            for point in range(10):
                process = self.start("pull", "--force", "--connections", "2", REPO)
                time.sleep(0.15 * (point + 1))
                if process.poll() is None:
                    n_killed += 1
                process.send_signal(signal.SIGKILL)
                process.communicate()
                if point % 3 == 2:
                    self.assertEqual(self.names(), [])
                    self.assertFalse(os.path.exists(os.path.join(self.cache, "models--acme--Tiny-GGUF", "blobs", hub.sha(data))))
            self.assertGreaterEqual(n_killed, 8)
            before = hub.n_body_bytes
            hub.faults.rate = None
            self.succeeds("pull", "--force", REPO)
            self.assert_stored(f"{REPO}:Q8_0", data)
            self.assertLess(hub.n_body_bytes - before, 0.7 * len(data))  # the rest had been stored
            blobs = os.listdir(os.path.join(self.cache, "models--acme--Tiny-GGUF", "blobs"))
            self.assertEqual(blobs, [hub.sha(data)])

    def test_damage_of_an_unfinished_download_is_repaired(self):
        data = noise(6 * MIB)
        with self.serving(repositories={REPO: {FILE: data}}) as hub:
            hub.faults.rate = 2 * MIB
            process = self.start("pull", "--force", "--connections", "1", REPO)
            part = os.path.join(self.cache, "models--acme--Tiny-GGUF", "blobs", hub.sha(data) + ".kvik-part")
            time.sleep(2.2)
            process.kill()
            process.communicate()
            with open(part, "r+b") as f:
                f.write(b"damage")
            hub.faults.rate = None
            self.succeeds("pull", "--force", REPO)
            self.assert_stored(f"{REPO}:Q8_0", data)

    def test_interrupted_it_says_how_to_go_on(self):
        with self.serving(repositories={REPO: {FILE: noise(6 * MIB)}}) as hub:
            hub.faults.rate = MIB
            process = self.start("pull", "--force", REPO)
            time.sleep(0.7)
            process.send_signal(signal.SIGINT)
            _, output = process.communicate(timeout=10)
            self.assertEqual(process.returncode, 130, output)
            self.assertIn(f"kvik: stopped; kvik pull {REPO} continues", output.decode())
            self.assertRegex(self.succeeds("list"), r"unfinished downloads take [56]\.\d+ MiB; kvik pull continues them")
            process = self.start("pull", "--force", REPO)
            time.sleep(0.7)
            self.assertIn("removed 0 B of unfinished downloads", self.succeeds("rm", "--unfinished"))  # it is in progress
            process.kill()
            process.communicate()
            self.assertRegex(self.succeeds("rm", "--unfinished"), r"removed [56]\.\d+ MiB of unfinished downloads")
            self.assertNotIn("unfinished", self.succeeds("list"))
        self.assertIn("kvik rm needs NAME or --unfinished", self.fails(2, "rm"))

    def test_two_pulls_of_a_file_download_it_once(self):
        data = noise(6 * MIB)
        with self.serving(repositories={REPO: {FILE: data}}) as hub:
            hub.faults.rate = 2 * MIB
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                done = list(pool.map(lambda _: self.kvik("pull", "--force", REPO), range(3)))
            self.assertEqual([d.returncode for d in done], [0, 0, 0], [d.stderr for d in done])
            self.assertEqual(hub.n_body_bytes, len(data) + sum(r.headers.get("range") == "bytes=0-0" for r in hub.of_path("/cdn/")))
            waited = sum(f"waiting for another download of {FILE}".encode() in d.stderr for d in done)
            self.assertEqual(waited, 2)
            self.assert_stored(f"{REPO}:Q8_0", data)

    def test_stalled_connections_are_opened_again(self):
        data = noise(6 * MIB)
        with self.serving(repositories={REPO: {FILE: data}}) as hub:
            hub.faults.stalls = 2
            self.succeeds("pull", "--force", "--stall-timeout", "1s", REPO)
            self.assert_stored(f"{REPO}:Q8_0", data)

    def test_a_slow_server_is_waited_for(self):
        data = noise(3 * MIB // 2)
        with self.serving(files={"slow.gguf": data}) as hub:
            hub.faults.rate, hub.faults.ranges = 512 * 1024, False
            self.succeeds("pull", "--force", "--stall-timeout", "1s", f"{hub.cdn}/files/slow.gguf")
            self.assert_stored(f"{hub.cdn}/files/slow.gguf", data)

    def test_a_full_disk_is_one_sentence_and_nothing_is_listed(self):
        data = noise(8 * MIB)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (5 * MIB, 5 * MIB))
        with self.serving(repositories={REPO: {FILE: data, "small-Q4_0.gguf": noise(MIB)}}) as hub:
            for ranges in (True, False):
                hub.faults.ranges = hub.faults.length = ranges
                process = self.start("pull", "--force", f"{REPO}:Q8_0", preexec_fn=limit)
                _, output = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 1, output)
                self.assertRegex(output.decode().splitlines()[-1], "^kvik: .*(File too large|needs)")
                self.assertEqual(self.names(), [])
            hub.faults.ranges = hub.faults.length = True
            self.succeeds("pull", "--force", f"{REPO}:Q8_0")
            self.assert_stored(f"{REPO}:Q8_0", data)

    def test_a_full_file_system_names_what_is_needed_and_free(self):
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], capture_output=True).returncode != 0:
            self.skipTest("mounting a tmpfs is not permitted")
        self.addCleanup(subprocess.run, ["umount", disk], capture_output=True)
        with self.serving(repositories={REPO: {FILE: demo()}}):
            output = self.fails(1, "pull", REPO, HF_HUB_CACHE=disk)
            self.assertRegex(output, r"needs 5.39 MiB, and its file system has [34].\d+ MiB free: No space left on device")
            self.assertEqual(json.loads(self.succeeds("list", "--json", HF_HUB_CACHE=disk)), [])


class Hostile(PullCase):
    def everything(self):
        return sorted(os.path.relpath(os.path.join(folder, name), self.folder) for folder, _, names in os.walk(self.folder) for name in names)

    def test_hostile_names_of_files_are_left_out(self):
        """Threat 53."""
        evil = ("../../../../evil-Q8_0.gguf", "/tmp/evil-Q8_0.gguf", "a/../../evil-Q8_0.gguf", "a//evil-Q8_0.gguf", "x\0-Q8_0.gguf", "x\n-Q8_0.gguf",
                "..", "./x-Q8_0.gguf", "x\\..\\y-Q8_0.gguf", "a" * 300 + "-Q8_0.gguf", "a/" * 40 + "x-Q8_0.gguf", "")
        with self.serving(repositories={REPO: {name: demo() for name in evil}}) as hub:
            for name in evil:
                self.assertIn("has neither GGUF files", self.fails(1, "pull", "--force", REPO))
            self.assertEqual(len(hub.of_path("/resolve/")), 0)
            for change in ({"sha": "../../../evil"}, {"sha": None}, {"siblings": 5}):
                hub.model_json = json.dumps({**hub.listing(REPO), **change}).encode()
                self.assertIn("the hub's list of files has no", self.fails(1, "pull", "--force", REPO))
            for digest in ("../" * 20 + "etc/evil", "A" * 64, "0" * 63, 7):
                listing = {"sha": hub_server.COMMIT, "siblings": [{"rfilename": FILE, "size": 9, "lfs": {"sha256": digest, "size": 9}}]}
                hub.model_json = json.dumps(listing).encode()
                self.assertIn("has neither GGUF files", self.fails(1, "pull", "--force", REPO))
        self.assertEqual(self.everything(), [])

    def test_hostile_names_of_models_are_refused(self):
        """Threat 53."""
        with self.serving() as hub:
            for name in ("hf.co/../x", "a/..", "../a/b", "a/b/../../c.gguf", "hf.co/a/b/../../../c.gguf", "hf.co//b", "a/b:../c", "ollama://../x", "ollama://x:../../y",
                         "ollama://a/b/c/d", f"{hub.url}/../../x.gguf", f"{hub.url}/a/%00/../x.gguf", "http://u@127.0.0.1/x.gguf", "https:///x.gguf", "a\nb/c", "x" * 3000,
                         "a--b/c", "https://x/y.bin", "file:///etc/x.gguf"):
                self.assertIn("is not the name of a model; expected ORG/REPO", self.fails(2, "pull", "--force", "--", name))
            self.assertEqual(hub.requests, [])
        self.assertEqual(self.everything(), [])

    def test_hostile_manifests_are_refused(self):
        """Threat 53."""
        layers = [(MODEL_LAYER, demo()), (CONFIG_LAYER, b"{}")]
        with self.serving(ollama={"library/x:latest": layers}) as hub:
            good = hub.manifest("library/x:latest")
            for change in ({"layers": []}, {"layers": good["layers"] * 2}, {"layers": [{**good["layers"][0], "digest": "sha256:../../evil"}]}, {"config": None},
                           {"layers": [{**good["layers"][0], "size": -1}]}, {"layers": 3}):
                hub.manifest = lambda _, change=change: {**good, **change}
                self.assertIn("manifest of Ollama's", self.fails(1, "pull", "--force", "ollama://x"))
        self.assertEqual(self.everything(), [])

    def test_answers_of_the_hub_are_bounded(self):
        """Threat 54."""
        with self.serving(repositories={REPO: {FILE: demo()}}, ollama={"library/x:latest": [(MODEL_LAYER, b"x"), (CONFIG_LAYER, b"{}")]}) as hub:
            for text, words in ((b" " * (17 << 20), "answers more than 16777216 bytes"), (b"[" * 100_000, "list of files"), (b"no json", "list of files")):
                hub.model_json = text
                self.assertIn(words, self.fails(1, "pull", REPO))
            good = hub.manifest("library/x:latest")
            hub.manifest = lambda _: {**good, "more": "x" * (2 << 20)}
            self.assertIn("answers more than 1048576 bytes", self.fails(1, "pull", "ollama://x"))

    def test_redirects_lead_to_http_only_and_end(self):
        """Threat 55."""
        with self.serving(repositories={REPO: {FILE: demo()}}) as hub:
            for target, words in (("file:///etc/passwd", "expected an http or https address"), ("ftp://127.0.0.1/x", "expected an http or https address"),
                                  (f"{hub.url}/{REPO}/resolve/main/{FILE}", "more than 8 redirects")):
                hub.faults.redirect = target
                self.assertIn(words, self.fails(1, "pull", "--force", REPO))
        self.assertEqual(self.names(), [])

    def test_certificates_are_verified_and_encryption_stays(self):
        """Threat 55."""
        pem = os.path.join(self.folder, "certificate.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", pem, "-out", pem + ".crt"], check=True, capture_output=True)
        with open(pem, "a", encoding="ascii") as key, open(pem + ".crt", encoding="ascii") as certificate:
            key.write(certificate.read())
        files = {REPO: {FILE: demo()}}
        with self.serving(repositories=files, tls={"certificate": pem}):
            self.assertIn("certificate", self.fails(1, "pull", "--force", REPO))
            self.succeeds("pull", "--force", REPO, SSL_CERT_FILE=pem + ".crt")
            self.assert_stored(f"{REPO}:Q8_0", demo())
            self.succeeds("rm", REPO)
        with self.serving(repositories=files, tls={"certificate": pem, "is_cdn_encrypted": False}) as hub:
            self.assertIn("a redirect from https to 'http://localhost:", self.fails(1, "pull", "--force", REPO, SSL_CERT_FILE=pem + ".crt"))
            self.assertEqual(hub.of_path("/cdn/"), [])
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
