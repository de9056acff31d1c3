#!/usr/bin/python3
"""Writes an npm package that holds the program: `npx kvik`, `npm install -g kvik`.

    tools/make/npm_package.py PROGRAM VERSION FOLDER DOCUMENTS

DOCUMENTS is the folder with man pages (target kvik_documents).
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

README = """# kvik

Runs large language models on your own machine: `npx kvik run demo -p 'ROMEO:'`, `npx kvik serve model.gguf`. For Linux on x86-64 with glibc 2.31 or
later.
"""


def main():
    program, version, folder, documents = sys.argv[1:]
    man = os.path.join(documents, "man")
    manifest = {
        "name": "kvik", "version": version, "description": "LLM inference engine and server with a shared, exact KV cache", "license": "Apache-2.0",
        # npm links the program itself, without a script of Node.
        "bin": {"kvik": "bin/kvik"}, "os": ["linux"], "cpu": ["x64"], "libc": ["glibc"],
        "man": [f"man/{name}" for name in sorted(os.listdir(man))],
    }
    with tempfile.TemporaryDirectory() as package:
        os.mkdir(os.path.join(package, "bin"))
        shutil.copyfile(program, os.path.join(package, "bin/kvik"))
        os.chmod(os.path.join(package, "bin/kvik"), 0o755)
        shutil.copytree(man, os.path.join(package, "man"))
        for name in ("LICENSE", "NOTICE", "THIRD-PARTY.md"):
            shutil.copyfile(os.path.join(ROOT, name), os.path.join(package, name))
        for name, text in (("package.json", json.dumps(manifest, indent=2) + "\n"), ("README.md", README)):
            with open(os.path.join(package, name), "w") as f:
                f.write(text)
        subprocess.run(["npm", "pack", "--silent", "--pack-destination", os.path.abspath(folder)], cwd=package, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
