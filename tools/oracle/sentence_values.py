#!/usr/bin/env python3
"""Writes tests/e2e/minilm.json: the embeddings that sentence-transformers computes with all-MiniLM-L6-v2.

    python3 -m venv VENV && VENV/bin/pip install torch sentence-transformers
    tools/fetch_models.py minilm && VENV/bin/python tools/oracle/sentence_values.py [FOLDER]

The texts are the sentences of tests/e2e/texts/harbor.txt, the whole of it, and a few in other scripts.
"""
import base64
import json
import os
import re
import sys

import sentence_transformers
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import fetch_models  # noqa: E402

OTHERS = ["Zürich, Ål, naïve façade: ÀÉÎÕÜ!", "東京は今日も雨です。", "Привет, мир — 42 раза", "مرحبا بالعالم", "emoji 🚀🔥 and ﬁ ligatures ½ …",
          "UPPER lower MiXeD\ttabs\nand  double  spaces", "a", "pneumonoultramicroscopicsilicovolcanoconiosis " * 3, "ΑΒΓ ἀρχή", "x" * 120]


def texts():
    with open(os.path.join(HERE, "../../tests/e2e/texts/harbor.txt"), encoding="utf-8") as f:
        text = f.read()
    sentences = [" ".join(s.split()) for s in re.split(r"(?<=[.!?])\s+", text)]
    return [*[s for s in sentences if s][:25], " ".join(text.split()[:180]), *OTHERS]


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(fetch_models.folder(), fetch_models.MODELS["minilm"].file)
    torch.set_num_threads(1)
    model = sentence_transformers.SentenceTransformer(folder, device="cpu")
    made = {"sentence_transformers": sentence_transformers.__version__, "texts": texts()}
    vectors = model.encode(made["texts"], batch_size=1)
    made["embeddings"] = base64.b64encode(vectors.astype("<f4").tobytes()).decode()
    with open(os.path.join(HERE, "../../tests/e2e/minilm.json"), "w", encoding="utf-8") as f:
        json.dump(made, f, ensure_ascii=False, indent=None, separators=(",", ":"))
        f.write("\n")
    print(f"{len(made['texts'])} texts, {vectors.shape[1]} dimensions")


if __name__ == "__main__":
    main()
