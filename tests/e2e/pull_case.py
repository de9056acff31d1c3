"""Shared parts of the tests of downloads."""
import contextlib
import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest

import hub as hub_server
import kvik

REPO = "acme/Tiny-GGUF"
FILE = "tiny-Q8_0.gguf"
MIB = 1 << 20
MODEL_LAYER, CONFIG_LAYER = "application/vnd.ollama.image.model", "application/vnd.docker.container.image.v1+json"


def read(path):
    with open(path, "rb") as f:
        return f.read()


def demo():
    return read(kvik.DEMO)


def noise(n_bytes, seed=1):
    return random.Random(seed).randbytes(n_bytes)


class PullCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.cache = os.path.join(self.folder, "hub")
        self.env = {"HOME": self.folder, "HF_HOME": "", "HF_HUB_CACHE": self.cache, "HUGGINGFACE_HUB_CACHE": "", "XDG_CACHE_HOME": "",
                    "OLLAMA_MODELS": os.path.join(self.folder, "ollama"), "KVIK_DOWNLOADS": os.path.join(self.folder, "downloads"),
                    "HF_TOKEN": "", "HF_TOKEN_PATH": "", "HUGGING_FACE_HUB_TOKEN": "", "HF_HUB_OFFLINE": "", "CURL_CA_BUNDLE": "", "SSL_CERT_FILE": "",
                    **{name: "" for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")}}

    @contextlib.contextmanager
    def serving(self, tls=None, **what):
        """tls: arguments of Hub.running()."""
        hub = hub_server.Hub(**what)
        with hub.running(**(tls or {})):
            self.env.update(HF_ENDPOINT=hub.url, KVIK_OLLAMA_REGISTRY=hub.url)
            yield hub

    def kvik(self, *args, timeout=60, **env):
        return kvik.run(*args, env={**self.env, **env}, timeout=timeout)

    def succeeds(self, *args, **env):
        done = self.kvik(*args, **env)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def fails(self, code, *args, **env):
        """Returns the error, which must be one line, the last one."""
        done = self.kvik(*args, **env)
        lines = done.stderr.decode().splitlines()
        self.assertEqual(done.returncode, code, lines)
        self.assertTrue(lines[-1].startswith("kvik: "), lines)
        self.assertEqual(sum(line.startswith("kvik: ") for line in lines), 1, lines)
        return lines[-1]

    def names(self):
        return [model["name"] for model in json.loads(self.succeeds("list", "--json"))]

    def stored(self, name):
        return next(m for m in json.loads(self.succeeds("list", "--json")) if m["name"] == name)

    def start(self, *args, **options):
        return subprocess.Popen(kvik.command(*args), env=kvik.environment(**self.env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def assert_stored(self, name, data):
        model = self.stored(name)
        self.assertTrue(read(model["path"]) == data)
        return model
