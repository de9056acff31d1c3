"""The trained models that tests use; tools/fetch_models.py downloads them."""
import os
import unittest

import kvik  # adds tools/ to the path
import fetch_models

SMALL = ("smollm2", "minilm")  # fetched by ./test
ALL = bool(os.environ.get("KVIK_TEST_MODELS_ALL"))  # set by ./test --models
TEXT = os.path.join(kvik.ROOT, "tests/e2e/texts/harbor.txt")  # prose written for these tests, on which no model was trained


def model(name="smollm2"):
    """Returns the path of `smollm2`, `minilm`, `gemma3` or `qwen2.5-coder`, or skips the test with the reason. In continuous integration (CI is set), a
    missing smollm2 or minilm fails the test instead."""
    if name not in SMALL and not ALL:
        raise unittest.SkipTest(f"{name} is tested by ./test --models")
    path = os.path.join(fetch_models.folder(), fetch_models.MODELS[name].file)
    if os.path.exists(path):
        return path
    reason = f"{name} is not here; tools/fetch_models.py {name} downloads it"
    if name in SMALL and os.environ.get("CI"):
        raise AssertionError(reason)
    raise unittest.SkipTest(reason)
