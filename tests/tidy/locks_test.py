"""Tests that guarded data is accessed only with its lock held, with clang's thread-safety analysis of the units that use locks."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import rules

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TREE = rules.Tree(ROOT)
CLANG = shutil.which("clang++-19")
ANALYSIS = ("-std=c++23", "-fsyntax-only", "-Wthread-safety", "-Wthread-safety-beta", "-Werror", f"-I{ROOT}/src", f"-I{ROOT}/include")

COUNTER = """
#include "base/mutex.h"
class Counter {
 public:
  void add() {
    %s
    ++n_;
    if (n_ > 9) reset();
  }
  void wait() {
    const kvik::MutexLock lock(mutex_);
    none_.wait(mutex_, [this]() %s { return n_ == 0; });
  }

 private:
  void reset() REQUIRES(mutex_) { n_ = 0; }
  kvik::Mutex mutex_;
  kvik::CondVar none_;
  int n_ GUARDED_BY(mutex_) = 0;
};
void use(Counter& c) { c.add(), c.wait(); }
"""
LOCK = "const kvik::MutexLock lock(mutex_);"


def complaints(path):
    done = subprocess.run([CLANG, *ANALYSIS, path], cwd=ROOT, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def units_with_locks():
    """Yields the units that name a lock, and units in the folder of a header that does, because they may define its members."""
    names = re.compile(r"\b(Mutex|MutexLock|CondVar|GUARDED_BY)\b")
    headers = {p for p in TREE.sources("src/") if p.endswith(".h") and names.search(TREE.text(p))}
    for path in TREE.sources("src/"):
        beside = {f"src/{name}" for _, name, quoted in rules.includes(TREE.text(path)) if quoted and f"src/{name}" in headers}
        is_beside = any(os.path.dirname(h) == os.path.dirname(path) for h in beside)
        if path.endswith(".cpp") and (is_beside or names.search(TREE.text(path))):
            yield path


@unittest.skipIf(CLANG is None, "clang++-19 is not installed")
class Locks(unittest.TestCase):
    def test_what_a_lock_guards_is_touched_under_it(self):
        units = list(units_with_locks())
        self.assertGreater(len(units), 10)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            self.assertEqual("".join(pool.map(complaints, units)), "")

    def test_who_forgets_the_lock_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "counter.cpp")
            for lock, condition, expected in ((LOCK, "REQUIRES(mutex_)", None), ("", "REQUIRES(mutex_)", "'n_' requires holding mutex"),
                                              ("", "REQUIRES(mutex_)", "'reset' requires holding mutex"),
                                              (LOCK + " mutex_.lock();", "REQUIRES(mutex_)", "already held"),
                                              (LOCK, "", "'n_' requires holding mutex")):
                with open(path, "w") as f:
                    f.write(COUNTER % (lock, condition))
                output = complaints(path)
                if expected:
                    self.assertIn(expected, output)
                else:
                    self.assertEqual(output, "")


if __name__ == "__main__":
    unittest.main()
