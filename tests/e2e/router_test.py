"""Tests that one server serves several models, each in a process of its own, and keeps their caches when they are swapped."""
import concurrent.futures
import fcntl
import glob
import http.client
import json
import os
import pathlib
import shutil
import signal
import tempfile
import threading
import time
import unittest

import kvik
import prometheus
from server import Server

# Models with random weights: with full attention, with sliding windows and with recurrent state. Each needs about 400 MiB, most of it
# bounds on requests.
MODELS = ("synthetic:test-llama", "synthetic:test-gemma3", "synthetic:test-qwen35")
KV = ("--kv-memory", "64MiB")
WARM = "/dev/shm"


def model_list(server):
    return {m["id"]: m for m in server.get("/v1/models").json["data"]}


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} took longer than {seconds} s")
        time.sleep(0.02)


def children_of(server):
    with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as f:
        own = f.read().split()
    for task in os.listdir(f"/proc/{server.process.pid}/task"):
        with open(f"/proc/{server.process.pid}/task/{task}/children") as f:
            own += f.read().split()
    return sorted({int(pid) for pid in own})


def stop_process(pid):
    """Stops a process and waits until none of its threads runs: the signal alone returns before that."""
    def is_stopped(task):
        with open(f"/proc/{pid}/task/{task}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] == "T"

    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: all(is_stopped(task) for task in os.listdir(f"/proc/{pid}/task")), "stopping")


def planned_bytes(server, name):
    server.complete([1, 2, 3], model=name, max_tokens=1)
    return model_list(server)[name]["memory_bytes"]


def memory_for(n, models=MODELS, flags=KV):
    """Returns a --memory in which n of the models fit at once, but not n + 1."""
    with Server(models[0], *models[1:], *flags, "--memory", "8GiB") as server:
        plans = sorted(planned_bytes(server, name) for name in models)
    assert sum(plans[-n:]) < sum(plans[:n + 1]), plans
    return sum(plans[-n:])


