"""Runs the official clients of tests/clients against real servers; each of their tests is one test here."""
import os
import pathlib
import re
import subprocess
import unittest

import kvik

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "clients"
NODE = FOLDER / "node_modules/.bin/node"  # the clients need Node 22, Debian has 18
SUITES = sorted(path.name for path in FOLDER.glob("*.test.mjs"))
RESULT = re.compile(r"^(not )?ok \d+ - (.*?)( # SKIP.*)?$")


def run(suite):
    """Returns [(name, failure or None)] of a test file, from Node's own test runner."""
    done = subprocess.run([NODE, "--test-reporter=tap", suite], cwd=FOLDER, capture_output=True, text=True, timeout=300,
                          env=kvik.environment(KVIK_BINARY=os.path.abspath(kvik.BINARY)))
    results = []
    for line in done.stdout.splitlines():
        if found := RESULT.match(line):
            results.append([found[2], [] if found[1] else None])
        elif results and results[-1][1] is not None:
            results[-1][1].append(line)
    if done.returncode and not any(failure is not None for _, failure in results):
        results.append(["the suite ends well", [done.stdout[-3000:], done.stderr[-3000:]]])
    return results


def case(suite, name, failure):
    def test():
        if failure is not None:
            raise AssertionError("\n".join(failure))
    return unittest.FunctionTestCase(test, description=f"{suite}: {name}")


def load_tests(_loader, _tests, _pattern):
    if not NODE.exists():  # installed by tools/install_clients.sh
        return unittest.TestSuite([unittest.FunctionTestCase(unittest.skip("the clients are not installed")(lambda: None))])
    cases = [case(suite, *result) for suite in SUITES for result in run(suite)]
    return unittest.TestSuite(cases)


if __name__ == "__main__":
    unittest.main()
