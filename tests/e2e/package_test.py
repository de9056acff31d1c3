"""Tests what tools/package.sh makes: the portable program, man pages, completions, the wheel, the npm package, install.sh.

tests/e2e/installation_test.py installs the packages in folders of other distributions.
"""
import functools
import glob
import gzip
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

import kvik
import packages
from server import Server

BUILD = os.environ.get("KVIK_BUILD", os.path.join(kvik.ROOT, "build"))
PORTABLE = os.path.join(BUILD, "portable/kvik")
DOCUMENTS = os.path.join(BUILD, "documents")
VERSION = re.search(r"project\(kvik VERSION ([\d.]+)", pathlib.Path(kvik.ROOT, "CMakeLists.txt").read_text())[1]
GLIBC = (2, 31)
GLIBC_LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
RUN = ("run", "demo", "-p", "ROMEO:", "--max-tokens", "10", "--temperature", "0")


@functools.cache
def build():
    """Builds the portable program and the documents, which the target `all` leaves out."""
    if kvik.SANITIZED:
        raise unittest.SkipTest("packages are made of release builds")
    done = subprocess.run(["cmake", "--build", BUILD, "--target", "kvik_portable", "kvik_portable_shared", "kvik_shared", "kvik_documents"], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stdout[-3000:] + done.stderr[-3000:])


def output(*command, **options):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, env=kvik.environment(), **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def make(tool, folder):
    """Runs one of tools/make that takes the program, the version, a folder and the documents."""
    output("/usr/bin/python3", "-B", os.path.join(kvik.ROOT, "tools/make", tool), PORTABLE, VERSION, folder, DOCUMENTS)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build()

    def folder(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        return folder


class PortableProgram(Package):
    def test_it_needs_only_glibc_2_31(self):
        symbols = output("readelf", "-W", "--dyn-syms", PORTABLE)
        versions = {tuple(map(int, v.split("."))) for v in re.findall(r"@GLIBC_([\d.]+)", symbols)}
        self.assertGreater(len(versions), 5)
        self.assertLessEqual(max(versions), GLIBC)
        self.assertEqual(re.findall(r"@(?!GLIBC_)\S+", symbols), [], "symbols of libraries that are not glibc's")
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", PORTABLE)))
        self.assertIn("libpthread.so.0", needed)  # until glibc 2.33 it has the threads
        self.assertLessEqual(needed, GLIBC_LIBRARIES)
        self.assertNotIn("RUNPATH", output("readelf", "-d", PORTABLE))

    def test_the_library_needs_only_glibc_2_31(self):
        library = os.path.join(BUILD, "portable/libkvik.so.0")
        symbols = output("readelf", "-W", "--dyn-syms", library)
        versions = {tuple(map(int, v.split("."))) for v in re.findall(r"@GLIBC_([\d.]+)", symbols)}
        self.assertLessEqual(max(versions), GLIBC)
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library)))
        self.assertLessEqual(needed, GLIBC_LIBRARIES)
        exported = output("nm", "--dynamic", "--defined-only", "--with-symbol-versions", library)
        functions = sorted(line.split()[2] for line in exported.splitlines() if line.split()[1] != "A")
        self.assertEqual(functions, pathlib.Path(kvik.ROOT, "tests/library/symbols.txt").read_text().split())

    def test_it_computes_the_bits_of_the_program(self):
        tokens = ",".join(str(t) for t in kvik.random_tokens(100, 2000, 1))
        for isa in kvik.isas():
            for kv_type in ("f32", "int8"):
                with self.subTest(isa=isa, kv_type=kv_type):
                    args = ("logits", "demo", "--tokens", tokens, "--isa", isa, "--kv-type", kv_type)
                    self.assertEqual(output(PORTABLE, *args), output(kvik.BINARY, *args))

    @unittest.skipUnless(kvik.LONG, "--long: all of bits_test")
    def test_it_computes_the_recorded_bits(self):
        environment = {**os.environ, "KVIK_BINARY": PORTABLE}
        done = subprocess.run(["/usr/bin/python3", os.path.join(kvik.ROOT, "tests/e2e/bits_test.py")], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])

    def test_its_part_of_icu_data_gives_the_properties_of_all(self):
        folder, archives = self.folder(), re.findall(r"^(?:KVIK_STATIC_icuuc|KVIK_ICU_DATA):\w+=(.*)$", pathlib.Path(BUILD, "CMakeCache.txt").read_text(), re.M)
        whole, icu = sorted(archives)  # libicudata.a, libicuuc.a
        compiled = os.path.join(folder, "properties.o")
        output("g++", "-std=c++20", "-O1", "-c", os.path.join(kvik.ROOT, "tests/support/icu_properties.cpp"), "-o", compiled)
        printed = {}
        for data in (whole, os.path.join(BUILD, "icu_data.S")):
            program = os.path.join(folder, "properties")
            output("g++", compiled, icu, data, "-o", program)
            printed[data] = output(program).splitlines()
        self.assertGreater(len(printed[whole]), 1000)
        self.assertEqual(*printed.values())

    def test_exceptions_of_libraries_are_caught(self):
        done = subprocess.run([PORTABLE, "serve", "demo", "--ctx", "many"], capture_output=True, text=True, env=kvik.environment())
        self.assertEqual(done.returncode, 2)
        self.assertIn("many", done.stderr)

    def test_it_serves_with_the_static_libraries(self):
        folder = self.folder()
        key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost"],
                       check=True, capture_output=True)
        from unittest import mock
        import program
        with mock.patch.object(program, "BINARY", PORTABLE):
            with Server("demo", "--threads", 1, "--kv-memory", "64MiB", "--disk", os.path.join(folder, "pages"), "--disk-size", "64MiB") as server:
                self.assertTrue(server.text("ROMEO:"))
                schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^\\p{Lu}{3}$"}}, "required": ["a"]}
                self.assertRegex(server.text("ROMEO:", json_schema=schema, max_tokens=40), r'"a": ?"[^"]{3}"')  # ICU's properties of characters
            done = subprocess.run([PORTABLE, "serve", "demo", "--port", "0", "--tls-cert", certificate, "--tls-key", key, "--chat-template", "/nonexistent"],
                                  capture_output=True, text=True, env=kvik.environment())
            self.assertIn("/nonexistent", done.stderr)  # the certificate was read


