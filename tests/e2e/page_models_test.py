"""Tests the page's table of models in Chromium: on a router, with downloads from a hub on loopback, and on a server of one model."""
import http.client
import json
import os
import shutil
import tempfile
import time
import unittest

import kvik  # noqa: F401, needed because it adds tools/ to the path
from encoder_test import Variant
from page_test import CHROMIUM, FLAGS, seen
from pull_case import FILE, REPO, PullCase, demo
from server import Server

TWO = ("demo", "synthetic:test-llama")
ROUTER = ("--kv-memory", "64MiB", "--threads", 1, "--memory", "8GiB")


@unittest.skipUnless(shutil.which("node") and os.path.exists(CHROMIUM), "no Node or no Chromium here")
class PageModels(PullCase):
    def test_models_are_loaded_chosen_and_unloaded(self):
        with Server(*TWO, *ROUTER) as server:
            result = seen("models", server, " ".join(TWO))
            self.assertEqual(server.get("/v1/models").json["data"][0]["loads"], 1)
        self.assertEqual(result["opened"], ["unloaded"] * 2, "opening the page loads no model")
        self.assertIn(TWO[1], result["shown"])
        self.assertEqual(result["afterChoice"], ["unloaded", "loaded"], "choosing a model does not load it")
        self.assertEqual(result["model"], TWO[0])
        self.assertGreater(len(result["answer"]["text"]), 0)
        self.assertEqual(result["explainPath"], "?model=demo")
        self.assertRegex(result["memory"], r"Memory of demo: [\d.]+ [MG]iB loaded")
        self.assertRegex(result["kept"], r"Memory of demo: [\d.]+ [KM]iB of cache kept, needs [\d.]+ [MG]iB")
        self.assertIn(TWO[0], result["chosen"])
        self.assertTrue(result["isKept"], "the choice survives a reload")
        self.assertEqual(result["atEnd"], ["unloaded", "loaded"])
        self.assertEqual(result["complaints"], [])
        self.assertEqual(result["hosts"], [f"127.0.0.1:{server.port}"])

    def test_failures_and_downloads_are_shown(self):
        broken = os.path.join(self.folder, "broken.gguf")
        with open(broken, "wb") as f:
            f.write(b"GGUF")
        with self.serving(repositories={REPO: {FILE: demo()}}):
            with Server(broken, "demo", *ROUTER, env=self.env) as server:
                name = server.get("/v1/models").json["data"][0]["id"]
                result = seen("pull", server, f"{name} {REPO}:q8_0 {REPO}:q2_k")
        self.assertRegex(result["failure"], "broken")
        self.assertRegex(result["refused"], r"(?i)q2_k")
        self.assertIn("is stored", result["stored"])
        self.assertIn(f"{REPO}:Q8_0", result["others"])
        self.assertGreater(len(result["progress"]), 0)
        self.assertEqual(result["progress"], sorted(result["progress"]))
        self.assertEqual(result["complaints"], [])
        self.assert_stored(f"{REPO}:Q8_0", demo())

    def test_every_state_has_its_row(self):
        def entry(name, state, **more):
            return {"id": name, "display_name": name, "state": state, "memory_bytes": 0, "kept_cache_bytes": 0, "requests": 0, "crashes": 0, **more}

        models = [entry("a", "loading", progress=0.5, memory_bytes=4 << 30, requests=2), entry("b", "loaded", memory_bytes=2 << 30, crashes=1),
                  entry("c", "unloaded", memory_bytes=3 << 30, kept_cache_bytes=1 << 30), entry("d", "unloading", memory_bytes=1 << 30),
                  entry("e", "failed", error="e could not be loaded: no such file"), entry("f", "unloaded")]
        with Server("demo", *FLAGS) as server:
            result = seen("states", server, json.dumps({"object": "list", "data": models, "can_load": True, "can_pull": False}))
        a, b, c, d, e, f = result["rows"]
        self.assertIn("loading 50%", a["state"])
        self.assertEqual([row["bars"] for row in result["rows"]], [[[50], [100]], [[50]], [[25]], [[25]], [[]], [[]]])
        self.assertIn("1 crash", b["state"])
        self.assertEqual([row["memory"] for row in result["rows"]],
                         ["4.0 GiB loaded", "2.0 GiB loaded", "1.0 GiB of cache kept, needs 3.0 GiB", "1.0 GiB loaded", "–", "–"])
        self.assertIn("e could not be loaded: no such file", e["name"])
        self.assertEqual([row["action"] for row in (a, b, c, d, e, f)], ["Unload", "Unload", "Load", "Load", "Load", "Load"])
        self.assertEqual([row["isEnabled"] for row in (a, b, c, d, e, f)], [True, True, True, False, True, True])
        self.assertRegex(result["legend"], r"loaded\s+7\.0 GiB")
        self.assertRegex(result["legend"], r"unloaded models\s+1\.0 GiB")

    def test_everybody_can_use_it_in_light_and_dark_and_on_a_phone(self):
        with Server(*TWO, *ROUTER) as server:
            self.assertEqual(server.request("POST", "/v1/models/load", {"model": "demo"}).status, 200)
            result = seen("access", server)
        self.assertEqual(result["faults"], [])
        self.assertEqual(result["overflow"], [])

    def test_a_user_looks_and_an_operator_loads(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("key-of-alice alice\nkey-of-ops ops operator\n")
            keys.flush()
            with Server(*TWO, *ROUTER, "--api-key-file", keys.name) as server:
                user = seen("user", server, "key-of-alice")
                operator = seen("user", server, "key-of-ops")
                listed = [server.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).json["can_load"] for key in ("key-of-alice", "key-of-ops")]
        self.assertEqual((user["nButtons"], user["nForms"]), (0, 0))
        self.assertIn("with the key of an operator", user["note"])
        self.assertEqual(operator["nButtons"], 2 + 1, "Load of each, and Download")
        self.assertEqual(listed, [False, True])

    def test_watching_neither_loads_a_model_nor_keeps_it_loaded(self):
        with Server(*TWO, *ROUTER) as server:
            for query in ("", "?model=demo"):
                refused = server.get("/kvik/live" + query)
                self.assertEqual(refused.status, 503)
                self.assertIn("/kvik/live does not load a model", refused.error["message"])
            self.assertEqual(server.get("/kvik/live?model=dema").status, 404)
            self.assertEqual(server.request("POST", "/v1/models/load", {"model": "demo"}).status, 200)
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("GET", "/kvik/live?model=demo")
            watched = connection.getresponse()
            self.assertIn(b'"model":"demo"', watched.readline())
            self.assertEqual(server.get("/v1/models").json["data"][0]["requests"], 0)
            self.assertEqual(server.request("POST", "/v1/models/unload", {"model": "demo"}).status, 200)
            self.assertIn(b"event: end", watched.read())
            connection.close()
            deadline = time.monotonic() + 60
            while server.get("/v1/models").json["data"][0]["state"] != "unloaded":
                self.assertLess(time.monotonic(), deadline, "the model stays loaded while it is watched")
                time.sleep(0.05)

    def test_a_server_of_one_model_shows_it_and_its_memory(self):
        with Server("demo", *FLAGS) as server:
            result = seen("single", server)
        self.assertRegex(result["text"], r"demo · planned memory [\d.]+ [MG]iB")
        self.assertEqual(result["nControls"], 0)
        self.assertNotIn("model", result["body"])
        self.assertEqual(result["complaints"], [])

    def test_an_encoder_is_shown_with_its_routes(self):
        for name, sentence, route in (("bert", "makes embeddings", "/v1/embeddings"), ("bert-reranker", "scores pairs of texts", "/v1/rerank")):
            folder = os.path.join(self.folder, name)
            os.mkdir(folder)
            Variant(name).write(folder)
            with self.subTest(model=name), Server(folder, "--threads", 1) as server:
                result = seen("encoder", server)
                self.assertIn(f"This model {sentence}", result["text"])
                self.assertIn(f"POST {route}", result["text"])
                self.assertRegex(result["text"], rf"Model\s+{name}\s+Longest text\s+64 tokens")
                self.assertEqual(result["panels"], 0)
                self.assertEqual(result["faults"] + result["complaints"], [])

    def test_a_routers_encoder_is_shown_beside_the_list_of_models(self):
        folder = os.path.join(self.folder, "bert")
        os.mkdir(folder)
        Variant("bert").write(folder)
        with Server("demo", folder, *ROUTER) as server:
            name = server.get("/v1/models").json["data"][1]["id"]
            self.assertEqual(server.post("/v1/models/load", {"model": name}).status, 200)
            result = seen("encoder", server)
        self.assertIn("This model makes embeddings", result["text"])
        self.assertIn("demo", result["text"])
        self.assertEqual(result["faults"] + result["complaints"], [])


if __name__ == "__main__":
    unittest.main()
