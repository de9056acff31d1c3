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

    def go_on(self):
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
        saw = seen("chat", self.server)
        self.assertGreater(len(saw["lengths"]), 3, "the answer came all at once")
        self.assertEqual(saw["lengths"], sorted(saw["lengths"]))
        first, second = saw["first"], saw["second"]
        self.assertGreater(len(first["text"]), 10)
        self.assertIn("TTFT", saw["long"]["facts"])
        self.assertIn("ITL", saw["long"]["facts"])
        n_first = first["cached"] + first["computed"]
        self.assertGreaterEqual(second["cached"], n_first - 32, "the first prompt is in the second")
        self.assertEqual(saw["complaints"], [], "nothing breaks the page's own policy")
        self.assertEqual(saw["hosts"], [f"127.0.0.1:{self.server.port}"], "no request to other hosts")

    def test_the_map_shows_what_two_chats_share(self):
        with Server("demo", *FLAGS) as server:
            saw = seen("sharing", server)
        self.assertGreater(saw["after"], saw["before"])
        self.assertGreaterEqual(saw["second"]["cached"], 64, "the system prompt")
        self.assertRegex(saw["detail"], r"Page 0\b")
        self.assertRegex(saw["detail"], r"Continued by\s+[2-9]\d* texts")
        self.assertTrue(saw["isDeselected"])
        self.assertEqual(saw["complaints"], [])

    def test_sequences_that_run_together_are_strips(self):
        saw = seen("others", self.server)
        self.assertEqual(saw["tokens"], [600] * 12)
        self.assertGreaterEqual(saw["most"]["strips"], 2, "at most seven of them are drawn")
        self.assertGreater(saw["most"]["inUse"], 12, "pages of answers, and of the prompt that they share")
        self.assertGreaterEqual(saw["most"]["shared"], 5, "the pages of the system prompt")
        self.assertRegex(saw["strip"], r"(?s)ended.*600 generated")

    def test_an_answer_can_be_stopped(self):
        saw = seen("stop", self.server)
        self.assertIn("stopped", saw["facts"])
        self.assertEqual(saw["complaints"], [])

    def test_the_view_follows_every_message_until_the_user_scrolls_up(self):
        saw = seen("follow", self.server)
        self.assertGreater(saw["height"], 500, "the chat is longer than the view")
        self.assertLess(max(saw["ends"]), 40, saw["ends"])
        self.assertTrue(saw["isRunning"], "the answer ended before the user scrolled up")
        self.assertGreater(saw["away"], 200, "the user scrolled up, and the page scrolled down")
        self.assertLess(saw["sent"], 40, "an own message is shown")
        self.assertEqual(saw["complaints"], [])

    def test_explains_itself_on_the_loaded_model(self):
        saw = seen("explain", self.server)
        self.assertEqual([step.lstrip("0123456789") for step in saw["steps"][:3]],
                         ["Prefill with an empty cache", "The cost of recomputing", "Store, reuse, append"])
        self.assertEqual(saw["steps"][-1], "On this machine", "what the server does not measure is said")
        self.assertRegex(saw["tiles"][3], r"(?s)Bits that differ\s+0\s")
        self.assertIn("what <b>light</b> through", saw["pieces"], "a prompt is text")
        self.assertGreaterEqual(saw["charts"], 6)
        self.assertEqual(saw["nonsense"], [])
        self.assertTrue(saw["isHidden"] and saw["isBack"])
        self.assertEqual(saw["error"], "stopped")
        self.assertEqual(saw["complaints"], [])
        self.assertEqual(saw["hosts"], [f"127.0.0.1:{self.server.port}"])

    def test_recovers_when_the_server_restarts(self):
        server = Server("demo", *FLAGS)
        try:
            with Browser("restart", server.port) as browser:
                self.assertEqual(browser.line(), {"ask": "stop"})
                server.stop()
                browser.go_on()
                self.assertEqual(browser.line(), {"ask": "start"})
                server.__exit__()
                server = Server("demo", *FLAGS, port=server.port)
                browser.go_on()
                saw = browser.line()
        finally:
            server.__exit__()
        self.assertGreater(saw["before"], 0)
        self.assertEqual(saw["after"], 0, "the new server's cache is empty, and so is its map")
        self.assertIn("cannot be reached", saw["error"])
        self.assertTrue(saw["isGrey"] and saw["isColouredAgain"])
        self.assertIn("the connection was lost", saw["note"])
        self.assertGreater(len(saw["answer"]["text"]), 0)
        self.assertEqual(saw["complaints"], [])

    def test_shows_pages_that_come_back_from_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            with Server("demo", "--threads", 1, "--kv-memory", "8MiB", "--disk", folder, "--disk-size", "200MiB") as server:
                with Browser("disk", server.port) as browser:
                    self.assertEqual(browser.line(), {"ask": "fill"})
                    for i in range(12):  # twice the capacity of memory
                        server.complete([(i * 131 + t * 7) % 1900 + 20 for t in range(900)], max_tokens=1)
                    browser.go_on()
                    saw = browser.line()
        self.assertGreater(saw["onDisk"], 100)
        self.assertGreaterEqual(saw["answer"]["cached"], 64)
        self.assertRegex(saw["detail"], r"Stored in\s+memory, read from a tier")
        self.assertRegex(saw["kinds"], r"cached .*being written to a tier [\d.]+ [KM]iB, being read from a tier")

    def test_asks_for_a_key_where_one_is_wanted(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("open-sesame\n")
            keys.flush()
            with Server("demo", "--api-key-file", keys.name, *FLAGS) as server:
                saw = seen("key", server)
        self.assertIn("rejected this key", saw["refusal"])
        self.assertFalse(saw["hasDialog"])
        self.assertGreater(len(saw["answer"]["text"]), 0)

    def test_the_page_shows_no_values_before_the_first_request(self):
        with Server("demo", *FLAGS) as server:
            saw = seen("empty", server)
        self.assertEqual(saw["inked"], [False] * 5, "no numbers at an axis without values")
        self.assertIn("three times", saw["promise"])

    def test_chats_survive_a_reload_until_they_are_deleted(self):
        saw = seen("reload", self.server)
        self.assertIn("What is the hour?", saw["before"])
        self.assertEqual(saw["after"], saw["before"])
        self.assertIn("Who goes there?", saw["other"])
        self.assertGreater(saw["again"]["cached"], 0)
        self.assertEqual(saw["left"], ["What is the hour?"])
        self.assertEqual(saw["complaints"], [])

    def test_chats_have_titles_and_can_be_renamed_deleted_brought_back_and_exported(self):
        saw = seen("manage", self.server)
        self.assertTrue(saw["isInView"], "the chat that is shown is in view in the list")
        self.assertEqual((saw["title"], saw["renamed"]), ("Question number 2", "My <b>chat</b>"))
        self.assertEqual((saw["markdown"]["name"], saw["json"]["name"]), ("my-b-chat-b.md", "my-b-chat-b.json"))
        self.assertIn("# My <b>chat</b>\n", saw["markdown"]["text"])
        self.assertIn("## You\n\nQuestion number 2\nand more", saw["markdown"]["text"])
        exported = json.loads(saw["json"]["text"])
        self.assertEqual([m["role"] for m in exported["messages"]], ["user", "assistant"])
        self.assertEqual(exported["messages"][0]["content"], "Question number 2\nand more")
        self.assertIn("Deleted “My <b>chat</b>”", saw["notice"])
        self.assertEqual(len(saw["afterDelete"]), 23)
        self.assertNotIn("My <b>chat</b>", saw["afterDelete"])
        self.assertEqual(saw["afterUndo"].index("My <b>chat</b>"), 22, "where it was")
        self.assertEqual(saw["shownAgain"], "My <b>chat</b>")
        self.assertTrue(saw["isHidden"] and saw["staysHidden"] and saw["isSideShown"], "the dashboard can be folded")
        self.assertEqual(saw["complaints"], [])

    def test_messages_can_be_copied_edited_asked_again_and_continued(self):
        saw = seen("revise", self.server)
        self.assertEqual(saw["copied"].split(), saw["copiedFrom"].split())
        self.assertEqual(saw["nAfterRegenerate"], 4)
        self.assertTrue(saw["afterContinue"].startswith(saw["beforeContinue"]), (saw["beforeContinue"], saw["afterContinue"]))
        self.assertGreater(len(saw["afterContinue"]), len(saw["beforeContinue"]))
        self.assertIn("24 tokens", saw["continuedTokens"])
        _, second, again, more, edited = saw["bodies"]
        self.assertEqual(again["messages"], second["messages"])
        self.assertTrue(more["continue_final_message"])
        self.assertEqual(more["messages"][-1]["role"], "assistant")
        self.assertEqual(saw["afterEdit"], ["Who stands there?"])
        self.assertEqual([m["role"] for m in edited["messages"]], ["system", "user"])
        self.assertEqual(saw["afterUndo"], ["Who goes there?", "And who are you?"])
        self.assertEqual(saw["complaints"], [])

    def test_a_message_that_is_too_long_is_back_in_the_input(self):
        saw = seen("refused", self.server)
        self.assertRegex(saw["notice"], r"maximum context length is \d+ tokens.*your prompt has \d+ tokens.*Your message is back in the input box")
        self.assertTrue(saw["isBack"])
        self.assertEqual(saw["nAfter"], saw["nBefore"], "neither it nor an empty answer stays in the chat")
        self.assertGreater(saw["shorter"]["cached"], 0)
        self.assertIn("cannot be reached", saw["error"])
        self.assertEqual(saw["nErrors"], 0, "it worked at the second try")
        self.assertEqual(saw["complaints"], [])

    def test_settings_are_visible_and_terms_are_explained(self):
        saw = seen("terms", self.server)
        self.assertIn("“You are a pirate.”", saw["settings"])
        self.assertIn("max 77 tokens", saw["settings"])
        self.assertIn("Time to first token", saw["explained"]["TTFT"])
        self.assertIn("Inter-token latency", saw["explained"]["ITL"])
        self.assertIn("99th percentile", saw["explained"]["p99"])
        self.assertIn("32 tokens", saw["explained"]["KV pages"])
        self.assertNotIn("OUTSIDE", "".join(saw["explained"].values()))
        self.assertEqual(saw["complaints"], [])

    def test_calls_of_tools_are_folded_and_wait_for_their_results(self):
        saw = seen("tools", self.server)
        self.assertIn("JSON", saw["complaint"])
        self.assertTrue(saw["isFolded"])
        self.assertEqual(saw["asks"], "Result of read_file")
        self.assertEqual(saw["nBeforeBoth"], 1, "the model waits for both")
        self.assertEqual(json.loads(saw["given"]), {"path": "a.txt"})
        self.assertEqual(len(saw["results"]), 2)
        first, second = saw["bodies"]
        self.assertEqual(first["tools"][0]["function"]["name"], "read_file")
        said = second["messages"][-3:]
        self.assertEqual([call["function"]["arguments"] for call in said[0]["tool_calls"]],
                         ['{"path": "a.txt"}', '{"path": "b.txt"}'])
        self.assertEqual(said[0]["reasoning_content"], "Both files.")
        self.assertEqual([(m["role"], m["tool_call_id"], m["content"]) for m in said[1:]],
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
                alices, all_ = first_view(server, "key-of-alice"), first_view(server, "key-of-ops")
        self.assertEqual(alices, [])
        of_tokens = [page for page in all_ if page[2] == 0]  # without those of the last sequence's snapshot
        self.assertEqual(len(of_tokens), 4)
        self.assertEqual(len([page for page in of_tokens if page[5] >= 0]), 3, "each but the first has a page before it")

    def test_what_a_model_writes_is_never_read_as_html(self):
        saw = seen("markdown", self.server, (
            "# Title\n<img src=x onerror=window.harmed=1><script>window.harmed=1</script>\n\n"
            "[bad](javascript:window.harmed=1) [data](data:text/html,x) [good](https://example.org/a_b)\n\n"
            "- one **bold** `a<b`\n  1. inner\n\n```js\nx = \"</script>\"\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"))
        self.assertFalse(saw["wasHarmed"])
        self.assertLessEqual(set(saw["tags"]), set("h3 p br a ul ol li strong code pre div span button table thead tbody tr th td".split()))
        self.assertEqual(saw["hrefs"], ["https://example.org/a_b"])
        self.assertIn("<img src=x onerror=window.harmed=1>", saw["text"])
        for tag in ("h3", "ul", "ol", "strong", "pre", "table"):
            self.assertIn(tag, saw["tags"])

    def test_formulas_and_code_are_rendered_without_html(self):
        saw = seen("markdown", self.server, (
            "So $\\frac{a}{b}$ and\n\n\\[ \\sum_{i=1}^n x_i \\]\n\n$\\href{javascript:window.harmed=1}{x}$ "
            "$\\def\\x{aa}\\x$ $" + "{" * 900 + "}" * 900 + "$ $" + "\\sqrt " * 500 + "x$\n\n"
            "```python\ndef f(x): return '<b>'\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"))
        self.assertFalse(saw["wasHarmed"])
        for tag in ("math", "mfrac", "munderover"):
            self.assertIn(tag, saw["tags"])
        self.assertEqual(saw["hrefs"], [])
        self.assertIn("\\def\\x{aa}\\x", saw["text"], "a formula that defines commands stays as it was written")
        self.assertIn("hljs-keyword", saw["classes"])
        self.assertEqual(saw["complaints"], [])

    def test_an_answer_nested_without_end_leaves_the_page_working(self):
        """20,000 ">" or a list nested 1,200 levels deep must not blank the page, even after a reload."""
        with Server("demo", *FLAGS) as server:
            saw = seen("nested", server)
        for name, shown in saw["shown"].items():
            self.assertTrue(shown["isWhole"], f"{name}: the end of the answer is not shown")
            self.assertTrue(shown["isWholeAfterReload"], f"{name}: not after a reload")
            self.assertLess(shown["ms"], 20_000, name)
        self.assertEqual(saw["complaints"], [])

    def test_a_stored_chat_that_cannot_be_read_is_kept_apart(self):
        saw = seen("unreadable", self.server)
        self.assertIn("2 stored chats could not be read", saw["notice"])
        self.assertIn("still here", saw["messages"])
        self.assertIn("2 stored chats", saw["noticeAfterReload"])
        self.assertIn("king", saw["saved"])
        self.assertEqual(saw["nNoticesAfterDelete"], 0)
        self.assertIn("still here", saw["messagesAfterDelete"])
        self.assertEqual(saw["complaints"], [])

    def test_accessibility_in_light_and_dark_and_on_a_phone(self):
        saw = seen("access", self.server)
        self.assertEqual(saw["faults"], [])
        self.assertEqual(saw["overflow"], [])


if __name__ == "__main__":
    unittest.main()
