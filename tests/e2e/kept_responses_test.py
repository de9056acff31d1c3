"""Tests responses stored on disk: their owners, the cost of a damaged or hostile file, and the time needed at exit."""
import os
import shutil
import sqlite3
import struct
import tempfile
import time
import unittest

import kvik
from server import Server

FLAGS = ("--threads", "1", "--kv-memory", "64MiB", "--disk-size", "64MiB")
PART = 512 << 10


def peak_bytes(server):
    """Returns the peak memory of the process."""
    with open(f"/proc/{server.process.pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))


def words(*texts):
    return b"".join(struct.pack("<Q", len(t)) + t for t in texts)


class KeptResponses(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.disk = os.path.join(self.folder, "tier")
        self.file = os.path.join(self.disk, "responses.sqlite")
        self.keys = os.path.join(self.folder, "keys")

    def server(self, keys=None):
        flags = (*FLAGS, "--disk", self.disk)
        if keys:
            with open(self.keys, "w") as f:
                f.write(keys)
            flags = (*flags, "--api-key-file", self.keys)
        return Server("demo", *flags)

    def ask(self, server, key=None, **fields):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = server.post("/v1/responses", {"input": "Speak, my lord.", "max_output_tokens": 5, **fields}, headers=headers)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["id"]

    def status(self, server, response, key=None, query="", method="GET"):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return server.request(method, f"/v1/responses/{response}{query}", headers=headers).status

    def continue_response(self, server, response, key=None, **fields):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return server.post("/v1/responses", {"input": "Go on.", "previous_response_id": response, "max_output_tokens": 3, **fields},
                           headers=headers).status

    def database(self):
        return sqlite3.connect(self.file)

    # --- ownership ---

    def test_a_new_first_key_of_a_name_reads_nothing_of_the_old_one(self):
        with self.server("old-key ann\n") as server:
            response = self.ask(server, "old-key")
        with self.server("new-key ann\nold-key ben\n") as server:
            for key in ("new-key", "old-key"):
                self.assertEqual(self.status(server, response, key), 404)
                self.assertEqual(self.continue_response(server, response, key), 400)
        with self.server("old-key ann\nanother-key ann\n") as server:
            for key in ("old-key", "another-key"):  # a second key of the same name belongs to the same tenant
                self.assertEqual(self.status(server, response, key), 200)

    def test_a_salt_separates_responses_like_pages(self):
        for keys, key in ((None, None), ("a-key ann\n", "a-key")):
            with self.subTest(keys=keys), self.server(keys) as server:
                response = self.ask(server, key, cache_salt="one & two")
                self.assertEqual(self.status(server, response, key), 404)
                self.assertEqual(self.status(server, response, key, "?cache_salt=two"), 404)
                self.assertEqual(self.status(server, response, key, "?x=1&cache_salt=one+%26%20two"), 200)
                self.assertEqual(self.continue_response(server, response, key), 400)
                self.assertEqual(self.continue_response(server, response, key, cache_salt="two"), 400)
                self.assertEqual(self.continue_response(server, response, key, cache_salt="one & two"), 200)
                self.assertEqual(self.status(server, response, key, method="DELETE"), 404)
                self.assertEqual(self.status(server, response, key, "?cache_salt=one+%26+two", "DELETE"), 200)

    def test_no_file_names_the_tenant(self):
        with self.server("a-secret-key a-very-private-name a-private-salt\n") as server:
            self.ask(server, "a-secret-key", cache_salt="a-salt-of-the-body")
        for name in os.listdir(self.disk):
            path = os.path.join(self.disk, name)
            if not name.startswith("responses.sqlite"):
                continue
            with open(path, "rb") as f:
                stored = f.read()
            for word in (b"a-very-private-name", b"a-private-salt", b"a-secret-key", b"a-salt-of-the-body"):
                self.assertFalse(word in stored, (word, path))

    def test_the_file_is_the_users_alone_though_it_was_not(self):
        os.makedirs(self.disk)
        with open(self.file, "w"):
            pass
        os.chmod(self.file, 0o644)
        with self.server() as server:
            response = self.ask(server)
            for name in os.listdir(self.disk):
                if name.startswith("responses.sqlite"):
                    self.assertEqual(os.stat(os.path.join(self.disk, name)).st_mode & 0o777, 0o600, name)
        with self.server() as server:
            self.assertEqual(self.status(server, response), 200)

    # --- contents of the file ---

    def test_a_record_in_which_a_byte_changed_is_left_out(self):
        with self.server() as server:
            whole, damaged = self.ask(server), self.ask(server)
        with self.database() as database:
            number = database.execute("SELECT number FROM response WHERE id = ?", (damaged.encode(),)).fetchone()[0]
            bytes_of = database.execute("SELECT bytes FROM part WHERE number = ?", (number,)).fetchone()[0]
            at = bytes_of.index(b'"id":"') + 8
            database.execute("UPDATE part SET bytes = ? WHERE number = ?", (bytes_of[:at] + b"~" + bytes_of[at + 1:], number))
        database.close()
        with self.server() as server:
            self.assertEqual(self.status(server, whole), 200)
            self.assertEqual(self.status(server, damaged), 404)

    def test_a_record_that_claims_millions_of_items_takes_no_memory(self):
        with self.server() as server:
            whole = self.ask(server)
            before = peak_bytes(server)
        n_items = 20_000_000
        record = words(b"", b"", b"{}") + struct.pack("<Q", n_items)
        record += bytes(n_items)
        with self.database() as database:
            database.execute("INSERT INTO response (number, id) VALUES (1000, ?)", (b"resp_large",))
            for place, at in enumerate(range(0, len(record), PART)):
                database.execute("INSERT INTO part (number, place, bytes) VALUES (1000, ?, ?)", (place, record[at:at + PART]))
        database.close()
        with self.server() as server:
            self.assertLess(peak_bytes(server), before + (96 << 20))
            self.assertEqual(self.status(server, whole), 200)
            self.assertEqual(self.status(server, "resp_large"), 404)

    def test_half_a_million_records_hold_up_neither_the_start_nor_the_end(self):
        n = 500_000
        with self.server() as server:
            whole = self.ask(server)
        with self.database() as database:
            database.execute("UPDATE response SET number = ?", (2 * n,))
            database.execute("UPDATE part SET number = ?", (2 * n,))
            database.executemany("INSERT INTO response (number, id) VALUES (?, ?)", ((i, b"resp_%d" % i) for i in range(2, n)))
            record = words(b"", b"", b"{}") + struct.pack("<Q", 0)
            database.executemany("INSERT INTO part (number, place, bytes) VALUES (?, 0, ?)", ((i, record) for i in range(2, n)))
        database.close()
        begin = time.monotonic()
        with self.server() as server:
            self.assertLess(time.monotonic() - begin, 15)
            self.assertEqual(self.status(server, whole), 200)
            begin = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - begin, 6)

    def test_a_file_of_other_tables_or_numbers_is_no_reason_to_end(self):
        with self.server() as server:
            self.ask(server)
        for statement in ("INSERT INTO response (number, id) VALUES (9223372036854775807, x'61')",
                          "INSERT INTO response (number, id) VALUES (-5, zeroblob(900000))",
                          "INSERT INTO part (number, place, bytes) VALUES (-5, 0, zeroblob(100000000))",
                          "CREATE TRIGGER t AFTER INSERT ON response BEGIN DELETE FROM part; END",
                          "CREATE TABLE other (x)"):
            with self.database() as database:
                database.execute(statement)
            database.close()
            with self.subTest(statement=statement), self.server() as server:
                response = self.ask(server)
                self.assertEqual(self.status(server, response), 200)
                self.assertEqual(server.stop(), 0)

    def test_kills_at_any_moment_leave_whole_records(self):
        kept = []
        for i in range(6):
            with self.server() as server:
                for response in kept[-3:]:
                    self.assertIn(self.status(server, response), (200, 404))
                for _ in range(3 + i):
                    kept.append(self.ask(server))
                server.process.kill()
                server.process.wait()
        with self.server() as server:
            self.assertNotIn("cannot be read", server.said())
            self.assertGreater(sum(self.status(server, response) == 200 for response in kept), len(kept) // 2)


if __name__ == "__main__":
    unittest.main()