class Router(unittest.TestCase):
    def state(self, server, name):
        return model_list(server)[name]["state"]

    def unload(self, server, name):
        answer = server.request("POST", "/v1/models/unload", {"model": name})
        self.assertEqual(answer.status, 200)
        self.assertIn(answer.json["state"], ("unloading", "unloaded"))
        wait_for(lambda: self.state(server, name) == "unloaded", "unloading")

    def test_a_request_loads_the_model_that_it_names(self):
        def answer_of(server, name):
            answer = server.complete([1, 5, 9], model=name, max_tokens=4, ignore_eos=True)
            return answer["model"], answer["choices"][0]["text"]

        alone = {}
        for name in MODELS[:2]:
            with Server(name, *KV) as server:
                alone[name] = answer_of(server, name)
        with Server(MODELS[0], MODELS[1], *KV, "--memory", "8GiB") as server:
            self.assertEqual([self.state(server, name) for name in MODELS[:2]], ["unloaded"] * 2)
            for name in MODELS[:2]:
                self.assertEqual(answer_of(server, name), alone[name])
            self.assertEqual([self.state(server, name) for name in MODELS[:2]], ["loaded"] * 2)
            refused = server.request("POST", "/v1/completions", {"model": "synthetic:test-lama", "prompt": "a"})
            self.assertEqual(refused.status, 404)
            self.assertIn("did you mean synthetic:test-llama?", refused.error["message"])
            self.assertEqual(refused.error["code"], "model_not_found")
            # Without a name, the model that was used last answers.
            self.assertEqual(server.complete([1, 2], max_tokens=1)["model"], MODELS[1])

    def test_streams_of_all_dialects_pass_through(self):
        with Server("demo", MODELS[0], *KV, "--memory", "8GiB") as server:
            body = {"model": "demo", "max_tokens": 6, "messages": [{"role": "user", "content": "ROMEO:"}]}
            whole = server.request("POST", "/v1/messages", body)
            self.assertEqual((whole.status, whole.json["type"]), (200, "message"))
            streamed = server.request("POST", "/v1/messages", {**body, "stream": True})
            self.assertIn(b"event: message_stop", streamed.body)
            chat = server.request("POST", "/v1/chat/completions", {**body, "stream": True})
            self.assertTrue(chat.body.rstrip().endswith(b"data: [DONE]"))
            stored = server.request("POST", "/v1/responses", {"model": "demo", "input": "ROMEO:", "max_output_tokens": 4})
            self.assertEqual(stored.status, 200)
            # A route without a body finds the model that has the response.
            server.complete([1, 2], model=MODELS[0], max_tokens=1)
            again = server.request("GET", "/v1/responses/" + stored.json["id"])
            self.assertEqual((again.status, again.json["id"]), (200, stored.json["id"]))
            live = server.request("GET", "/props?model=demo")
            self.assertEqual(live.json["model_alias"], "demo")

    def test_watching_loads_no_model(self):
        with Server("demo", MODELS[0], *KV) as server:
            poll = server.get("/v1/responses/resp_1")
            self.assertEqual((poll.status, poll.json["error"]["code"]), (503, "model_not_loaded"), poll.body)
            self.assertIn("name one as ?model=NAME", poll.json["error"]["message"])
            for path in ("/kvik/live", "/kvik/sessions", "/kvik/sessions/x"):
                for query in ("", "?model=demo"):
                    refused = server.get(path + query)
                    self.assertEqual(refused.status, 503, path)
                    self.assertIn(f"{path} does not load a model", refused.json["error"]["message"])
                    self.assertEqual((refused.json["error"]["code"], refused.json["error"]["param"]), ("model_not_loaded", "model"))
            self.assertEqual({m["state"] for m in server.get("/v1/models").json["data"]}, {"unloaded"})
            server.complete([1, 2, 3], model="demo", max_tokens=1)
            self.assertEqual(server.get("/kvik/sessions?model=demo").json, {"sessions": []})
            self.assertEqual(server.get("/kvik/sessions?model=" + MODELS[0]).status, 503)

    def test_metrics_show_every_model_under_its_name(self):
        with Server("demo", MODELS[0], *KV, "--memory", "8GiB") as server:
            for name in ("demo", MODELS[0]):
                server.complete([1, 2, 3], model=name, max_tokens=2)
            page = server.get("/metrics").body.decode()
            for name in ("demo", MODELS[0]):
                self.assertIn(f'kvik_model_state{{model_name="{name}",state="loaded"}} 1', page)
                self.assertIn(f'kvik_steps_total{{model_name="{name}"}}', page)
            self.assertEqual(page.count("# TYPE kvik_steps_total"), 1)
            server.metrics()  # checks the format

    def test_counters_go_on_when_a_model_is_loaded_again(self):
        def counted(server):
            page = prometheus.Page(server.get("/metrics").body.decode())
            return sum(value for (name, labels), value in page.samples.items()
                       if name == "kvik_generated_tokens_total" and ("model_name", "demo") in labels)

        def check(server, want):
            """Waits for the count: a step is counted after its last token was sent."""
            deadline = time.monotonic() + 10
            while counted(server) != want and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(counted(server), want)

        with Server("demo", "--sleep-after", "forever", *KV) as server:
            for n in (1, 2):
                server.complete([1, 2], max_tokens=8, ignore_eos=True)
                check(server, 16 * n - 8)
                server.complete([1, 2], max_tokens=8, ignore_eos=True)  # no page has these tokens before the model is unloaded
                self.unload(server, "demo")
                check(server, 16 * n)
            server.complete([1, 2], max_tokens=8, ignore_eos=True)
            check(server, 40)
            time.sleep(5.2)  # a process that ends earlier counts as one that cannot be loaded
            os.kill(children_of(server)[0], signal.SIGKILL)
            wait_for(lambda: model_list(server)["demo"]["crashes"] == 1, "ending")
            check(server, 40)

    def test_the_least_recently_used_model_makes_room(self):
        with Server(*MODELS, *KV, "--memory", memory_for(2)) as server:
            for name in MODELS[:2]:
                server.complete([1, 2, 3], model=name, max_tokens=1)
            server.complete([1, 2, 3], model=MODELS[0], max_tokens=1)
            server.complete([1, 2, 3], model=MODELS[2], max_tokens=1)
            self.assertEqual([self.state(server, name) for name in MODELS], ["loaded", "unloaded", "loaded"])
            self.assertEqual(len(children_of(server)), 2)

    def test_a_model_in_use_stays_and_others_wait_for_it(self):
        with Server(*MODELS, *KV, "--memory", memory_for(1)) as server:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                jobs = [pool.submit(server.complete, [1, 2, 3 + i], model=MODELS[i % 3], max_tokens=40, ignore_eos=True)
                        for i in range(24)]
                for job in jobs:
                    self.assertEqual(job.result()["usage"]["completion_tokens"], 40)
            self.assertLessEqual(len(children_of(server)), 1)

    def test_a_model_that_does_not_fit_is_refused_and_the_others_answer(self):
        with Server("demo", "synthetic:llama-3.1-8b", *KV, "--memory", "2GiB") as server:
            answer = server.request("POST", "/v1/completions", {"model": "synthetic:llama-3.1-8b", "prompt": "a"})
            self.assertEqual(answer.status, 503)
            self.assertRegex(answer.error["message"], r"needs .*GiB of memory, and --memory is 2\.00 GiB")
            self.assertEqual(server.complete([1, 2], model="demo", max_tokens=1)["model"], "demo")
            self.assertEqual(self.state(server, "synthetic:llama-3.1-8b"), "failed")

    def test_a_crash_of_one_model_leaves_the_others(self):
        with Server("demo", MODELS[0], *KV, "--memory", "8GiB") as server:
            server.complete([1, 2], model="demo", max_tokens=1)
            demo = children_of(server)
            server.complete([1, 2], model=MODELS[0], max_tokens=1)
            time.sleep(5.2)  # a process that ends earlier counts as one that cannot be loaded
            running = threading.Thread(target=server.request, args=("POST", "/v1/completions",
                                       {"model": "demo", "prompt": [1, 2], "max_tokens": 900, "ignore_eos": True}))
            running.start()
            wait_for(lambda: model_list(server)["demo"]["requests"] == 1, "the request")
            os.kill(demo[0], signal.SIGSEGV)
            running.join()
            wait_for(lambda: model_list(server)["demo"]["crashes"] == 1, "ending")
            self.assertEqual(server.complete([1, 2], model=MODELS[0], max_tokens=1)["model"], MODELS[0])
            self.assertEqual(server.complete([1, 2], model="demo", max_tokens=1)["model"], "demo")
            self.assertIn("signal 11", server.said())

    def test_a_request_before_a_crash_is_answered_by_the_next_process(self):
        """The process is stopped, so that it cannot answer, and killed when it has the request."""
        with Server("demo", "--sleep-after", "forever", *KV) as server:
            want = server.complete([1, 2], max_tokens=4, temperature=0)["choices"]
            time.sleep(5.2)  # a process that ends earlier counts as one that cannot be loaded
            for stream in (False, True):
                pid = children_of(server)[0]
                stop_process(pid)
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    body = {"model": "demo", "prompt": [1, 2], "max_tokens": 4, "temperature": 0, "stream": stream}
                    answer = pool.submit(server.request, "POST", "/v1/completions", body)
                    wait_for(lambda: model_list(server)["demo"]["requests"] == 1, "the request")
                    time.sleep(2.5 if stream else 0.2)
                    os.kill(pid, signal.SIGKILL)
                    got = answer.result()
                self.assertEqual(got.status, 200, got.body)
                if stream:
                    self.assertTrue(got.body.rstrip().endswith(b"data: [DONE]"), got.body)
                else:
                    self.assertEqual(got.json["choices"], want)
                time.sleep(5.2)
            self.assertEqual((model_list(server)["demo"]["crashes"], model_list(server)["demo"]["loads"]), (2, 3))

    def test_a_stream_whose_model_crashes_ends_with_an_event(self):
        with Server("demo", "--sleep-after", "forever", *KV) as server:
            body = {"model": "demo", "prompt": [1, 2], "max_tokens": 900, "ignore_eos": True, "stream": True}
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            self.addCleanup(connection.close)
            connection.request("POST", "/v1/completions", json.dumps(body))
            answer = connection.getresponse()
            begin = answer.read(1)
            os.kill(children_of(server)[0], signal.SIGKILL)
            text = (begin + answer.read()).decode()
            events = [e for e in text.split("\n\n") if e and not e.startswith(":")]
            self.assertTrue(all(e.startswith("data: {") for e in events), events[-2:])
            self.assertIn("did not complete the answer", json.loads(events[-1].removeprefix("data: "))["error"]["message"])

    def test_keep_alive_takes_durations_of_ollama(self):
        with Server("demo", "--sleep-after", "300s", *KV) as server:
            for given, least, most in (("10m", 500, 600), ("1h30m", 5300, 5400), (40, 20, 40), ("2h", 7100, 7200)):
                answer = server.request("POST", "/api/generate", {"model": "demo", "prompt": "a", "stream": False, "keep_alive": given,
                                                                  "options": {"num_predict": 1}})
                self.assertEqual(answer.status, 200)
                wait_for(lambda: "unload_seconds" in model_list(server)["demo"], "the end of the request")
                self.assertTrue(least < model_list(server)["demo"]["unload_seconds"] <= most, given)

    def test_a_model_that_cannot_be_loaded_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("bad.gguf", "empty.gguf", "mmproj-x.gguf"):
                with open(os.path.join(folder, name), "wb") as f:
                    f.write(b"GGUF" if name == "bad.gguf" else b"")
            with Server("demo", "--models", folder, *KV) as server:
                self.assertEqual(list(model_list(server)), ["demo", "bad", "empty"])
                answer = server.request("POST", "/v1/completions", {"model": "bad", "prompt": "a"})
                self.assertEqual(answer.status, 500)
                self.assertIn("bad.gguf", answer.error["message"])
                loaded = server.request("POST", "/v1/models/load", {"model": "demo"})
                self.assertEqual((loaded.status, loaded.json["state"], loaded.json["max_model_len"]), (200, "loaded", 1024))

    def test_a_model_whose_file_was_deleted_is_not_found(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.gguf")
            shutil.copy(kvik.preset("test-llama"), path)
            with Server(path, *KV, "--sleep-after", "300ms") as server:
                name = server.complete([1, 2], max_tokens=1)["model"]
                wait_for(lambda: not children_of(server), "unloading")
                os.rename(path, path + ".old")
                for route, code in (("/v1/completions", "model_not_found"), ("/v1/messages", None), ("/api/generate", None)):
                    answer = server.post(route, {"model": name, "prompt": "a", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]})
                    self.assertEqual(answer.status, 404, answer.body)
                    self.assertIn(f"could not be loaded: cannot open '{path}': No such file".encode(), answer.body)
                    self.assertIsNone(answer.headers.get("Retry-After"))
                    if code:
                        self.assertEqual((answer.error["code"], answer.error["param"]), (code, "model"))
                os.rename(path + ".old", path)
                wait_for(lambda: server.post("/v1/completions", {"prompt": [1, 2], "max_tokens": 1}).status == 200, "the next load")

    def test_idle_models_are_unloaded(self):
        with Server("demo", *KV, "--keep-alive", "300ms") as server:
            server.complete([1, 2], max_tokens=1)
            self.assertEqual(len(children_of(server)), 1)
            wait_for(lambda: not children_of(server), "unloading")
            self.assertEqual(server.complete([1, 2], max_tokens=1)["model"], "demo")

    def test_a_response_in_the_background_keeps_its_model_loaded(self):
        with Server("demo", *KV, "--threads", "1", "--keep-alive", "200ms", env={"KVIK_ISA": "scalar"}) as server:
            body = {"model": "demo", "input": "Speak, my lord.", "background": True, "max_output_tokens": 900, "ignore_eos": True}
            begun = server.post("/v1/responses", body)
            self.assertEqual(begun.status, 200, begun.body)
            child = children_of(server)
            time.sleep(1)
            self.assertEqual(children_of(server), child)
            poll = f"/v1/responses/{begun.json['id']}?model=demo"
            wait_for(lambda: server.get(poll).json["status"] == "incomplete", "the end of the response")
            self.assertEqual(children_of(server), child, "one process computed it")
            wait_for(lambda: not children_of(server), "unloading")
            cancelled = server.post(poll.replace("?", "/cancel?"), {})
            self.assertEqual((cancelled.status, cancelled.json["error"]["code"]), (503, "model_not_loaded"))
            self.assertFalse(children_of(server), "cancelling loads no model")
            self.assertEqual(server.get(poll).json["status"], "incomplete", "the result stays with the KV pages")

    def test_the_config_file_has_a_section_for_each_model(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write('[serve]\nkv-memory = "64MiB"\n\n[models.small]\npath = "demo"\nctx = 256\nalias = ["tiny"]\n\n'
                         '[models."other-2.5"]\npath = "synthetic:test-llama"\nkv-type = "f32"\n')
            config.flush()
            with Server(f"--config={config.name}") as server:
                self.assertEqual(list(model_list(server)), ["small", "tiny", "other-2.5"])
                self.assertEqual(server.request("GET", "/props?model=tiny").status, 200)
                answer = server.complete([1] * 20, model="tiny", max_tokens=1)
                self.assertEqual(answer["usage"]["prompt_tokens"], 20)
                self.assertEqual(server.get("/props?model=small").json["default_generation_settings"]["n_ctx"], 256)
                self.assertEqual(server.complete([1] * 20, model="other-2.5", max_tokens=1)["model"], "other-2.5")
            config.write('[models.third]\npath = "demo"\nctxx = 3\n')
            config.flush()
            done = kvik.run("serve", "--config", config.name)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"[models.third]: unknown flag 'ctxx'; did you mean ctx?", done.stderr)
            config.seek(0)
            config.truncate()
            config.write('[models.small]\npath = "demo"\nctx = "much"\n')
            config.flush()
            done = kvik.run("serve", "--config", config.name)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
            self.assertRegex(done.stderr, rb"the model small: .*much")

    def test_api_keys_hold_for_every_model_and_operators_load_them(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("alpha anna operator\nbeta bert\n")
            keys.flush()
            with Server("demo", MODELS[0], *KV, "--api-key-file", keys.name) as server:
                body = {"model": "demo", "prompt": "a", "max_tokens": 1}
                self.assertEqual(server.request("POST", "/v1/completions", body).status, 401)
                as_bert = {"Authorization": "Bearer beta"}
                self.assertEqual(server.request("POST", "/v1/completions", body, as_bert).status, 200)
                self.assertEqual(server.request("POST", "/v1/models/load", {"model": "demo"}, as_bert).status, 403)
                as_anna = {"Authorization": "Bearer alpha"}
                self.assertEqual(server.request("POST", "/v1/models/load", {"model": "demo"}, as_anna).status, 200)
                port = [line for line in server.said().splitlines() if "demo: loading" in line][0].rsplit("port ", 1)[1].rstrip(")")
                direct = Server.request
                front, server.port = server.port, int(port)
                try:  # the model's own server is reachable by every user of this machine
                    self.assertEqual(direct(server, "POST", "/v1/completions", body).status, 401)
                finally:
                    server.port = front

    def test_only_the_router_has_threads_for_downloads(self):
        def threads_of(pid):
            return [pathlib.Path(path).read_text().strip() for path in glob.glob(f"/proc/{pid}/task/*/comm")]

        with Server("demo", "--sleep-after", "forever", *KV) as server:
            server.complete([1, 2], max_tokens=1)
            self.assertIn("kvik-pull", threads_of(server.process.pid))
            child = threads_of(children_of(server)[0])
            self.assertIn("kvik-http", child)
            self.assertNotIn("kvik-pull", child)

    def test_nothing_is_left_at_the_end(self):
        server = Server("demo", MODELS[0], *KV)
        with server:
            server.complete([1, 2], model="demo", max_tokens=1)
            children = children_of(server)
            warm = [name for name in os.listdir(WARM) if f"-{server.process.pid}-" in name]
            self.assertEqual(len(warm), 1)
        self.assertEqual(server.process.returncode, 0)
        for child in children:
            self.assertFalse(os.path.exists(f"/proc/{child}"))
        self.assertFalse(os.path.exists(os.path.join(WARM, warm[0])))

    def test_models_end_with_a_killed_router_and_the_next_one_removes_their_folder(self):
        server = Server("demo", MODELS[0], *KV)
        server.complete([1, 2], model="demo", max_tokens=1)
        children = children_of(server)
        pid = server.process.pid
        server.process.kill()
        server.process.wait()
        wait_for(lambda: not any(os.path.exists(f"/proc/{child}") for child in children), "ending")
        others = tempfile.mkdtemp(prefix=f"kvik-warm-{os.getuid()}-1-", dir=WARM)  # of a router in a container: no such process is here
        self.addCleanup(shutil.rmtree, others, ignore_errors=True)
        lock = os.open(others, os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with Server("demo", MODELS[0], *KV):
            self.assertTrue(os.path.exists(others))
            self.assertEqual([name for name in os.listdir(WARM) if f"-{pid}-" in name], [])


class Swap(unittest.TestCase):
    """After a swap the first request of a known conversation finds what the cache held."""

    TOKENS = [1 + i * 7919 % 200 for i in range(900)]

    def cached(self, server, name, tokens):
        answer = server.complete(tokens, model=name, max_tokens=8, ignore_eos=True)
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"], answer["choices"][0]["text"]

    def check(self, *flags):
        for name in MODELS:
            with self.subTest(model=name), Server(name, "demo", *KV, *flags) as server:
                n_cached, text = self.cached(server, name, self.TOKENS)
                self.assertEqual(n_cached, 0)
                in_memory, same_text = self.cached(server, name, self.TOKENS)
                self.assertEqual(same_text, text)
                for _ in range(3):
                    self.assertEqual(server.request("POST", "/v1/models/unload", {"model": name}).status, 200)
                    wait_for(lambda: model_list(server)[name]["state"] == "unloaded", "unloading")
                    self.assertEqual(children_of(server), [])
                    after_swap, same_text = self.cached(server, name, self.TOKENS)
                    self.assertEqual(same_text, text)
                    self.assertGreaterEqual(after_swap, min(in_memory, len(self.TOKENS) // 32 * 32))

    def test_in_memory(self):
        self.check()

    def test_on_disk(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder, True)
        self.check("--disk", folder, "--disk-size", "256MiB")

    def test_kept_pages_count_in_the_memory_of_all_models(self):
        with Server(MODELS[0], "demo", *KV) as server:
            self.cached(server, MODELS[0], self.TOKENS)
            self.assertEqual(server.request("POST", "/v1/models/unload", {"model": MODELS[0]}).status, 200)
            wait_for(lambda: model_list(server)[MODELS[0]]["state"] == "unloaded", "unloading")
            kept = model_list(server)[MODELS[0]]["kept_cache_bytes"]
            self.assertGreater(kept, 100_000)
            self.assertIn(f'kvik_model_memory_bytes{{model_name="{MODELS[0]}",kind="kept"}} {kept}',
                          server.get("/metrics").body.decode())

    def test_only_as_many_kept_pages_as_necessary_are_dropped(self):
        first, second = "demo", MODELS[1]  # the second one needs more memory
        prompts = [[1 + (i * 7919 + k * 31) % 200 for i in range(900)] for k in range(12)]

        def fill_and_unload(server):
            for prompt in prompts:
                self.cached(server, first, prompt)
            self.assertEqual(server.request("POST", "/v1/models/unload", {"model": first}).status, 200)
            wait_for(lambda: model_list(server)[first]["state"] == "unloaded", "unloading")
            return model_list(server)[first]["kept_cache_bytes"]

        with Server(first, second, *KV, "--memory", "8GiB") as server:
            kept = fill_and_unload(server)
            plans = [planned_bytes(server, name) for name in (first, second)]
        self.assertGreater(plans[1], plans[0] + kept // 3)
        with Server(first, second, *KV, "--memory", str(plans[1] + kept * 2 // 3)) as server:
            kept = fill_and_unload(server)
            self.assertEqual(self.cached(server, second, [1, 2])[0], 0)
            rest = model_list(server)[first]["kept_cache_bytes"]
            self.assertTrue(kept // 4 < rest < kept * 3 // 4, (kept, rest))
            self.assertEqual(self.cached(server, first, prompts[0])[0], 0)
            self.assertGreaterEqual(self.cached(server, first, prompts[-1])[0], len(prompts[-1]) // 32 * 32)

    def test_without_warm_cache_nothing_is_kept(self):
        with Server(MODELS[0], "demo", *KV, "--warm-cache", "off") as server:
            self.cached(server, MODELS[0], self.TOKENS)
            self.assertEqual(server.request("POST", "/v1/models/unload", {"model": MODELS[0]}).status, 200)
            wait_for(lambda: model_list(server)[MODELS[0]]["state"] == "unloaded", "unloading")
            self.assertEqual(self.cached(server, MODELS[0], self.TOKENS)[0], 0)


if __name__ == "__main__":
    unittest.main()
