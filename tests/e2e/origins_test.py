"""Tests requests of web pages from other origins to a server without API keys, in Chromium."""
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading
import unittest

import kvik  # noqa: F401, needed because it adds tools/ to the path
from server import Server

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"
CHROMIUM = os.environ.get("KVIK_CHROMIUM", "/usr/bin/chromium")
FLAGS = ("--threads", 1, "--kv-memory", "16MiB")


class Page(http.server.BaseHTTPRequestHandler):
    """Serves the same page at every path."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, *_):
        pass


@unittest.skipUnless(shutil.which("node") and os.path.exists(CHROMIUM), "no Node or no Chromium here")
class Origins(unittest.TestCase):
    def setUp(self):
        self.elsewhere = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=self.elsewhere.serve_forever, daemon=True).start()
        self.addCleanup(self.elsewhere.server_close)
        self.addCleanup(self.elsewhere.shutdown)
        self.origin = f"http://127.0.0.1:{self.elsewhere.server_port}"

    def seen(self, server):
        done = subprocess.run(["node", "test/origins.mjs", f"http://127.0.0.1:{server.port}/", self.origin + "/"], cwd=WEB, text=True,
                              capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return json.loads(done.stdout)

    def finished(self, server):
        return sum(server.metrics().values("kvik_requests_finished_total", "reason").values())

    def check_rebound(self, result):
        for name in ("rebound", "reboundPost"):
            self.assertEqual(result[name]["status"], 403, result[name])
            self.assertIn("--allow-host", result[name]["text"])
        self.assertEqual(result["reboundPage"], 403)

    def test_39_a_page_of_elsewhere_runs_nothing_and_reads_nothing(self):
        with Server("demo", *FLAGS) as server:
            result = self.seen(server)
            self.assertEqual(result["own"]["status"], 200, "the server's own page")
            for name in ("get", "json", "key", "text"):
                self.assertIn("refused", result[name], name)
            self.assertEqual((result["blind"]["type"], result["blind"]["text"]), ("opaque", ""))
            self.check_rebound(result)
            self.assertEqual(self.finished(server), 1, "its own page's alone")

    def test_39_a_page_that_was_allowed_calls_and_reads(self):
        with Server("demo", *FLAGS, "--cors", f"https://other.example,{self.origin}") as server:
            result = self.seen(server)
            for name in ("own", "get", "json", "key", "text"):
                self.assertEqual(result[name].get("status"), 200, (name, result[name]))
            self.assertIn("text_completion", result["json"]["text"])
            self.check_rebound(result)
            self.assertEqual(self.finished(server), 5)

    def test_39_a_name_that_was_allowed_is_answered(self):
        with Server("demo", *FLAGS, "--allow-host", "evil.example") as server:
            result = self.seen(server)
            self.assertEqual((result["rebound"]["status"], result["reboundPost"]["status"], result["reboundPage"]), (200, 200, 200))
            self.assertIn("refused", result["json"])


if __name__ == "__main__":
    unittest.main()
