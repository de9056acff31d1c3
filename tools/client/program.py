"""The binary under test and its environment."""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("KVIK_BINARY", os.path.join(ROOT, "build/kvik"))


def environment(**extra):
    """Returns the caller's environment without Kvik's settings, which would affect a test, plus `extra`. No running server is used."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KVIK_")}
    return {**clean, "KVIK_URL": "none", **{k: str(v) for k, v in extra.items() if v is not None}}


def command(*args):
    return [BINARY, *map(str, args)]
