#!/usr/bin/python3
"""Writes a wheel that installs the program, `pipx install kvik`, and the Python package, `pip install kvik`.

    tools/make/wheel.py PROGRAM VERSION FOLDER DOCUMENTS

PROGRAM is the portable program, which needs glibc 2.31; the portable library is in the same folder. DOCUMENTS is the folder with man pages and
completions (target kvik_documents). The package calls the library through ctypes, so that one wheel serves all versions of Python.
"""
import base64
import hashlib
import os
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLATFORM = "manylinux_2_31_x86_64"
TIME = (2020, 1, 1, 0, 0, 0)  # the same program makes the same file

METADATA = """Metadata-Version: 2.1
Name: kvik
Version: {version}
Summary: LLM inference engine and server with a shared, exact KV cache
License: Apache-2.0
Requires-Python: >=3.8
Classifier: Operating System :: POSIX :: Linux
Classifier: Environment :: Console
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: openai
Requires-Dist: openai; extra == "openai"
Provides-Extra: lm-eval
Requires-Dist: lm-eval; extra == "lm-eval"
Description-Content-Type: text/markdown

{readme}"""

README = """Kvik runs large language models on your own machine. This package holds a Python package:

    import kvik

    with kvik.LLM("model.gguf") as llm:
        for delta in llm.stream_chat("Why is the sky blue?"):
            print(delta, end="", flush=True)

and the program `kvik`:

    pipx install kvik
    kvik run demo -p 'ROMEO:'
    kvik serve model.gguf
"""

WHEEL = "Wheel-Version: 1.0\nGenerator: kvik\nRoot-Is-Purelib: false\nTag: py3-none-" + PLATFORM + "\n"


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


# Folders in which shells look for completions.
PLACES = {"kvik": "share/bash-completion/completions", "_kvik": "share/zsh/site-functions", "kvik.fish": "share/fish/vendor_completions.d"}


def documents(folder):
    """Returns {place: path} of man pages and completions."""
    man, completions = os.path.join(folder, "man"), os.path.join(folder, "completions")
    return {f"share/man/man1/{name}": os.path.join(man, name) for name in sorted(os.listdir(man))} | {
        f"{place}/{name}": os.path.join(completions, name) for name, place in PLACES.items()}


def package(library):
    """Returns {place: path} of the Python package."""
    folder = os.path.join(ROOT, "python/kvik")
    return {f"kvik/{name}": os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith((".py", ".typed"))} | {
        "kvik/libkvik.so.0": library}


def main():
    program, version, folder, document_folder = sys.argv[1:]
    data, info = f"kvik-{version}.data/scripts/kvik", f"kvik-{version}.dist-info"

    def read(path):
        with open(path, "rb") as f:
            return f.read()

    files = {
        **{place: read(path) for place, path in package(os.path.join(os.path.dirname(program), "libkvik.so.0")).items()},
        data: read(program),
        **{f"kvik-{version}.data/data/{place}": read(path) for place, path in documents(document_folder).items()},
        f"{info}/METADATA": METADATA.format(version=version, readme=README).encode(),
        f"{info}/WHEEL": WHEEL.encode(),
        **{f"{info}/licenses/{name}": read(os.path.join(ROOT, name)) for name in ("LICENSE", "NOTICE", "THIRD-PARTY.md")},
    }
    record = "".join(f"{name},{digest(content)},{len(content)}\n" for name, content in files.items()) + f"{info}/RECORD,,\n"
    files[f"{info}/RECORD"] = record.encode()
    with zipfile.ZipFile(os.path.join(folder, f"kvik-{version}-py3-none-{PLATFORM}.whl"), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = (0o100755 if name in (data, "kvik/libkvik.so.0") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)


if __name__ == "__main__":
    main()
