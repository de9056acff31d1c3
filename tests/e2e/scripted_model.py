"""Writes a model with scripted answers: a real GGUF file, served by the real binary.

The chat template ends each prompt with a mark for the state of the conversation: `<|say_0|>` before the first call,
`<|say_1|>` after the first tool result, and so on, or `<|aside|>` for side requests (titles, summaries) that do not concern the task.
Each piece of an answer is one token, and the weights of one layer without attention encode which token follows which: embeddings are
random codes of ±1, and a token's row in the output matrix is the sum of the codes of its predecessors. Temperature and seed do not
change the answers.

    scripted_model.py out.gguf '{"answers": ["…", "…"], "task": "a word of the task", "format": "hermes"}'
"""
import json
import os
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools/oracle"))
import gguf_file  # noqa: E402
from gguf_file import ARR, F, F32, I32, STR, U32  # noqa: E402

VOCABULARY = os.path.join(ROOT, "models/demo.gguf")
DIM, FFN, HEAD, N_CTX = 192, 32, 32, 1 << 18
CONFIDENCE = 0.5  # scale of the logits: the matching code gives DIM times this value, others about sqrt(DIM) times
PIECE_BYTES = 6   # bytes of a script token: calls are split into many pieces, and characters are cut
CONTROL, NORMAL = 3, 1
ASIDE = "Fine."

# For each format, the template part that renders calls of earlier turns, and a function that writes a call. The server must parse each format.
FORMATS = {
    "hermes": ("{{ '<tool_call>\\n{\"name\": ' + (call.function.name | tojson) + ', \"arguments\": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}",
               lambda name, arguments: f'<tool_call>\n{json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)}\n</tool_call>'),
    "xml": ("{{ '<tool_call>\\n<function=' + call.function.name + '>\\n' }}{% for key, value in call.function.arguments.items() %}"
            "{{ '<parameter=' + key + '>\\n' + (value if value is string else value | tojson) + '\\n</parameter>\\n' }}{% endfor %}"
            "{{ '</function>\\n</tool_call>' }}",
            lambda name, arguments: f"<tool_call>\n<function={name}>\n" + "".join(
                f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}\n</parameter>\n"
                for key, value in arguments.items()) + "</function>\n</tool_call>"),
    # Its markup consists of control tokens. No script contains them, but a grammar may require them.
    "kimi": ("{{ '<|tool_calls_section_begin|><|tool_call_begin|>' + call.id + '<|tool_call_argument_begin|>' + (call.function.arguments | tojson) + "
             "'<|tool_call_end|><|tool_calls_section_end|>' }}", None),
}
MARKS = {"kimi": ("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>")}

TEMPLATE = """{{ bos_token }}{% if tools %}{{ '<|turn|>system\\n' }}{% for tool in tools %}{{ (tool | tojson) + '\\n' }}{% endfor %}{{ '<|stop|>\\n' }}{% endif %}\
{% for message in messages %}{{ '<|turn|>' + message.role + '\\n' }}\
{% if message.reasoning_content %}{{ '<think>' + message.reasoning_content + '</think>\\n' }}{% endif %}\
{{ message.content or '' }}{% for call in message.tool_calls or [] %}CALL{% endfor %}{{ '<|stop|>\\n' }}{% endfor %}\
{% set told = namespace(results=0, is_task=false) %}{% for message in messages %}\
{% if message.role == 'user' and 'TASK' in message.content %}{% set told.is_task = true %}{% endif %}\
{% if message.role == 'tool' %}{% set told.results = told.results + 1 %}{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ '<|turn|>assistant\\n' }}\
{{ '<|say_' + ([told.results, LAST] | min | string) + '|>' if told.is_task and tools else '<|aside|>' }}{% endif %}"""


def call(name, arguments, format="hermes"):
    """Returns a call as a model of that format writes it."""
    return FORMATS[format][1](name, arguments)


def pieces(text, known):
    """Splits the text into pieces of some bytes, none of which is known or occurs twice, because tokens of a vocabulary are unique."""
    data, cut = text.encode(), []
    is_new = lambda piece: piece not in known and piece not in cut
    while data:
        n = next((n for n in range(min(PIECE_BYTES, len(data)), len(data) + 1) if is_new(data[:n])), None)
        while n is None:  # the rest is a known token, so it is appended to the previous piece
            if not cut:
                raise ValueError(f"{text!r} is said already, and no other token could say it")
            data = cut.pop() + data
            n = len(data) if is_new(data) else None
        cut.append(data[:n])
        data = data[n:]
    return cut


PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
CHAR_OF = {b: chr(b) for b in PRINTABLE} | {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in PRINTABLE)}
BYTE_OF = {char: byte for byte, char in CHAR_OF.items()}


def as_written(data):
    """Returns the bytes in the characters of GPT-2 vocabularies."""
    return "".join(CHAR_OF[b] for b in data).encode()


def as_read(token):
    return bytes(BYTE_OF.get(char, 0) for char in token.decode())


class Script:
    """The vocabulary, and the successor of each token."""

    def __init__(self, answers, marks=()):
        self.keys = {k: v for k, v in gguf_file.read_metadata(VOCABULARY).items() if k.startswith("tokenizer.ggml.")}
        self.tokens = list(self.keys["tokenizer.ggml.tokens"][1][1])
        self.kinds = list(self.keys["tokenizer.ggml.token_type"][1][1])
        self.end = self.keys["tokenizer.ggml.eos_token_id"][1]
        self.followers = {}
        self.marks = {mark: self.mark(mark.encode()) for mark in ("<|turn|>", "<|stop|>", *marks)}
        self.known = set(map(as_read, self.tokens[:self.keys["tokenizer.ggml.bos_token_id"][1]]))
        for mark, text in [("<|aside|>", ASIDE), *((f"<|say_{i}|>", answer) for i, answer in enumerate(answers))]:
            self.followers[self.say(self.add(mark.encode(), CONTROL), text)] = self.end

    def mark(self, token):
        return self.tokens.index(token) if token in self.tokens else self.add(token, CONTROL)

    def say(self, at, text):
        """Lets the text follow the token `at`, and returns its last token."""
        for piece in pieces(text, self.known):
            self.known.add(piece)
            self.followers[at] = following = self.add(as_written(piece), NORMAL)
            at = following
        return at

    def add(self, token, kind):
        self.tokens.append(token)
        self.kinds.append(kind)
        return len(self.tokens) - 1

    def vocabulary(self):
        return self.keys | {"tokenizer.ggml.tokens": (ARR, (STR, self.tokens)), "tokenizer.ggml.token_type": (ARR, (I32, self.kinds))}


def weights(script):
    n_vocab = len(script.tokens)
    codes = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), (n_vocab, DIM))
    output = np.zeros((n_vocab, DIM), np.float32)
    for token, follower in script.followers.items():
        output[follower] += CONFIDENCE * codes[token]
    zeros, ones = lambda *shape: np.zeros(shape, np.float32), np.ones(DIM, np.float32)
    return {"token_embd.weight": codes, "blk.0.attn_norm.weight": ones, "blk.0.attn_q.weight": zeros(HEAD, DIM),
            "blk.0.attn_k.weight": zeros(HEAD, DIM), "blk.0.attn_v.weight": zeros(HEAD, DIM), "blk.0.attn_output.weight": zeros(DIM, HEAD),
            "blk.0.ffn_norm.weight": ones, "blk.0.ffn_gate.weight": zeros(FFN, DIM), "blk.0.ffn_up.weight": zeros(FFN, DIM),
            "blk.0.ffn_down.weight": zeros(DIM, FFN), "output_norm.weight": ones, "output.weight": output}


def write(path, answers, task, format="hermes"):
    """Writes the model. It answers with answers[i] after i tool results and with the last answer after more. It answers with ASIDE if no user
    message contains `task`, or if there are no tools."""
    template = TEMPLATE.replace("CALL", FORMATS[format][0]).replace("TASK", task).replace("LAST", str(len(answers) - 1))
    write_script(path, Script(answers, MARKS.get(format, ())), template)


def write_script(path, script, template):
    metadata = {
        "general.architecture": (STR, "llama"), "general.name": (STR, "scripted"), "llama.block_count": (U32, 1),
        "llama.context_length": (U32, N_CTX), "llama.embedding_length": (U32, DIM), "llama.feed_forward_length": (U32, FFN),
        "llama.attention.head_count": (U32, 1), "llama.attention.head_count_kv": (U32, 1), "llama.attention.key_length": (U32, HEAD),
        "llama.attention.value_length": (U32, HEAD), "llama.attention.layer_norm_rms_epsilon": (F, 1e-5), "llama.rope.freq_base": (F, 1e4),
        "llama.rope.dimension_count": (U32, HEAD), "llama.vocab_size": (U32, len(script.tokens)), **script.vocabulary(),
        "tokenizer.chat_template": (STR, template),
    }
    gguf_file.write_gguf(path, metadata, [(name, x.shape, F32, lambda x=x: gguf_file.encode(x, F32)) for name, x in weights(script).items()])


if __name__ == "__main__":
    write(sys.argv[1], **json.loads(sys.argv[2]))
