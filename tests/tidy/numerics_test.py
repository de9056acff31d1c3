"""Tests the hash of the sources and flags that determine the bits: it changes with them and with nothing else."""
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Numerics(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for path in ("tensor/half.h", "backend/cpu/rows/rows.inl", "model/rope.cpp", "server/server.cpp"):
            self.write(path, path)

    def write(self, path, text):
        path = os.path.join(self.root, "src", path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)

    def hash(self, flags="-O2"):
        output = os.path.join(self.root, "numerics.cpp")
        subprocess.run(["cmake", f"-DSOURCE_DIR={self.root}", f"-DFLAGS={flags}", f"-DOUTPUT={output}", "-P",
                        os.path.join(ROOT, "cmake/numerics.cmake")], check=True)
        with open(output) as f:
            return re.search(r'"([0-9a-f]{64})"', f.read())[1]

    def test_the_same_tree_gives_the_same_hash(self):
        self.assertEqual(self.hash(), self.hash())

    def test_a_source_of_tensor_backend_or_model_changes_it(self):
        hashes = [self.hash()]
        for path in ("tensor/half.h", "backend/cpu/rows/rows.inl", "model/rope.cpp", "backend/cpu/new.h"):
            self.write(path, path + " changed")
            hashes.append(self.hash())
        self.assertEqual(len(set(hashes)), 5)

    def test_other_floors_do_not(self):
        before = self.hash()
        self.write("server/server.cpp", "changed")
        self.assertEqual(self.hash(), before)

    def test_flags_change_it(self):
        self.assertNotEqual(self.hash("-O2"), self.hash("-O2 -ffast-math"))


if __name__ == "__main__":
    unittest.main()
