"""Tests the page in Chromium with a real server. KVIK_SCREENSHOTS names a folder for screenshots."""
import gzip
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import kvik  # noqa: F401, needed because it adds tools/ to the path
from server import Server

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"
CHROMIUM = os.environ.get("KVIK_CHROMIUM", "/usr/bin/chromium")
FLAGS = ("--threads", 1, "--kv-memory", "64MiB")


@unittest.skipUnless(shutil.which("node"), "no Node here")
class Units(unittest.TestCase):
    def test_the_units_of_the_page(self):
        done = subprocess.run(["node", "test/unit.mjs"], cwd=WEB, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-2000:])


class Browser:
    """Runs one scenario of web/test/page.mjs."""

    def __init__(self, scenario, port, *given):
        self.scenario = scenario
        self.process = subprocess.Popen(
            ["node", "test/page.mjs", scenario, f"http://127.0.0.1:{port}/", *given], cwd=WEB, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line(self):
        """Returns the scenario's next output line."""
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"{self.scenario}: {self.process.stderr.read()[-3000:]}")
        return json.loads(line)

    def continue_response(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


def seen(scenario, server, *given):
    with Browser(scenario, server.port, *given) as browser:
        return browser.line()


@unittest.skipUnless(shutil.which("node") and os.path.exists(CHROMIUM), "no Node or no Chromium here")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", *FLAGS)
        cls.addClassCleanup(cls.server.__exit__)

    def test_is_the_built_one_in_one_small_file(self):
        page = self.server.get("/")
        self.assertIn(b"<script type=\"module\">", page.body, "tools/build_page.sh was not run before the build")
        small = self.server.get("/", headers={"Accept-Encoding": "gzip"})
        self.assertEqual(gzip.decompress(small.body), page.body)
        self.assertLessEqual(len(small.body), 250 * 1024)

    def test_is_painted_within_half_a_second(self):
        self.assertLessEqual(min(seen("paint", self.server)["times"]), 500)

    def test_a_chat_streams_and_its_second_message_finds_the_first(self):
        result = seen("chat", self.server)
        self.assertGreater(len(result["lengths"]), 3, "the answer came all at once")
        self.assertEqual(result["lengths"], sorted(result["lengths"]))
        first, second = result["first"], result["second"]
        self.assertGreater(len(first["text"]), 10)
        self.assertIn("TTFT", result["long"]["facts"])
        self.assertIn("ITL", result["long"]["facts"])
        n_first = first["cached"] + first["computed"]
        self.assertGreaterEqual(second["cached"], n_first - 32, "the first prompt is in the second")
        self.assertEqual(result["complaints"], [], "nothing breaks the page's own policy")
        self.assertEqual(result["hosts"], [f"127.0.0.1:{self.server.port}"], "no request to other hosts")

    def test_the_map_shows_what_two_chats_share(self):
        with Server("demo", *FLAGS) as server:
            result = seen("sharing", server)
        self.assertGreater(result["after"], result["before"])
        self.assertGreaterEqual(result["second"]["cached"], 64, "the system prompt")
        self.assertRegex(result["detail"], r"Page 0\b")
        self.assertRegex(result["detail"], r"Continued by\s+[2-9]\d* texts")
        self.assertTrue(result["isDeselected"])
        self.assertEqual(result["complaints"], [])

    def test_sessions_and_what_they_lost_are_listed(self):
        with Server("demo", *FLAGS) as server:
            result = seen("sessions", server)
            sessions = server.get("/kvik/sessions").json["sessions"]
        self.assertEqual((result["before"], result["rows"], len(sessions)), (0, 1, 1))
        self.assertIn("changed text", result["text"])
        self.assertIn(f"{sessions[0]['lost_tokens']:,}", result["text"])
        self.assertEqual(result["complaints"], [])

    def test_sequences_that_run_together_are_strips(self):
        result = seen("others", self.server)
        self.assertEqual(result["tokens"], [600] * 12)
        self.assertGreaterEqual(result["most"]["strips"], 2, "at most seven of them are drawn")
        self.assertGreater(result["most"]["inUse"], 12, "pages of answers, and of the prompt that they share")
        self.assertGreaterEqual(result["most"]["shared"], 5, "the pages of the system prompt")
        self.assertRegex(result["strip"], r"(?s)ended.*600 generated")

    def test_an_answer_can_be_stopped(self):
        result = seen("stop", self.server)
        self.assertIn("stopped", result["facts"])
        self.assertEqual(result["complaints"], [])

    def test_the_view_follows_every_message_until_the_user_scrolls_up(self):
        result = seen("follow", self.server)
        self.assertGreater(result["height"], 500, "the chat is longer than the view")
        self.assertLess(max(result["ends"]), 40, result["ends"])
        self.assertTrue(result["isRunning"], "the answer ended before the user scrolled up")
        self.assertGreater(result["away"], 200, "the user scrolled up, and the page scrolled down")
        self.assertLess(result["sent"], 40, "an own message is shown")
        self.assertEqual(result["complaints"], [])

    def test_explains_itself_on_the_loaded_model(self):
        result = seen("explain", self.server)
        self.assertEqual([step.lstrip("0123456789") for step in result["steps"][:3]],
                         ["Prefill with an empty cache", "The cost of recomputing", "Store, reuse, append"])
        self.assertEqual(result["steps"][-1], "On this machine", "what the server does not measure is said")
        self.assertRegex(result["tiles"][3], r"(?s)Bits that differ\s+0\s")
        self.assertIn("what <b>light</b> through", result["pieces"], "a prompt is text")
        self.assertGreaterEqual(result["charts"], 6)
        self.assertEqual(result["nonsense"], [])
        self.assertTrue(result["isHidden"] and result["isBack"])
        self.assertEqual(result["error"], "stopped")
        self.assertEqual(result["complaints"], [])
        self.assertEqual(result["hosts"], [f"127.0.0.1:{self.server.port}"])

    def test_recovers_when_the_server_restarts(self):
        server = Server("demo", *FLAGS)
        try:
            with Browser("restart", server.port) as browser:
                self.assertEqual(browser.line(), {"ask": "stop"})
                server.stop()
                browser.continue_response()
                self.assertEqual(browser.line(), {"ask": "start"})
                server.__exit__()
                server = Server("demo", *FLAGS, port=server.port)
                browser.continue_response()
                result = browser.line()
        finally:
            server.__exit__()
        self.assertGreater(result["before"], 0)
        self.assertEqual(result["after"], 0, "the new server's cache is empty, and so is its map")
        self.assertIn("cannot be reached", result["error"])
        self.assertTrue(result["isGrey"] and result["isColouredAgain"])
        self.assertIn("the connection was lost", result["note"])
        self.assertGreater(len(result["answer"]["text"]), 0)
        self.assertEqual(result["complaints"], [])

    def test_shows_pages_that_come_back_from_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            with Server("demo", "--threads", 1, "--kv-memory", "8MiB", "--disk", folder, "--disk-size", "200MiB") as server:
                with Browser("disk", server.port) as browser:
                    self.assertEqual(browser.line(), {"ask": "fill"})
                    for i in range(12):  # twice the capacity of memory
                        server.complete([(i * 131 + t * 7) % 1900 + 20 for t in range(900)], max_tokens=1)
                    browser.continue_response()
                    result = browser.line()
        self.assertGreater(result["onDisk"], 100)
        self.assertGreaterEqual(result["answer"]["cached"], 64)
        self.assertRegex(result["detail"], r"Stored in\s+memory, read from a tier")
        self.assertRegex(result["kinds"], r"cached .*being written to a tier [\d.]+ [KM]iB, being read from a tier")

    def test_asks_for_a_key_where_one_is_wanted(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("open-sesame\n")
            keys.flush()
            with Server("demo", "--api-key-file", keys.name, *FLAGS) as server:
                result = seen("key", server)
        self.assertIn("rejected this key", result["refusal"])
        self.assertFalse(result["hasDialog"])
        self.assertGreater(len(result["answer"]["text"]), 0)

    def test_the_page_shows_no_values_before_the_first_request(self):
        with Server("demo", *FLAGS) as server:
            result = seen("empty", server)
        self.assertEqual(result["inked"], [False] * 5, "no numbers at an axis without values")
        self.assertIn("three times", result["promise"])

    def test_chats_survive_a_reload_until_they_are_deleted(self):
        result = seen("reload", self.server)
        self.assertIn("What is the hour?", result["before"])
        self.assertEqual(result["after"], result["before"])
        self.assertIn("Who goes there?", result["other"])
        self.assertGreater(result["again"]["cached"], 0)
        self.assertEqual(result["left"], ["What is the hour?"])
        self.assertEqual(result["complaints"], [])

    def test_chats_have_titles_and_can_be_renamed_deleted_brought_back_and_exported(self):
        result = seen("manage", self.server)
        self.assertTrue(result["isInView"], "the chat that is shown is in view in the list")
        self.assertEqual((result["title"], result["renamed"]), ("Question number 2", "My <b>chat</b>"))
        self.assertEqual((result["markdown"]["name"], result["json"]["name"]), ("my-b-chat-b.md", "my-b-chat-b.json"))
        self.assertIn("# My <b>chat</b>\n", result["markdown"]["text"])
        self.assertIn("## You\n\nQuestion number 2\nand more", result["markdown"]["text"])
        exported = json.loads(result["json"]["text"])
        self.assertEqual([m["role"] for m in exported["messages"]], ["user", "assistant"])
        self.assertEqual(exported["messages"][0]["content"], "Question number 2\nand more")
        self.assertIn("Deleted “My <b>chat</b>”", result["notice"])
        self.assertEqual(len(result["afterDelete"]), 23)
        self.assertNotIn("My <b>chat</b>", result["afterDelete"])
        self.assertEqual(result["afterUndo"].index("My <b>chat</b>"), 22, "where it was")
        self.assertEqual(result["shownAgain"], "My <b>chat</b>")
        self.assertTrue(result["isHidden"] and result["staysHidden"] and result["isSideShown"], "the dashboard can be folded")
        self.assertEqual(result["complaints"], [])

    def test_messages_can_be_copied_edited_asked_again_and_continued(self):
        result = seen("revise", self.server)
        self.assertEqual(result["copied"].split(), result["copiedFrom"].split())
        self.assertEqual(result["nAfterRegenerate"], 4)
        self.assertTrue(result["afterContinue"].startswith(result["beforeContinue"]), (result["beforeContinue"], result["afterContinue"]))
        self.assertGreater(len(result["afterContinue"]), len(result["beforeContinue"]))
        self.assertIn("24 tokens", result["continuedTokens"])
        _, second, again, more, edited = result["bodies"]
        self.assertEqual(again["messages"], second["messages"])
        self.assertTrue(more["continue_final_message"])
        self.assertEqual(more["messages"][-1]["role"], "assistant")
        self.assertEqual(result["afterEdit"], ["Who stands there?"])
        self.assertEqual([m["role"] for m in edited["messages"]], ["system", "user"])
        self.assertEqual(result["afterUndo"], ["Who goes there?", "And who are you?"])
        self.assertEqual(result["complaints"], [])

    def test_a_message_that_is_too_long_is_back_in_the_input(self):
        result = seen("refused", self.server)
        self.assertRegex(result["notice"], r"maximum context length is \d+ tokens.*your prompt has \d+ tokens.*Your message is back in the input box")
        self.assertTrue(result["isBack"])
        self.assertEqual(result["nAfter"], result["nBefore"], "neither it nor an empty answer stays in the chat")
        self.assertGreater(result["shorter"]["cached"], 0)
        self.assertIn("cannot be reached", result["error"])
        self.assertEqual(result["nErrors"], 0, "it worked at the second try")
        self.assertEqual(result["complaints"], [])

    def test_settings_are_visible_and_terms_are_explained(self):
        result = seen("terms", self.server)
        self.assertIn("“You are a pirate.”", result["settings"])
        self.assertIn("max 77 tokens", result["settings"])
        self.assertIn("Time to first token", result["explained"]["TTFT"])
        self.assertIn("Inter-token latency", result["explained"]["ITL"])
        self.assertIn("99th percentile", result["explained"]["p99"])
        self.assertIn("32 tokens", result["explained"]["KV pages"])
        self.assertNotIn("OUTSIDE", "".join(result["explained"].values()))
        self.assertEqual(result["complaints"], [])

    def test_calls_of_tools_are_folded_and_wait_for_their_results(self):
        result = seen("tools", self.server)
        self.assertIn("JSON", result["complaint"])
        self.assertTrue(result["isFolded"])
        self.assertEqual(result["asks"], "Result of read_file")
        self.assertEqual(result["nBeforeBoth"], 1, "the model waits for both")
        self.assertEqual(json.loads(result["given"]), {"path": "a.txt"})
        self.assertEqual(len(result["results"]), 2)
        first, second = result["bodies"]
        self.assertEqual(first["tools"][0]["function"]["name"], "read_file")
        output = second["messages"][-3:]
        self.assertEqual([call["function"]["arguments"] for call in output[0]["tool_calls"]],
                         ['{"path": "a.txt"}', '{"path": "b.txt"}'])
        self.assertEqual(output[0]["reasoning_content"], "Both files.")
        self.assertEqual([(m["role"], m["tool_call_id"], m["content"]) for m in output[1:]],
                         [("tool", "call-0", "one line"), ("tool", "call-1", "another line")])

    def test_the_map_is_an_operators_to_see(self):
        def first_view(server, key):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("GET", "/kvik/live", headers={"Authorization": f"Bearer {key}"})
            line = connection.getresponse().readline()
            connection.close()
            view = json.loads(line.removeprefix(b"data: "))
            return [view["pages"][i:i + 9] for i in range(0, len(view["pages"]), 9)]

        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("key-of-alice alice\nkey-of-ops ops operator\n")
            keys.flush()
            with Server("demo", "--api-key-file", keys.name, *FLAGS) as server:
                body = {"prompt": list(range(20, 120)), "max_tokens": 1, "ignore_eos": True}
                answer = server.request("POST", "/v1/completions", body, {"Authorization": "Bearer key-of-alice"})
                self.assertEqual(answer.status, 200)
                pages_of_alice, all_ = first_view(server, "key-of-alice"), first_view(server, "key-of-ops")
        self.assertEqual(pages_of_alice, [])
        of_tokens = [page for page in all_ if page[2] == 0]  # without those of the last sequence's snapshot
        self.assertEqual(len(of_tokens), 4)
        self.assertEqual(len([page for page in of_tokens if page[5] >= 0]), 3, "each but the first has a page before it")

    def test_what_a_model_writes_is_never_read_as_html(self):
        result = seen("markdown", self.server, (
            "# Title\n<img src=x onerror=window.harmed=1><script>window.harmed=1</script>\n\n"
            "[bad](javascript:window.harmed=1) [data](data:text/html,x) [good](https://example.org/a_b)\n\n"
            "- one **bold** `a<b`\n  1. inner\n\n```js\nx = \"</script>\"\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"))
        self.assertFalse(result["wasHarmed"])
        self.assertLessEqual(set(result["tags"]), set("h3 p br a ul ol li strong code pre div span button table thead tbody tr th td".split()))
        self.assertEqual(result["hrefs"], ["https://example.org/a_b"])
        self.assertIn("<img src=x onerror=window.harmed=1>", result["text"])
        for tag in ("h3", "ul", "ol", "strong", "pre", "table"):
            self.assertIn(tag, result["tags"])

    def test_formulas_and_code_are_rendered_without_html(self):
        result = seen("markdown", self.server, (
            "Then $\\frac{a}{b}$ and\n\n\\[ \\sum_{i=1}^n x_i \\]\n\n$\\href{javascript:window.harmed=1}{x}$ "
            "$\\def\\x{aa}\\x$ $" + "{" * 900 + "}" * 900 + "$ $" + "\\sqrt " * 500 + "x$\n\n"
            "```python\ndef f(x): return '<b>'\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"))
        self.assertFalse(result["wasHarmed"])
        for tag in ("math", "mfrac", "munderover"):
            self.assertIn(tag, result["tags"])
        self.assertEqual(result["hrefs"], [])
        self.assertIn("\\def\\x{aa}\\x", result["text"], "a formula that defines commands stays as it was written")
        self.assertIn("hljs-keyword", result["classes"])
        self.assertEqual(result["complaints"], [])

    def test_an_answer_nested_without_end_leaves_the_page_working(self):
        """20,000 ">" or a list nested 1,200 levels deep must not blank the page, even after a reload."""
        with Server("demo", *FLAGS) as server:
            result = seen("nested", server)
        for name, shown in result["shown"].items():
            self.assertTrue(shown["isWhole"], f"{name}: the end of the answer is not shown")
            self.assertTrue(shown["isWholeAfterReload"], f"{name}: not after a reload")
            self.assertLess(shown["ms"], 20_000, name)
        self.assertEqual(result["complaints"], [])

    def test_a_stored_chat_that_cannot_be_read_is_kept_apart(self):
        result = seen("unreadable", self.server)
        self.assertIn("2 stored chats could not be read", result["notice"])
        self.assertIn("still here", result["messages"])
        self.assertIn("2 stored chats", result["noticeAfterReload"])
        self.assertIn("king", result["saved"])
        self.assertEqual(result["nNoticesAfterDelete"], 0)
        self.assertIn("still here", result["messagesAfterDelete"])
        self.assertEqual(result["complaints"], [])

    def test_accessibility_in_light_and_dark_and_on_a_phone(self):
        result = seen("access", self.server)
        self.assertEqual(result["faults"], [])
        self.assertEqual(result["overflow"], [])


if __name__ == "__main__":
    unittest.main()
