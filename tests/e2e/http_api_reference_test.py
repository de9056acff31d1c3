"""docs/reference/http_api.md has a section for each route, and its examples work."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import kvik
from document_blocks import json_values
from server import Server

PAGE = os.path.join(kvik.ROOT, "docs/reference/http_api.md")


def page():
    with open(PAGE, encoding="utf-8") as file:
        return file.read()


class HttpApiReference(unittest.TestCase):
    def test_each_route_has_a_section(self):
        described = {route for heading in re.findall(r"^### (.*)$", page(), re.M) for route in re.findall(r"`([A-Z]+ \S+)`", heading)}
        with Server("demo", "--kv-memory", "64MiB") as server:
            paths = server.get("/openapi.json").json["paths"]
        self.assertEqual(described, {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods})

    @unittest.skipUnless(shutil.which("curl"), "the examples use curl")
    def test_the_examples_are_answered(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["/usr/bin/python3", os.path.join(kvik.ROOT, "tools/make/make_adapter.py"), kvik.DEMO,
                            os.path.join(folder, "clerk.gguf"), "--rank", "2"], check=True, capture_output=True)
            with Server("demo", "--kv-memory", "64MiB", "--adapter-folder", folder) as server:
                for block, shown in re.findall(r"```sh\n(.*?)```(?:\s*\n\n```json\n(.*?)```)?", page(), re.S):
                    script = block.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}").replace("curl ", "curl -sS --fail ")
                    done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, timeout=60)
                    is_live = "/kvik/live" in block  # ends by its time limit
                    self.assertEqual(done.returncode, 28 if is_live else 0, block + done.stderr)
                    self.assertTrue(done.stdout, block)
                    if not shown:
                        continue
                    documented, answered = json_values(shown), json_values(done.stdout)
                    self.assertLessEqual(len(documented), len(answered), block)
                    for values in zip(documented, answered):
                        self.assert_has_members(*values, block)

    def assert_has_members(self, documented, answered, where):
        """Every member that the page shows is in the answer, with a value of the same type."""
        if documented is None:
            return
        kinds = [float if type(value) is int else type(value) for value in (documented, answered)]
        self.assertEqual(*kinds, f"{where}{documented} {answered}")
        if isinstance(documented, dict):
            self.assertLessEqual(documented.keys(), answered.keys(), where)
            for name, value in documented.items():
                self.assert_has_members(value, answered[name], where)
        elif isinstance(documented, list) and documented:
            self.assertTrue(answered, where)
            self.assert_has_members(documented[0], answered[0], where)


if __name__ == "__main__":
    unittest.main()
