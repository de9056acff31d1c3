"""Tests responses that are computed in the background: polling, cancelling, deleting, restarts, and the limits of keys."""
import concurrent.futures
import os
import shutil
import signal
import tempfile
import time
import unittest

import kvik  # noqa: F401, needed because it adds tools/ to the path
from server import Server

FLAGS = ("--threads", "1", "--kv-memory", "64MiB", "--disk-size", "64MiB")
SLOW = {"KVIK_ISA": "scalar"}  # an answer of 900 tokens takes seconds
WAIT_S = 60
LONG = {"max_output_tokens": 900, "ignore_eos": True}


class BackgroundResponses(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.disk = os.path.join(self.folder, "tier")

    def server(self, *flags, **more):
        return Server("demo", *FLAGS, *flags, **more)

    def ask(self, server, key=None, **fields):
        body = {"input": "Speak, my lord.", "temperature": 0, "max_output_tokens": 20, **fields}
        answer = server.post("/v1/responses", body, headers=self.headers(key))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    @staticmethod
    def headers(key):
        return {"Authorization": f"Bearer {key}"} if key else {}

    def begin(self, server, key=None, **fields):
        response = self.ask(server, key, background=True, **fields)
        self.assertIn(response["status"], ("queued", "in_progress"))
        self.assertEqual((response["background"], response["output"], response["usage"]), (True, [], None))
        return response["id"]

    def poll(self, server, response, key=None):
        answer = server.get(f"/v1/responses/{response}", headers=self.headers(key))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def cancel(self, server, response, key=None):
        return server.request("POST", f"/v1/responses/{response}/cancel", headers=self.headers(key))

    def result(self, server, response, key=None):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            value = self.poll(server, response, key)
            if value["status"] not in ("queued", "in_progress"):
                return value
            time.sleep(0.02)
        self.fail(f"the response still runs after {WAIT_S} s")

    def wait_until_idle(self, server):
        end = time.monotonic() + WAIT_S
        while server.metrics().value("kvik_requests_running"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    @staticmethod
    def text(response):
        return response["output"][-1]["content"][0]["text"]

    def test_the_result_is_that_of_an_ordinary_response(self):
        with self.server() as server:
            for fields in ({}, {"max_output_tokens": 5}, {"text": {"format": {"type": "json_schema", "name": "x", "schema": {"enum": [1, 2]}}}},
                           {"reasoning": {"effort": "low"}, "instructions": "Be brief."}):
                ordinary = self.ask(server, **fields)
                result = self.result(server, self.begin(server, **fields))
                self.assertEqual(result["status"], ordinary["status"])
                self.assertEqual(self.text(result), self.text(ordinary))
                self.assertEqual(result["usage"]["output_tokens"], ordinary["usage"]["output_tokens"])
            going_on = self.ask(server, previous_response_id=result["id"], input="Go on.")
            self.assertEqual(going_on["previous_response_id"], result["id"])

    def test_many_at_once_complete_beside_others(self):
        with self.server() as server, concurrent.futures.ThreadPoolExecutor(8) as users:
            wanted = {n: self.text(self.ask(server, input=f"Speak {n}.")) for n in range(4)}
            responses = [(n % 4, self.begin(server, input=f"Speak {n % 4}.")) for n in range(24)]
            others = [users.submit(self.ask, server, input=f"Speak {n}.") for n in range(4)]
            for n, response in responses:
                self.assertEqual(self.text(self.result(server, response)), wanted[n])
            for n, other in enumerate(others):
                self.assertEqual(self.text(other.result()), wanted[n])

    def test_cancelling_and_deleting_end_the_work(self):
        with self.server(env=SLOW) as server:
            cancelled, deleted = self.begin(server, **LONG), self.begin(server, **LONG)
            self.assertEqual(self.cancel(server, cancelled).json["status"], "cancelled")
            self.assertEqual(self.cancel(server, cancelled).json["status"], "cancelled")
            self.assertEqual(self.poll(server, cancelled)["status"], "cancelled")
            self.assertEqual(server.request("DELETE", f"/v1/responses/{deleted}").status, 200)
            self.wait_until_idle(server)
            for method, path in (("GET", ""), ("POST", "/cancel"), ("DELETE", "")):
                self.assertEqual(server.request(method, f"/v1/responses/{deleted}{path}").status, 404)

    def test_refusals(self):
        with self.server() as server:
            for fields in ({"store": False}, {"stream": True}, {"background": "yes"}):
                answer = server.post("/v1/responses", {"input": "x", "background": True, **fields})
                self.assertEqual((answer.status, answer.json["error"]["param"]), (400, "background"), answer.body)
            ordinary = self.ask(server)["id"]
            answer = self.cancel(server, ordinary)
            self.assertEqual(answer.status, 400)
            self.assertIn("background", answer.json["error"]["message"])
            bad = server.post("/v1/responses", {"input": "x", "background": True, "text": {"format": {"type": "json_schema", "schema": {"type": 3}}}})
            self.assertEqual(bad.status, 400)

    def test_no_key_sees_a_response_of_another(self):
        keys = os.path.join(self.folder, "keys")
        with open(keys, "w", encoding="utf-8") as file:
            file.write("a-key ann\nb-key ben\n")
        with self.server("--api-key-file", keys, env=SLOW) as server:
            response = self.begin(server, "a-key", **LONG)
            for method, path in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")):
                self.assertEqual(server.request(method, f"/v1/responses/{response}{path}", headers=self.headers("b-key")).status, 404)
            more = {"input": "x", "previous_response_id": response}
            answers = [server.post("/v1/responses", more, headers=self.headers(key)) for key in ("a-key", "b-key")]
            self.assertEqual([answer.status for answer in answers], [400, 400])
            self.assertIn("in progress", answers[0].json["error"]["message"])
            self.assertIn("is not stored", answers[1].json["error"]["message"])
            self.assertEqual(self.poll(server, response, "a-key")["status"], "in_progress")
            self.assertEqual(self.cancel(server, response, "a-key").json["status"], "cancelled")

    def test_the_budget_of_stored_responses_holds(self):
        with self.server() as server:  # 16 MiB for a context of 1,024 tokens
            before = server.rss_bytes()
            first = None
            for n in range(1_200):
                response = self.begin(server, input="x", max_output_tokens=1, metadata={"x": "y" * 16_000})
                first = first or response
                if n % 40 == 39:
                    self.wait_until_idle(server)
            self.assertEqual(self.result(server, response)["status"], "incomplete")
            self.assertEqual(server.get(f"/v1/responses/{first}").status, 404)
            self.assertLess(server.rss_bytes() - before, 64 << 20)

    def test_a_server_that_ends_finishes_them(self):
        with self.server("--disk", self.disk) as server:
            responses = [self.begin(server, input=f"Speak {n}.", max_output_tokens=100) for n in range(4)]
            server.interrupt(signal.SIGTERM)
            self.assertEqual(server.process.wait(WAIT_S), 0)
        with self.server("--disk", self.disk) as server:
            for response in responses:
                result = self.poll(server, response)
                self.assertIn(result["status"], ("completed", "incomplete"))
                self.assertTrue(self.text(result))

    def test_none_is_in_progress_after_a_kill(self):
        with self.server("--disk", self.disk, env=SLOW) as server:
            done = self.result(server, self.begin(server, max_output_tokens=3))["id"]
            running = self.begin(server, **LONG)
            time.sleep(1)  # the file is written behind the answer
            server.process.kill()
            server.process.wait()
        with self.server("--disk", self.disk) as server:
            self.assertIn(self.poll(server, done)["status"], ("completed", "incomplete"))
            self.assertEqual(server.get(f"/v1/responses/{running}").status, 404)


if __name__ == "__main__":
    unittest.main()