class Documents(Package):
    def commands(self):
        return {line.split()[0] for line in output(kvik.BINARY, "--help").split("Subcommands:\n")[1].split("\n\n")[0].splitlines()}

    def text(self, page):
        with gzip.open(os.path.join(DOCUMENTS, "man", page + ".1.gz"), "rt") as f:
            return f.read()

    def test_each_command_has_a_man_page_with_its_flags(self):
        self.assertLessEqual({f"kvik-{name}.1.gz" for name in self.commands()} | {"kvik.1.gz"}, set(os.listdir(os.path.join(DOCUMENTS, "man"))))
        for command in (("serve",), ("run",), ("adapter", "merge")):
            text = self.text("-".join(("kvik", *command)))
            flags = set(re.findall(r"--[a-z][a-z-]+", output(kvik.BINARY, *command, "--help").split("Examples:")[0]))
            self.assertLess(3, len(flags))
            for flag in flags:
                self.assertIn(flag.replace("-", "\\-"), text)

    def test_man_formats_the_pages_without_warnings(self):
        if not shutil.which("man"):
            self.skipTest("man is not installed")
        for name in sorted(os.listdir(os.path.join(DOCUMENTS, "man"))):
            done = subprocess.run(["man", "--warnings", "-l", os.path.join(DOCUMENTS, "man", name)], capture_output=True, text=True,
                                  env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertIn("SYNOPSIS", done.stdout)

    def test_bash_completes_commands_flags_and_values(self):
        def complete(*words):
            script = ('source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _kvik; printf "%s\\n" "${COMPREPLY[@]}"')
            return set(output("bash", "-c", script, os.path.join(DOCUMENTS, "completions/kvik"), *words, cwd=self.folder()).split())
        self.assertEqual(complete("kvik", ""), self.commands())
        self.assertEqual(complete("kvik", "ser"), {"serve"})
        self.assertEqual(complete("kvik", "cache", ""), {"stat", "verify", "gc", "clear", "export", "import", "warm"})
        self.assertEqual(complete("kvik", "serve", "--kv-m"), {"--kv-memory"})
        self.assertEqual(complete("kvik", "serve", "--share", ""), {"two", "all", "key"})
        self.assertEqual(complete("kvik", "adapter", "merge", "--pu"), {"--pure"})
        self.assertEqual(complete("kvik", "serve", "de"), {"demo"})
        self.assertEqual(complete("kvik", "serve", "--port", ""), set())

    def test_zsh_reads_the_completions(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        script = f"fpath=({DOCUMENTS}/completions $fpath); autoload -Uz compinit; compinit -u -d {self.folder()}/dump; autoload +X _kvik && print $_comps[kvik]"
        self.assertEqual(output("zsh", "-f", "-c", script).strip(), "_kvik")
        output("zsh", "-n", os.path.join(DOCUMENTS, "completions/_kvik"))

    def test_fish_completes_commands_and_flags(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")

        def complete(line):
            script = f"source {DOCUMENTS}/completions/kvik.fish; complete -C '{line}'"
            return {found.split("\t")[0] for found in output("fish", "--no-config", "-c", script, cwd=self.folder()).splitlines()}
        self.assertLessEqual(self.commands(), complete("kvik "))
        self.assertEqual(complete("kvik serve --kv-m"), {"--kv-memory"})
        self.assertEqual(complete("kvik serve --share "), {"two", "all", "key"})

    def test_the_notices_of_all_libraries_are_there(self):
        names = set(os.listdir(os.path.join(DOCUMENTS, "licenses")))
        with open(os.path.join(kvik.ROOT, "cmake/portable.cmake")) as f:
            linked = re.search(r"foreach\(library (.*?)\)", f.read())[1].split()
        notice_of = {"tinfo": "ncurses", "crypto": "ssl", "icuuc": "icu", "boost_json": "boost-json", "pcre2-8": "pcre2"}
        for library in [*linked, "stdc++", "fmt", "spdlog", "cli11"]:
            self.assertIn(f"lib{notice_of.get(library, library)}.txt", names)


class Components(Package):
    def installed(self, component):
        folder = self.folder()
        subprocess.run(["cmake", "--install", BUILD, "--component", component, "--prefix", "/usr"], env={**os.environ, "DESTDIR": folder}, check=True,
                       capture_output=True)
        return folder, {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}

    def test_each_component_installs_its_files(self):
        folder, files = self.installed("program")
        self.assertLessEqual({"usr/bin/kvik", "usr/share/man/man1/kvik-serve.1.gz", "usr/share/bash-completion/completions/kvik",
                              "usr/share/zsh/vendor-completions/_kvik", "usr/share/fish/vendor_completions.d/kvik.fish",
                              "usr/share/doc/kvik/licenses/libicu.txt"}, files)
        self.assertEqual(output(os.path.join(folder, "usr/bin/kvik"), *RUN), output(kvik.BINARY, *RUN))
        self.assertEqual(self.installed("service")[1], {"usr/lib/systemd/system/kvik.service", "usr/lib/systemd/system/kvik.socket", "etc/kvik/kvik.toml",
                                                       "usr/share/doc/kvik/copyright"})
        self.assertEqual(self.installed("monitoring")[1], {"usr/share/kvik/kvik.json", "usr/share/kvik/alerts.yaml"})
        self.assertEqual(self.installed("library")[1], {"usr/lib/libkvik.so.0", f"usr/lib/libkvik.so.{VERSION}"})
        self.assertEqual(self.installed("development")[1],
                         {"usr/lib/cmake/kvik/kvik-config.cmake", "usr/lib/cmake/kvik/kvik-config-version.cmake", "usr/lib/libkvik.so",
                          "usr/lib/pkgconfig/kvik.pc", "usr/include/kvik/kvik.h", "usr/include/kvik/kvik.hpp"})

    def test_the_guide_names_the_components(self):
        files = pathlib.Path(BUILD).rglob("cmake_install.cmake")
        existing = {name for file in files for name in re.findall(r'CMAKE_INSTALL_COMPONENT STREQUAL "(\w+)"', file.read_text())}
        line = re.search(r"--component (\w+) *# also: (.*)", pathlib.Path(kvik.ROOT, "docs/guides/install.md").read_text())
        self.assertEqual({line[1], *line[2].split(", ")}, existing)


class FindPackage(Package):
    """A project of five lines that runs the installed program."""

    def prefix(self, *components):
        folder = self.folder()
        for component in components:
            output("cmake", "--install", BUILD, "--component", component, "--prefix", folder)
        return folder

    def configure(self, prefix, version):
        self.project = self.folder()
        pathlib.Path(self.project, "CMakeLists.txt").write_text(f"""\
cmake_minimum_required(VERSION 3.16)
project(other LANGUAGES NONE)
find_package(kvik {version} REQUIRED)
add_custom_command(OUTPUT version.txt COMMAND $<TARGET_FILE:kvik::kvik> --version > version.txt)
add_custom_target(version ALL DEPENDS version.txt)
""")
        return subprocess.run(["cmake", "-S", self.project, "-B", os.path.join(self.project, "build"), f"-DCMAKE_PREFIX_PATH={prefix}"],
                              capture_output=True, text=True, timeout=300)

    def test_a_project_runs_the_program(self):
        moved = os.path.join(self.folder(), "moved")
        shutil.copytree(self.prefix("program", "library", "development"), moved)
        done = self.configure(moved, ".".join(VERSION.split(".")[:2]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{moved}/lib/cmake/kvik", pathlib.Path(self.project, "build/CMakeCache.txt").read_text())
        output("cmake", "--build", os.path.join(self.project, "build"))
        self.assertTrue(pathlib.Path(self.project, "build/version.txt").read_text().startswith(f"kvik {VERSION}"))

    def test_another_version_is_refused(self):
        prefix = self.prefix("program", "development")
        major, minor, patch = map(int, VERSION.split("."))
        for other in (f"{major}.{minor + 1}", f"{major + 1}.0", f"{major}.{minor}.{patch + 1}"):
            done = self.configure(prefix, other)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"version: {VERSION}", done.stderr)

    def test_a_missing_program_is_reported(self):
        done = self.configure(self.prefix("development"), VERSION)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("install Kvik's component 'program'", " ".join(done.stderr.split()))


class Registries(Package):
    def test_pip_installs_the_wheel(self):
        folder = self.folder()
        make("wheel.py", folder)
        wheel = os.path.join(folder, f"kvik-{VERSION}-py3-none-manylinux_2_31_x86_64.whl")
        output(sys.executable, "-m", "venv", "--without-pip", os.path.join(folder, "venv"))
        output("/usr/bin/python3", "-m", "pip", "--python", os.path.join(folder, "venv"), "install", "--no-index", "--find-links", folder, "kvik",
               "--disable-pip-version-check")
        program = os.path.join(folder, "venv/bin/kvik")
        self.assertEqual(output(program, *RUN), output(kvik.BINARY, *RUN))
        self.assertIn("kvik " + VERSION, output(program, "--version"))
        for path in ("man/man1/kvik-serve.1.gz", "bash-completion/completions/kvik", "fish/vendor_completions.d/kvik.fish"):
            self.assertTrue(os.path.exists(os.path.join(folder, "venv/share", path)), path)
        code = "import kvik; llm = kvik.LLM('demo', ctx=512); print(llm.generate('ROMEO:', max_tokens=10, temperature=0)); print(kvik.__version__)"
        answer = output(os.path.join(folder, "venv/bin/python"), "-I", "-c", code, cwd=folder)  # of an environment without any other package
        self.assertEqual(answer, output(kvik.BINARY, *RUN).rstrip("\n").removeprefix("ROMEO:") + f"\n{VERSION}\n")
        first = contents(wheel)
        make("wheel.py", folder)
        self.assertTrue(contents(wheel) == first, "the same program makes the same wheel")
        output("/usr/bin/python3", "-m", "pip", "--python", os.path.join(folder, "venv"), "uninstall", "-y", "kvik")
        self.assertFalse(os.path.exists(program))

    def test_tools_for_wheels_find_no_fault(self):
        tools = os.path.dirname(packages.python("twine", "auditwheel"))
        folder = self.folder()
        make("wheel.py", folder)
        wheel = os.path.join(folder, f"kvik-{VERSION}-py3-none-manylinux_2_31_x86_64.whl")
        self.assertIn("PASSED", output(f"{tools}/twine", "check", "--strict", wheel))
        shown = " ".join(output(f"{tools}/python", "-m", "auditwheel", "show", wheel).split())
        lowest = re.search(r'platform tag: "manylinux_2_(\d+)_x86_64"', shown)
        self.assertLessEqual(int(lowest[1]), GLIBC[1], shown)

    def test_every_python_here_imports_the_wheel(self):
        folder = self.folder()
        make("wheel.py", folder)
        with zipfile.ZipFile(os.path.join(folder, f"kvik-{VERSION}-py3-none-manylinux_2_31_x86_64.whl")) as wheel:
            wheel.extractall(folder)
        code = "import sys, kvik; llm = kvik.LLM('demo', ctx=512); print(sys.version_info[1], llm.generate('ROMEO:', max_tokens=10, temperature=0))"
        pythons = {path for minor in range(8, 16) for path in (shutil.which(f"python3.{minor}"), *glob.glob(os.path.expanduser(
            f"~/.pyenv/versions/3.{minor}.*/bin/python3"))) if path and "shims" not in path}
        self.assertGreaterEqual(len(pythons), 1)
        found = [output(python, "-c", code, cwd=folder).split(" ", 1) for python in sorted(pythons)]
        self.assertEqual({answer for _, answer in found}, {output(kvik.BINARY, *RUN).removeprefix("ROMEO:")})
        print(f"Python 3.{', 3.'.join(sorted({minor for minor, _ in found}, key=int))}", end=" ", file=sys.stderr)

    @unittest.skipUnless(kvik.LONG, "--long: installs pipx and uv")
    def test_pipx_and_uvx_run_the_wheel(self):
        folder = self.folder()
        make("wheel.py", folder)
        tools = os.path.join(folder, "tools")
        output("/usr/bin/python3", "-m", "venv", "--without-pip", tools)
        output("/usr/bin/python3", "-m", "pip", "--python", tools, "install", "--quiet", "--disable-pip-version-check", "pipx", "uv")
        variables = {**kvik.environment(), "PIPX_HOME": f"{folder}/pipx", "PIPX_BIN_DIR": f"{folder}/bin", "UV_CACHE_DIR": f"{folder}/uv",
                     "PIPX_DEFAULT_PYTHON": "/usr/bin/python3"}
        wheel = os.path.join(folder, f"kvik-{VERSION}-py3-none-manylinux_2_31_x86_64.whl")
        for command in ([f"{tools}/bin/uv", "tool", "run", "--no-index", "--from", wheel, "kvik", *RUN],
                        [f"{tools}/bin/pipx", "install", "--pip-args=--no-index", wheel], [f"{folder}/bin/kvik", *RUN]):
            done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            if "run" in command[-len(RUN):]:
                self.assertEqual(done.stdout, output(kvik.BINARY, *RUN))

    def test_npm_and_npx_run_the_package(self):
        if not shutil.which("npm"):
            self.skipTest("npm is not installed")
        folder = self.folder()
        make("npm_package.py", folder)
        package = os.path.join(folder, f"kvik-{VERSION}.tgz")
        offline = ("--offline", "--no-audit", "--no-fund", "--cache", os.path.join(folder, "cache"))
        output("npm", "install", "--global", "--prefix", os.path.join(folder, "global"), *offline, package)
        self.assertEqual(output(os.path.join(folder, "global/bin/kvik"), *RUN), output(kvik.BINARY, *RUN))
        self.assertTrue(os.path.exists(os.path.join(folder, "global/share/man/man1/kvik-serve.1.gz")))
        npx = ("npx", "--yes", "--offline", "--cache", os.path.join(folder, "cache"))
        self.assertEqual(output(*npx, f"./kvik-{VERSION}.tgz", *RUN, cwd=folder), output(kvik.BINARY, *RUN))
        output("npm", "install", *offline, "--prefix", folder, package)
        self.assertEqual(output("npx", "--no-install", "kvik", *RUN, cwd=folder), output(kvik.BINARY, *RUN))


class Releases(http.server.ThreadingHTTPServer):
    """Serves files: {path: bytes}."""

    def __init__(self):
        self.files = {}
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        content = self.server.files.get(self.path)
        self.send_response(200 if content is not None else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_):
        pass


class InstallScript(Package):
    def setUp(self):
        if not shutil.which("curl") and not shutil.which("wget"):
            self.skipTest("neither curl nor wget is installed")
        self.releases = Releases()
        self.addCleanup(self.releases.server_close)
        self.addCleanup(self.releases.shutdown)
        self.home = self.folder()
        self.name = f"kvik-{VERSION}-linux-x86_64.tar.gz"
        self.release()

    def release(self, **more):
        """Puts a release on the server. more: further files of the tarball, by their names in share/doc/kvik."""
        tarball = self.tarball(more)
        self.releases.files = {
            "/latest": VERSION.encode() + b"\n",
            f"/{VERSION}/{self.name}": tarball,
            f"/{VERSION}/kvik-{VERSION}.sha256": f"{hashlib.sha256(tarball).hexdigest()}  {self.name}\n".encode(),
        }

    def tarball(self, more):
        """A small release: the real program, with the layout of the tarball."""
        folder = self.folder()
        top = os.path.join(folder, f"kvik-{VERSION}-linux-x86_64")
        for path, source in (("bin/kvik", PORTABLE), ("share/man/man1/kvik.1.gz", os.path.join(DOCUMENTS, "man/kvik.1.gz")),
                             ("share/doc/kvik/LICENSE", os.path.join(kvik.ROOT, "LICENSE"))):
            os.makedirs(os.path.dirname(os.path.join(top, path)), exist_ok=True)
            shutil.copy(source, os.path.join(top, path))
        for name, text in more.items():
            pathlib.Path(top, "share/doc/kvik", name).write_text(text)
        subprocess.run(["tar", "-C", folder, "--use-compress-program=gzip -1", "-cf", folder + ".tgz", os.path.basename(top)], check=True)
        content = contents(folder + ".tgz")
        os.remove(folder + ".tgz")
        return content

    def install(self, *args, **variables):
        environment = {"HOME": self.home, "PATH": os.environ["PATH"], "KVIK_BASE_URL": self.releases.address, **variables}
        return subprocess.run(["sh", os.path.join(kvik.ROOT, "deploy/install.sh"), *args], env=environment, capture_output=True, text=True, timeout=120)

    def installed(self):
        return sorted(os.path.relpath(os.path.join(folder, name), self.home) for folder, _, names in os.walk(self.home) for name in names)

    def test_it_installs_updates_and_removes(self):
        for _ in range(2):  # the second replaces the first
            done = self.install()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("export PATH=", done.stdout)
        self.assertEqual(self.installed(), [".local/bin/kvik", ".local/share/doc/kvik/LICENSE", ".local/share/kvik/installed-files",
                                            ".local/share/man/man1/kvik.1.gz"])
        self.assertEqual(output(os.path.join(self.home, ".local/bin/kvik"), *RUN), output(kvik.BINARY, *RUN))
        self.assertEqual(self.install("--uninstall").returncode, 0)
        self.assertEqual(self.installed(), [])

    def test_an_update_removes_files_that_only_the_earlier_version_has(self):
        self.assertEqual(self.install().returncode, 0)
        files = self.installed()
        self.release(OLD="old\n")
        self.assertEqual(self.install().returncode, 0)
        self.assertEqual(set(self.installed()) - set(files), {".local/share/doc/kvik/OLD"})
        self.release()
        self.assertEqual(self.install().returncode, 0)
        self.assertEqual(self.installed(), files)

    def test_a_damaged_download_installs_nothing(self):
        path = f"/{VERSION}/{self.name}"
        self.releases.files[path] = self.releases.files[path][:-1] + b"?"
        done = self.install()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"{re.escape(self.name)} is damaged: its SHA-256 is [0-9a-f]{{64}}, expected [0-9a-f]{{64}}")
        self.assertEqual(self.installed(), [])

    def test_what_is_missing_or_wrong_is_said(self):
        for args, variables, printed in (
                ((), {"KVIK_BASE_URL": ""}, "KVIK_BASE_URL is not set"),
                ((), {"KVIK_VERSION": "9.9.9"}, "/9.9.9/kvik-9.9.9.sha256"),
                ((), {"KVIK_VERSION": "../../etc"}, "'../../etc' is not a version"),
                (("--prefx",), {}, "unknown argument '--prefx'"),
                (("--prefix",), {}, "--prefix needs a folder"),
                (("--uninstall",), {}, "nothing of Kvik's is installed in")):
            with self.subTest(args=args, variables=variables):
                done = self.install(*args, **variables)
                self.assertEqual(done.returncode, 1)
                self.assertIn(printed, done.stderr)
        self.assertEqual(self.installed(), [])

    def test_another_platform_is_refused(self):
        tools = self.folder()
        for name, answer, printed in (("uname", 'case $1 in -s) echo Linux ;; *) echo aarch64 ;; esac', "this machine is aarch64: expected x86_64"),
                                   ("getconf", "echo glibc 2.28", "this system has glibc 2.28: expected 2.31 or later"),
                                   ("getconf", "exit 1", "this system has no glibc")):
            path = os.path.join(tools, name)
            with open(path, "w") as f:
                f.write(f"#!/bin/sh\n{answer}\n")
            os.chmod(path, 0o755)
            done = self.install(PATH=f"{tools}:{os.environ['PATH']}")
            os.remove(path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(printed, done.stderr)


if __name__ == "__main__":
    unittest.main()
