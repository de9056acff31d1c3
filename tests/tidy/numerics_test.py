"""Tests the hash of the sources and flags that determine the bits: it changes with the code and with nothing else."""
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
        subprocess.run(["cmake", f"-DSOURCE_DIR={self.root}", f"-DFLAGS={flags}", f"-DCODE_TOKENS={os.environ['KVIK_BUILD']}/code_tokens",
                        f"-DOUTPUT={output}", "-P", os.path.join(ROOT, "cmake/numerics.cmake")], check=True)
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

    def hash_of(self, code):
        self.write("model/rope.cpp", code)
        return self.hash()

    def test_comments_and_whitespace_do_not(self):
        code = self.hash_of("""#include "a.h"
#ifdef A
#define F(x) (x + 1)
#endif
int f(int a) { return a / 2 + F(a); }
""")
        same = """// A file.
#include "a.h"  // why

#ifdef A /* here */
#  define F(x) \\
    (x + 1)
#endif
/* of
   two lines */ int f(
    int a)
{
\treturn a / 2  // a "quote
      + F( a );  // it's
}"""
        self.assertEqual(self.hash_of(same), code)

    def test_each_token_counts(self):
        codes = ("int a = 1 - -b;", "int a = 1 --b;", "int a = 1 - b;", "inta = 1 - b;", "int a = 1'0 - b;", "int a = '/' - b;",
                 'auto a = "// b";', 'auto a = "// c";', 'auto a = "/* b */" + c;', 'auto a = R"x(" // b)x" + d;', 'auto a = R"x(" // c)x" + d;',
                 "#define F(a) b", "#define F (a) b", "#define F(a)\nb", "int a;\n#if B\nint c;\n#endif", "int a;\n#if C\nint c;\n#endif", "int a;")
        self.assertEqual(len({self.hash_of(code) for code in codes}), len(codes))

    def test_flags_change_it(self):
        self.assertNotEqual(self.hash("-O2"), self.hash("-O2 -ffast-math"))


if __name__ == "__main__":
    unittest.main()
