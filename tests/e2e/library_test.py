"""Tests the shared library as another program sees it: its symbols, its bits, its examples, its installation."""
import array
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import kvik

BUILD = os.path.abspath(os.environ.get("KVIK_BUILD", os.path.join(kvik.ROOT, "build")))
LIBRARY = os.path.join(BUILD, "libkvik.so.0")
HEADERS = os.path.join(kvik.ROOT, "include")
EXAMPLES = os.path.join(kvik.ROOT, "docs/examples")
SYMBOLS = os.path.join(kvik.ROOT, "tests/library/symbols.txt")
STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror")


def output(*command, **options):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


class Folder(unittest.TestCase):
    def folder(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        return folder


class Symbols(unittest.TestCase):
    def test_it_exports_the_committed_symbols_and_nothing_else(self):
        """A symbol may be added to the list, never removed or changed, as long as the library is libkvik.so.0."""
        listing = output("nm", "--dynamic", "--defined-only", "--with-symbol-versions", LIBRARY)
        found = [line.split() for line in listing.splitlines()]
        functions = sorted(name for _, kind, name in found if kind != "A")  # A: the names of the versions
        self.assertEqual(functions, pathlib.Path(SYMBOLS).read_text().split())
        self.assertEqual({kind for _, kind, _ in found}, {"A", "T"})

    def test_the_header_declares_each_symbol(self):
        header = re.sub(r"/\*.*?\*/", "", pathlib.Path(HEADERS, "kvik/kvik.h").read_text(), flags=re.S)
        declared = set(re.findall(r"KVIK_API [\w *]+\b(kvik_\w+)\(", header))
        self.assertEqual(declared, {symbol.split("@")[0] for symbol in pathlib.Path(SYMBOLS).read_text().split()})

    def test_its_name_has_the_number_of_the_interface(self):
        self.assertIn("Library soname: [libkvik.so.0]", output("readelf", "-d", LIBRARY))

    def test_it_needs_no_executable_stack_and_no_relocation_of_code(self):
        self.assertNotIn("TEXTREL", output("readelf", "-d", LIBRARY))
        self.assertRegex(output("readelf", "-lW", LIBRARY), r"GNU_STACK.* RW ")


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 1020)]


class Bits(unittest.TestCase):
    @unittest.skipIf(kvik.SANITIZED, "Python has no sanitizer")
    def test_logits_are_the_bytes_of_the_program(self):
        library = ctypes.CDLL(LIBRARY)
        for isa in kvik.isas():
            for kv_type in ("f32", "int8"):
                with self.subTest(isa=isa, kv_type=kv_type):
                    tokens = kvik.random_tokens(50, 2000, 3)
                    expected = kvik.logits_text("demo", tokens, all=True, kv_type=kv_type, threads=2, env={"KVIK_ISA": isa})
                    self.assertEqual(self.logits(library, {"threads": 2, "isa": isa, "kv_type": kv_type, "kv_bytes": 64 << 20}, tokens),
                                     [array.array("f", map(float, line.split())).tobytes() for line in expected.splitlines()])

    def logits(self, library, options, tokens):
        """Returns the bytes of each row."""
        model, error = ctypes.c_void_p(), Error()
        code = library.kvik_model_open(b"demo", json.dumps(options).encode(), None, None, ctypes.byref(model), ctypes.byref(error))
        self.assertEqual((code, error.message), (0, b""))
        n_vocab = library.kvik_model_vocabulary(model)
        ids, rows = (ctypes.c_uint32 * len(tokens))(*map(int, tokens)), (ctypes.c_float * (n_vocab * len(tokens)))()
        code = library.kvik_all_logits(model, ids, ctypes.c_size_t(len(ids)), rows, ctypes.c_size_t(len(rows)), ctypes.byref(error))
        self.assertEqual((code, error.message), (0, b""))
        library.kvik_model_close(model)
        data, n_bytes = bytes(rows), 4 * n_vocab
        return [data[i:i + n_bytes] for i in range(0, len(data), n_bytes)]


@unittest.skipIf(kvik.SANITIZED, "the library then needs the sanitizer in the program")
class Examples(Folder):
    """Compiles the examples against an installed library, as their comments say."""

    @classmethod
    def setUpClass(cls):
        cls.prefix = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        for component in ("library", "development"):
            output("cmake", "--install", BUILD, "--component", component, "--prefix", cls.prefix)

    def compiled(self, compiler, *arguments):
        program = os.path.join(self.folder(), "example")
        environment = {**os.environ, "PKG_CONFIG_PATH": os.path.join(self.prefix, "lib/pkgconfig")}
        flags = output("pkg-config", "--cflags", "--libs", "kvik", env=environment).split()
        output(compiler, *STRICT, *arguments, *flags, f"-Wl,-rpath,{self.prefix}/lib", "-o", program)
        return program

    def test_the_example_in_c_streams_an_answer(self):
        program = self.compiled("gcc", "-std=c11", os.path.join(EXAMPLES, "stream.c"))
        body = {"messages": [{"role": "user", "content": "ROMEO:"}], "max_tokens": 6, "temperature": 0, "stream": True}
        done = subprocess.run([program, "demo", json.dumps(body)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertGreater(len(events), 3)
        self.assertEqual({event["object"] for event in events}, {"chat.completion.chunk"})
        self.assertRegex(done.stderr, r"^\d+ bytes loaded\n\d+ events by Kvik [\d.]+\n$")

    def test_the_example_in_c_reports_errors(self):
        program = self.compiled("gcc", "-std=c11", os.path.join(EXAMPLES, "stream.c"))
        for arguments, expected in (["/none.gguf", "{}"], "/none.gguf"), (["demo", '{"messages": 1}'], "messages"):
            done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 1)
            self.assertIn(expected, done.stderr)

    def test_the_example_in_cpp_forks_a_session(self):
        program = self.compiled("g++", "-std=c++17", os.path.join(EXAMPLES, "fork.cpp"))
        lines = output(program, "demo", "ROMEO:\nBut soft").splitlines()
        self.assertEqual([line[:3] for line in lines if re.match(r"\d: ", line)], ["1: ", "2: ", "3: "])
        self.assertIn(json.loads(lines[-1])["generated_tokens"], (47, 48))  # the last step may not have been counted yet

    def test_older_standards_read_the_headers(self):
        source = os.path.join(self.folder(), "a.c")
        pathlib.Path(source).write_text("#include <kvik/kvik.h>\nint main(void) { return kvik_version_number() == KVIK_VERSION ? 0 : 1; }\n")
        output(self.compiled("gcc", "-std=c99", source))
        source = os.path.join(self.folder(), "a.cpp")
        pathlib.Path(source).write_text("#include <kvik/kvik.hpp>\nint main() { return kvik::version().empty() ? 1 : 0; }\n")
        output(self.compiled("g++", "-std=c++17", source))

    def test_a_cmake_project_links_the_library(self):
        project = self.folder()
        pathlib.Path(project, "CMakeLists.txt").write_text(f"""\
cmake_minimum_required(VERSION 3.16)
project(other LANGUAGES C CXX)
find_package(kvik 0.1 REQUIRED)
add_executable(stream {EXAMPLES}/stream.c)
target_link_libraries(stream PRIVATE kvik::libkvik)
""")
        output("cmake", "-S", project, "-B", f"{project}/build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        output("cmake", "--build", f"{project}/build")
        self.assertIn("usage: stream", subprocess.run([f"{project}/build/stream"], capture_output=True, text=True).stderr)


if __name__ == "__main__":
    unittest.main()
