"""Writes tasks of lm-evaluation-harness made from a text, for `lm_eval --include_path FOLDER`. Their items are the same on every machine.

    make_tasks.py TEXT FOLDER [--items 200]

kvik_next_line: which of four lines follows a passage? The others are lines from elsewhere in the text. kvik_continue: the rest of the line,
generated greedily. kvik_passage: the perplexity of passages.
"""
import argparse
import json
import os
import random

CONTEXT_LINES = 12
TASK = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder}/{name}.jsonl
test_split: test
output_type: {output}
doc_to_text: "{{{{context}}}}"
{more}
metadata:
  version: 1.0
"""
MORE = {
    "multiple_choice": """\
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
target_delimiter: ""
metric_list:
  - metric: acc
  - metric: acc_norm""",
    "generate_until": """\
doc_to_target: "{{answer}}"
target_delimiter: ""
generation_kwargs:
  until: ["\\n"]
  max_gen_toks: 24
  do_sample: false
metric_list:
  - metric: exact_match
    ignore_case: true""",
    "loglikelihood_rolling": """\
doc_to_target: "{{passage}}"
metric_list:
  - metric: word_perplexity
  - metric: byte_perplexity""",
}


def items_of(lines, n_items):
    """Returns {task: items}."""
    rng = random.Random(48)
    starts = rng.sample(range(len(lines) - CONTEXT_LINES - 1), n_items)
    tasks = {"kvik_next_line": [], "kvik_continue": [], "kvik_passage": []}
    for i, start in enumerate(starts):
        context = "\n".join(lines[start:start + CONTEXT_LINES]) + "\n"
        true = lines[start + CONTEXT_LINES]
        others = rng.sample(lines, 3)
        answer = rng.randrange(4)
        choices = others[:answer] + [true] + others[answer:]
        tasks["kvik_next_line"].append({"context": context, "choices": choices, "answer": answer})
        if i % 4 == 0:
            words = true.split(" ")
            tasks["kvik_continue"].append({"context": context + words[0], "answer": true[len(words[0]):]})
            tasks["kvik_passage"].append({"context": "", "passage": context + true})
    return tasks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("folder")
    parser.add_argument("--items", type=int, default=200)
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    os.makedirs(folder, exist_ok=True)
    with open(options.text, encoding="utf-8") as f:
        lines = [line.strip() for line in f if len(line.split()) >= 5]
    outputs = {"kvik_next_line": "multiple_choice", "kvik_continue": "generate_until", "kvik_passage": "loglikelihood_rolling"}
    for name, items in items_of(lines, options.items).items():
        with open(os.path.join(folder, f"{name}.jsonl"), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(item) + "\n" for item in items)
        with open(os.path.join(folder, f"{name}.yaml"), "w", encoding="utf-8") as f:
            f.write(TASK.format(name=name, folder=folder, output=outputs[name], more=MORE[outputs[name]]))


if __name__ == "__main__":
    main()
