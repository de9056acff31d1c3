#!/usr/bin/python3
"""Makes replays for `kvik bench MODEL --replay FILE`: lines of {"prompt", "answer"}. The same sources give the same lines.

  edits   this repository's history: a file and a commit's message, then the new file
  agents  a file that is read and written twice with tool calls: three versions of its history
  quotes  a document and a question, then an answer that quotes it
  json    scenes of a play, then their speakers and speeches as JSON
  prose   the continuation of a play

  tools/make/make_replay.py edits out.jsonl [--repository .] [--plays FILE] [--turns 8] [--chars 2200]
"""
import argparse
import json
import random
import re
import subprocess
import sys


def git(repository, *words):
    done = subprocess.run(["git", "-C", repository, *words], capture_output=True, check=True)
    return done.stdout.decode("utf-8", errors="strict")


def versions(repository, chars):
    """Returns (path, [(commit, message)], newest first) of small sources that changed often."""
    log = git(repository, "log", "--no-merges", "--diff-filter=M", "--format=%x01%H%x02%s%n%b%x03",
              "--name-only", "--", "src", "tests", "tools")
    by_path = {}
    for entry in log.split("\x01")[1:]:
        commit, rest = entry.split("\x02", 1)
        message, paths = rest.split("\x03", 1)
        for path in paths.split():
            if path.endswith((".h", ".cpp", ".py")):
                by_path.setdefault(path, []).append((commit, message.strip()))
    return sorted(by_path.items())


def content(repository, commit, path):
    try:
        return git(repository, "show", f"{commit}:{path}")
    except (subprocess.CalledProcessError, UnicodeDecodeError):
        return None


def fits(chars, *texts):
    return all(text is not None and chars // 3 <= len(text) <= chars for text in texts)


def edits(options, rng):
    turns = []
    for path, commits in rng.sample(files := versions(options.repository, options.chars), len(files)):
        commit, message = commits[rng.randrange(len(commits))]
        old = content(options.repository, commit + "^", path)
        new = content(options.repository, commit, path)
        if not fits(options.chars, old, new) or old == new:
            continue
        turns.append((f"Here is {path}:\n\n{old}\n\nThe change to make: {message}\n\n"
                      f"Write the whole new file.\n\n", new))
        if len(turns) == options.turns:
            return turns
    return turns


def call(path, text):
    return json.dumps({"name": "write_file", "arguments": {"path": path, "content": text}})


def agents(options, rng):
    turns = []
    for path, commits in rng.sample(files := versions(options.repository, options.chars), len(files)):
        if len(commits) < 2:
            continue
        (second, after), (first, before) = commits[0], commits[1]
        texts = [content(options.repository, commit, path)
                 for commit in (first + "^", first, second)]
        if not fits(options.chars, *texts) or len(set(texts)) < 3:
            continue
        turns.append((f"user: {before}\nassistant: "
                      f"{json.dumps({'name': 'read_file', 'arguments': {'path': path}})}\n"
                      f"tool: {texts[0]}\nassistant: {call(path, texts[1])}\ntool: written\n"
                      f"user: {after}\nassistant: ", call(path, texts[2])))
        if len(turns) == options.turns:
            return turns
    return turns


LINKS = ["The document says it plainly: ", "What matters here is this. ", "It goes on: ",
         "One more place is worth reading: ", "And, a little later, ", "The reason that it gives is ",
         "Put in its own words, "]


def quotes(options, rng):
    names = git(options.repository, "ls-files", "docs/*.md", "*.md").split()
    paragraphs = []
    for name in sorted(names):
        with open(f"{options.repository}/{name}", encoding="utf-8") as file:
            for text in file.read().split("\n\n"):
                text = " ".join(text.split())
                if len(text) > 300 and "|" not in text and "`" not in text[:1]:
                    paragraphs.append(text)
    turns = []
    while len(turns) < options.turns:
        chosen = rng.sample(paragraphs, 4)
        document = "\n\n".join(text[:options.chars // 3] for text in chosen)
        sentences = [s for s in re.split(r"(?<=[.:;]) ", document) if 40 < len(s) < 260]
        if len(sentences) < 6:
            continue
        subject = " ".join(rng.choice(sentences).split()[:5])
        answer = "".join(f'{rng.choice(LINKS)}"{sentence.strip()}" '
                         for sentence in rng.sample(sentences, 5))
        turns.append((f"{document}\n\nWhat does this say about \"{subject}\" and what belongs to "
                      f"it? Quote the document.\n\n", answer.strip()))
    return turns


def speeches(options, rng):
    with open(options.plays, encoding="utf-8") as file:
        blocks = file.read().split("\n\n")
    while True:
        begin = rng.randrange(len(blocks) - 12)
        scene = []
        for block in blocks[begin:begin + 12]:
            head, _, text = block.partition(":\n")
            if text and len("\n\n".join(scene)) + len(block) < options.chars:
                scene.append(f"{head}:\n{text}")
        if len(scene) >= 3:
            yield scene


def json_of_plays(options, rng):
    turns = []
    scenes = speeches(options, rng)
    while len(turns) < options.turns:
        scene = next(scenes)
        output = []
        for block in scene:
            speaker, text = block.split(":\n", 1)
            output.append({"speaker": speaker.title(), "lines": len(text.split("\n")),
                         "text": " ".join(text.split())})
        turns.append(("\n\n".join(scene) + "\n\nList every speech as JSON: the speaker, how many "
                      "lines, and the text.\n\n", json.dumps(output, indent=1)))
    return turns


def prose(options, rng):
    with open(options.plays, encoding="utf-8") as file:
        text = file.read()
    turns = []
    for _ in range(options.turns):
        begin = rng.randrange(len(text) - 2 * options.chars)
        middle = begin + options.chars
        turns.append((text[begin:middle], text[middle:middle + options.chars // 2]))
    return turns


KINDS = {"edits": edits, "agents": agents, "quotes": quotes, "json": json_of_plays, "prose": prose}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("out")
    parser.add_argument("--repository", default=".")
    parser.add_argument("--plays", help="a text of plays, for json and prose")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--chars", type=int, default=2200, help="of a file or document, at most")
    options = parser.parse_args()
    if options.kind in ("json", "prose") and not options.plays:
        parser.error(f"{options.kind} is made of plays: give --plays FILE")
    turns = KINDS[options.kind](options, random.Random(16))
    if len(turns) < options.turns:
        print(f"{len(turns)} turns found, {options.turns} wanted", file=sys.stderr)
    with open(options.out, "w", encoding="utf-8") as file:
        for prompt, answer in turns:
            file.write(json.dumps({"prompt": prompt, "answer": answer}) + "\n")


if __name__ == "__main__":
    main()
