"""Builds, without training, a model that recalls the value stated for a key.

It has one Llama layer. A statement token means "key i has value j"; a question token asks for key i; the logits after it
identify the value. Keys are random codes in dimensions of a head that RoPE does not rotate (its base is 1e30), so that
the question's query matches the statement's key at any distance, among as many other keys as the context holds. The remaining
probability of the right answer measures how well quantized pages distinguish keys. With `outlier`, one channel of K is large for
all tokens, as in real models. All matrices are f32; the MLP has no effect.
"""
import struct

import numpy as np

import oracle_path  # noqa: F401
from gguf_file import ARR, F, F32, I32, STR, U32, encode, nbytes, pack_str, pack_value

N_KEYS, N_VALUES = 1000, 4
CODE, HEAD, DIM, FFN, N_HEADS, N_KV = 48, 64, 192, 32, 4, 2
KEY, QUESTION, VALUE, ANSWER, CONSTANT = 0, CODE, 2 * CODE, 2 * CODE + N_VALUES, 2 * CODE + 2 * N_VALUES  # offsets in the residual
FIRST_CODE = HEAD - CODE  # first of a head's dimensions that hold a code
SHARPNESS, CONFIDENCE = 0.3, 6.0  # scale of the match relative to the noise of other keys; scale of the answer's logit

N_STATEMENTS = N_KEYS * N_VALUES
FIRST_QUESTION, FIRST_ANSWER = N_STATEMENTS, N_STATEMENTS + N_KEYS
N_VOCAB = FIRST_ANSWER + N_VALUES


def statement(key, value):
    return key * N_VALUES + value


def question(key):
    return FIRST_QUESTION + key


def answer(value):
    return FIRST_ANSWER + value


def tensors(seed, outlier):
    rng = np.random.default_rng(seed)
    codes = rng.standard_normal((N_KEYS, CODE)).astype(np.float32)
    codes *= np.sqrt(CODE) / np.linalg.norm(codes, axis=1, keepdims=True)
    embedding = np.zeros((N_VOCAB, DIM), np.float32)
    for key in range(N_KEYS):
        for value in range(N_VALUES):
            embedding[statement(key, value), KEY:KEY + CODE] = codes[key]
            embedding[statement(key, value), VALUE + value] = 1
        embedding[question(key), QUESTION:QUESTION + CODE] = codes[key]
    embedding[:, CONSTANT] = 1
    # RMS norm divides all tokens by the same value, statements and questions alike.
    embedding[:, -1] = np.sqrt(np.maximum(0, CODE + 2 - (embedding * embedding).sum(1)))
    norm = np.full(DIM, np.sqrt((CODE + 2) / DIM), np.float32)

    q, k, v = (np.zeros((n * HEAD, DIM), np.float32) for n in (N_HEADS, N_KV, N_KV))
    for head in range(N_HEADS):
        for i in range(CODE):
            q[head * HEAD + FIRST_CODE + i, QUESTION + i] = SHARPNESS * np.sqrt(HEAD)
    for head in range(N_KV):
        for i in range(CODE):
            k[head * HEAD + FIRST_CODE + i, KEY + i] = 1
        k[head * HEAD + FIRST_CODE - 1, CONSTANT] = outlier
        for j in range(N_VALUES):
            v[head * HEAD + j, VALUE + j] = 1
    output, head_matrix = np.zeros((DIM, N_HEADS * HEAD), np.float32), np.zeros((N_VOCAB, DIM), np.float32)
    for j in range(N_VALUES):
        output[ANSWER + j, [head * HEAD + j for head in range(N_HEADS)]] = 1 / N_HEADS
        head_matrix[answer(j), ANSWER + j] = CONFIDENCE
    head_matrix[:FIRST_ANSWER, CONSTANT] = -1000  # only answers have a chance
    zeros = lambda *shape: np.zeros(shape, np.float32)
    return {"token_embd.weight": embedding, "blk.0.attn_norm.weight": norm, "blk.0.attn_q.weight": q, "blk.0.attn_k.weight": k,
            "blk.0.attn_v.weight": v, "blk.0.attn_output.weight": output, "blk.0.ffn_norm.weight": norm, "blk.0.ffn_gate.weight": zeros(FFN, DIM),
            "blk.0.ffn_up.weight": zeros(FFN, DIM), "blk.0.ffn_down.weight": zeros(DIM, FFN), "output_norm.weight": norm, "output.weight": head_matrix}


def write(path, seed=0, outlier=0.0):
    names = [b"<unk>", b"<s>", b"</s>"] + [b"<%d>" % i for i in range(3, N_VOCAB)]
    metadata = {
        "general.architecture": (STR, "llama"), "general.name": (STR, "recall"), "llama.block_count": (U32, 1),
        "llama.context_length": (U32, 1 << 20), "llama.embedding_length": (U32, DIM), "llama.feed_forward_length": (U32, FFN),
        "llama.attention.head_count": (U32, N_HEADS), "llama.attention.head_count_kv": (U32, N_KV), "llama.attention.key_length": (U32, HEAD),
        "llama.attention.value_length": (U32, HEAD), "llama.attention.layer_norm_rms_epsilon": (F, 1e-5), "llama.rope.freq_base": (F, 1e30),
        "llama.rope.dimension_count": (U32, HEAD), "llama.vocab_size": (U32, N_VOCAB), "tokenizer.ggml.model": (STR, "llama"),
        "tokenizer.ggml.tokens": (ARR, (STR, names)), "tokenizer.ggml.scores": (ARR, (F, [0.0] * N_VOCAB)),
        "tokenizer.ggml.token_type": (ARR, (I32, [2, 3, 3] + [4] * (N_VOCAB - 3))), "tokenizer.ggml.bos_token_id": (U32, 1),
        "tokenizer.ggml.eos_token_id": (U32, 2), "tokenizer.ggml.unknown_token_id": (U32, 0),
    }
    weights = tensors(seed, outlier)
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(metadata)))
        for key, (t, value) in metadata.items():
            f.write(pack_str(key) + struct.pack("<I", t) + pack_value(t, value))
        offset = 0
        for name, values in weights.items():
            f.write(pack_str(name) + struct.pack("<I", values.ndim) + b"".join(struct.pack("<Q", d) for d in reversed(values.shape)))
            f.write(struct.pack("<IQ", F32, offset))
            offset += -(-nbytes(values.shape, F32) // 32) * 32
        f.write(b"\0" * (-f.tell() % 32))
        for values in weights.values():
            data = encode(values, F32)
            f.write(data + b"\0" * (-len(data) % 32))
