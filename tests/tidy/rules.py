"""The rules of the tree. Each is a function from (path, text) to sentences that report violations.

Paths are relative to the root and use '/'. Only `Tree` reads files, so that every rule can be tested on a line or two.
"""
import collections
import fnmatch
import os
import pathlib
import re
import subprocess

TREE_ROOT = str(pathlib.Path(__file__).resolve().parents[2])

FLOORS = ("base", "tensor", "catalogue", "backend", "format", "text", "template", "constrain", "kv", "tier", "model", "engine",
          "service", "hub", "host", "study", "server", "cli", "library", "main")

# Allowed includes of a floor in addition to its own files, `base` and `tensor`: a floor, a folder of it, or one header.
MAY_INCLUDE = {
    "base": (),
    "tensor": (),
    "catalogue": (),
    "backend": (),
    "format": ("catalogue",),
    "text": (),
    "template": (),
    "constrain": ("text",),
    "kv": ("backend/copy_lane.h", "backend/memory.h"),
    "model": ("catalogue", "format", "backend/backend.h", "backend/exact_math.h", "backend/forwarding_backend.h", "backend/memory.h", "backend/ops",
              "kv/kv_view.h"),
    "tier": ("kv", "backend/copy_lane.h", "backend/memory.h"),
    "engine": ("model", "kv", "tier", "backend/backend.h"),
    "service": ("engine", "text", "template", "constrain"),
    "hub": ("format", "service/model_library.h"),
    "host": ("hub", "service", "engine", "text", "template", "constrain", "model", "tier", "kv", "backend", "format", "catalogue"),
    "study": ("host", "hub", "service", "engine", "text", "template", "constrain", "model", "tier", "kv", "backend", "format", "catalogue"),
    "server": ("service",),
    "cli": ("service",),
    "library": ("server", "host", "hub", "service", "engine", "text", "template", "constrain", "model", "tier", "kv", "backend", "format", "catalogue"),
    "main": FLOORS,
}

# Headers of value types, which are visible to higher floors. They include only `base`, `tensor` and each other, so that they expose nothing else.
VALUE_HEADERS = (
    "engine/request/request.h", "engine/request/sampling_params.h", "engine/speculate/speculation_counters.h", "engine/watch/live_view.h", "engine/watch/snapshot.h", "engine/watch/step_hooks.h", "kv/cache_report.h", "kv/memory_kind.h",
    "kv/page_cell.h", "kv/page_counts.h", "kv/page_state.h", "kv/page_history.h", "kv/pin.h", "tier/tier_counters.h",
    "model/max_layer_groups.h", "text/tokenize_options.h",
)

# Headers that a floor reaches indirectly through allowed headers, but may not include itself.
MAY_REACH = {
    "model": ("backend/copy_lane.h",),
    "engine": ("catalogue", "backend/backend.h", "backend/copy_lane.h", "backend/forwarding_backend.h", "backend/memory.h", "backend/ops",
               "format/model_source.h"),
}

# Headers that compile slowly or depend on a library are limited to the floors that need them.
LIBRARIES = {
    "boost/": ("server", "library", "main"),
    "boost/asio/buffer.hpp": ("server", "cli"),
    "boost/beast/http": ("server", "cli"),
    "boost/json": ("base", "format", "text", "study", "server", "cli", "library", "main"),
    "pcre2.h": ("format", "text"),
    "CLI/": ("main",),
    "unicode/": ("text", "template", "constrain"),
    "immintrin.h": ("backend",),
    "openssl/": ("base", "kv", "tier", "server", "main"),
    "xxhash.h": ("base",),
    "sqlite3.h": ("base",),
    "histedit.h": ("cli",),
    "curl/": ("hub",),
    "gtest/": (),
    "gmock/": (),
}

KERNEL_FILE = re.compile(r"_avx\w+\.(cpp|h)$|\.inl$|\.cpp\.in$")
KERNEL_HEADERS = {"immintrin.h", "cstdint", "cstddef"}
MAX_LINES, MANY_LINES = 800, 500
MAX_FILES = 40  # directly in a folder
SOURCE = (".cpp", ".h", ".inl", ".cu", ".cuh")


class Tree:
    """The files of a checkout, without build folders and version control."""

    SKIPPED = {".git", "__pycache__", "node_modules"}

    def __init__(self, root):
        self.root = root
        self.paths = sorted(self._walk())

    def _walk(self):
        for folder, folders, files in os.walk(self.root):
            folders[:] = [f for f in folders if f not in self.SKIPPED and not re.fullmatch(r"build(-.*)?|\.unit-.*", f)]
            for name in files:
                yield os.path.relpath(os.path.join(folder, name), self.root).replace(os.sep, "/")

    def matching(self, *patterns):
        return [p for p in self.paths if any(fnmatch.fnmatch(p, pattern) for pattern in patterns)]

    def sources(self, *folders):
        return [p for p in self.paths if p.startswith(folders) and p.endswith(SOURCE)]

    def text(self, path):
        with open(os.path.join(self.root, path), "rb") as f:
            return f.read().decode("utf-8", "replace")


# --- reading C++ ---

TOKEN = re.compile(
    r'R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![\w])'(?:\\.|[^'\\\n])+'"  # not the separators of 1'000
    r"|//[^\n]*|/\*.*?\*/", re.S)


def without_comments(text):
    """Replaces comments with blanks, so that line numbers do not change."""
    return TOKEN.sub(lambda m: blank(m[0]) if m[0].startswith(("//", "/*")) else m[0], text)


def code_alone(text):
    """Replaces comments and quoted text with blanks."""
    return TOKEN.sub(lambda m: blank(m[0]), text)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def includes(text):
    """Returns (line, name, whether in quotes) of each #include."""
    found = re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', without_comments(text), re.M)
    return [(line_of(text, m.start()), m[2], m[1] == '"') for m in found]


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def floor_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def grep(path, text, pattern, sentence):
    return [f"{path}:{line_of(text, m.start())}: {sentence}" for m in re.finditer(pattern, text)]


# --- the rules ---

def include_arrows(path, text):
    """A floor includes only floors below it."""
    floor, wrong = floor_of(path), []
    for line, name, quoted in includes(text):
        where = f"{path}:{line}: "
        if not quoted:
            prefix = max((p for p in LIBRARIES if name.startswith(p)), key=len, default=None)
            floors = LIBRARIES.get(prefix, FLOORS)
            if floor not in floors:
                wrong.append(f"{where}<{name}> belongs to {' and '.join(floors) or 'tests alone'}")
        elif "/" not in name or ".." in name:
            wrong.append(f'{where}"{name}" must be written from src/ on')
        elif not may_include(floor, name):
            wrong.append(f'{where}{floor} may not include "{name}"')
    return wrong


def may_include(floor, name):
    target = name.split("/")[0]
    if target == floor or floor == "main":
        return target in FLOORS
    if floor in ("base", "tensor"):
        return floor == "tensor" and target == "base"
    return target in ("base", "tensor") or any(name == a or name.startswith(a + "/") for a in MAY_INCLUDE[floor])


def reached_arrows(texts):
    """texts: path → text of all sources. Headers that a floor reaches indirectly are below it as well, or are value headers."""
    arrows = {p: [n for _, n, quoted in includes(t) if quoted] for p, t in texts.items()}
    wrong = {}

    def visit(floor, path, trail, seen):
        for name in arrows.get(path, []):
            header = "src/" + name
            if header in seen:
                continue
            seen.add(header)
            may_reach = VALUE_HEADERS + MAY_REACH.get(floor, ())
            if not (may_include(floor, name) or any(name == a or name.startswith(a + "/") for a in may_reach)):
                wrong.setdefault((floor, name), f"{floor} may not reach {name}: {' → '.join([*trail, path, header])}")
            else:
                visit(floor, header, [*trail, path], seen)

    for path in sorted(arrows):
        if floor_of(path) not in (None, "main"):
            visit(floor_of(path), path, [], set())
    return list(wrong.values())


def value_headers(texts):
    """texts: path → text of all headers. The listed value headers exist and include only value headers."""
    wrong = [f"src/{name} is listed as a header of values and does not exist" for name in VALUE_HEADERS if "src/" + name not in texts]
    for name in VALUE_HEADERS:
        for line, included, quoted in includes(texts.get("src/" + name, "")):
            if quoted and included not in VALUE_HEADERS and included.split("/")[0] not in ("base", "tensor"):
                wrong.append(f"src/{name}:{line}: a header of values may not include {included}")
    return wrong


def folder_sizes(paths):
    """A folder of the sources with too many files must be divided."""
    counts = collections.Counter(p.rpartition("/")[0] for p in paths if p.startswith("src/"))
    return [f"{folder}: {n} files, more than {MAX_FILES}" for folder, n in sorted(counts.items()) if n > MAX_FILES]


def include_cycles(texts):
    """texts: path → text of all headers. No header includes itself through others."""
    arrows = {p: ["src/" + n for _, n, quoted in includes(t) if quoted] for p, t in texts.items()}
    done, cycles = set(), []

    def visit(path, trail):
        if path in trail:
            cycles.append(" → ".join(trail[trail.index(path):] + [path]) + ": includes go in a circle")
        elif path not in done and path in arrows:
            for target in arrows[path]:
                visit(target, trail + [path])
            done.add(path)

    for path in sorted(arrows):
        visit(path, [])
    return cycles


def mutual_folders(texts):
    """texts: path → text of all sources. Of two folders of a floor, neither inside the other, at most one includes the other."""
    arrows = {}
    for path, text in texts.items():
        for _, name, quoted in includes(text):
            pair = os.path.dirname(path), os.path.dirname("src/" + name)
            if quoted and pair[0] != pair[1] and "src/" + name in texts and floor_of(path) == floor_of("src/" + name):
                arrows.setdefault(pair, f"{path} includes {name}")
    apart = [(a, b) for a, b in arrows if a < b and not b.startswith(a + "/")]
    return [f"{arrows[a, b]}, and {arrows[b, a]}: two folders include each other" for a, b in apart if (b, a) in arrows]


def environment(path, text):
    if path.startswith("src/main/"):
        return []
    return grep(path, code_alone(text), r"\b(secure_)?(getenv|setenv|putenv)\b", "the environment is read in src/main alone")


def family_branches(path, text):
    """Only the catalogue uses the names of model families; elsewhere a family is a set of features."""
    if path.startswith("src/catalogue/"):
        return []
    found = grep(path, without_comments(text), r'\barch\w*(\(\))?\s*[!=]=\s*"|"\s*[!=]=\s*\w*\.?arch\w*|\barch\w*(\(\))?\.starts_with\(',
                 "a family's name is asked for in src/catalogue alone")
    if not path.startswith("src/backend/"):
        found += grep(path, without_comments(text), r"(?m)^[ \t]*#[ \t]*(el)?if\w*[^\n]*(CUDA|HIP|ROCM|METAL|VULKAN)",
                      "no floor but backend knows a device")
    return found


def throws(path, text):
    """A new_handler has no other way to report failure."""
    if path == "src/base/process/memory_reserve.cpp":
        return []
    return grep(path, code_alone(text), r"\bthrow\b", "nothing of ours throws")


def variants(path, text):
    """Data from clients may be large and is copied where memory may run out."""
    if not path.startswith(("src/server/", "src/service/")):
        return []
    return grep(path, code_alone(text), r"\bstd::variant<[^;{}]*\bstd::(string|vector)\b", "a variant of strings or vectors is that of base/variant.h")


def locks(path, text):
    """The locks of base/mutex.h declare which data they guard, and clang checks it."""
    if path == "src/base/mutex.h":
        return []
    return grep(path, code_alone(text), r"\bstd::(\w*mutex|condition_variable\w*|lock_guard|unique_lock|scoped_lock|shared_lock)\b",
                "locks are those of base/mutex.h")


# The folder that owns streams, signals and threads, and the files that draw on a terminal or edit a line in it.
PROCESS = "src/base/process/"
DRAWS = ("src/main/run_once.cpp", "src/main/terminal_console.cpp", "src/cli/line_editor.h", "src/cli/line_editor.cpp", "src/host/progress_bar.cpp",
         "src/base/log.cpp", "src/base/check.cpp")


def process(path, text):
    """Standard streams, signals and thread starts belong to one folder, so that their failures are handled in one place, without exceptions."""
    if path.startswith(PROCESS):
        return []
    code = code_alone(text)
    found = grep(path, code, r"\bstd::j?thread\s*[({]|\bstd::j?thread\s+\w+\s*[({]|\b(std::)?async\s*\(|\basio::thread_pool\b|\bpthread_create\b",
                 "threads are started by start_thread()")
    if path != "src/cli/key_source.cpp":  # the window's size, while a line is edited
        found += grep(path, code, r"\b(std::signal|sigaction|sigprocmask|pthread_sigmask)\s*\(", "signals are those of Interrupts")
    found += grep(path, code, r"\bfmt::print\s*\(|\bstd::(cout|cerr|clog|printf|puts|putchar|perror)\b|(?<![\w:])(printf|perror)\s*\(",
                  "what is printed goes through base/process/streams.h")
    if path not in DRAWS:
        found += grep(path, code, r"\b(stdout|stderr)\b", "stdout and stderr belong to base/process/streams.h")
    return found


def regexes(path, text):
    return grep(path, without_comments(text), r"\bstd::w?regex|<regex>", "never std::regex: it recurses over its input")


def promises(path, text):
    """Comments describe the code, not future plans."""
    return grep(path, text, r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b", "no notes to self: do it, or leave it out")


COMMENT = re.compile(r"(?m)(?:^\s*|\s)//+ (.+)$")
HASH_COMMENT = re.compile(r'(?m)^\s*(?:#+ |"""(?=\w))(.+)$')
UNCLEAR = re.compile("|".join((
    r"^(?:What|Of|Whether|Where)\b(?![^.?]*\?)",
    r"\bbehind\b", r"\b(?:no|some)body\b", r"\bwhoever\b",
    r"\bguess(?:es|ed)?\b", r"\bguesser\b",
    r"\bgiven up\b", r"\bgives? up\b", r"\bgoes on\b",
    r"\b(?:THREATS|DESIGN)\b",
)))
VAGUE = re.compile("|".join((
    r"(?:^|[.,;:] )[Ww]ho(?:se)?\b", r"^(?:How|As|So|Those)\b(?![^.?]*\?)",
    r"\bthoughts?\b",
    r"\btells? (?:of|how|what|whether|apart)\b", r"\bis told\b",
    r"\bgo(?:ne)? on (?:from|with)\b", r"\bits (?:seat|turn)\b",
)))
# Number of comments with such words by folder. Lower it with each comment that is improved.
VAGUE_COMMENTS = {"src/": 2, "tests/": 1, "tools/": 0, "bench/": 0, "web/": 0, "cmake/": 0}


def comments(path, text):
    """Yields the position and the words of each comment line. Of Python, shell and CMake also the first line of a docstring."""
    for m in (HASH_COMMENT if path.endswith((".py", ".sh", ".cmake", ".txt")) else COMMENT).finditer(text):
        yield m.start(1), m[1]


def without_quotes(words):
    return re.sub(r'"[^"]*"|`[^`]*`', "", words)


def unclear_comments(path, text):
    """Comments are sentences with standard terms: not fragments such as "What is left", nor words that hide a relation, such as "behind", nor references to documents outside the tree."""
    return [f"{path}:{line_of(text, at)}: say it in a sentence with standard terms: {words}"
            for at, words in comments(path, text) if UNCLEAR.search(without_quotes(words))]


def vague_comments(texts, recorded):
    """The number of comments with words that are right at times, such as "whose", only falls. `texts` maps paths to texts; `recorded` is the number so far."""
    found = [f"{path}:{line_of(text, at)}: {words}" for path, text in texts.items() for at, words in comments(path, text) if VAGUE.search(without_quotes(words))]
    if len(found) > recorded:
        return [f"{len(found)} vague comments, {recorded} are recorded: put the new ones in plain words:", *found]
    return [f"{len(found)} vague comments, {recorded} are recorded: record the lower number in VAGUE_COMMENTS"] if len(found) < recorded else []


# A file name in a comment or document. `*`, `{a,b}` and words in capitals stand for others (see stale_paths).
FILE_NAME = re.compile(r"(?<![\w.*/{}<>$~@-])(?:[\w-]+/)*[\w-]+\.(?:cpp|h|inl|cu|cuh|py|mjs|cmake|md)\b(?![\w(])")
FOREIGN_FILES = re.compile(r"(?:.*/|.*_)?llama\.cpp|ggml-common\.h|convert_lora_to_gguf\.py|vllm/.*|doc/xxhash_spec\.md|setup\.py|AGENTS\.md|CLAUDE\.md|QWEN\.md")


def missing_files(path, text, paths):
    """Files of this tree that comments and documents name must exist."""
    by_name = {}
    for p in paths:
        by_name.setdefault(p.rpartition("/")[2], []).append("/" + p)
    wrong = []
    for at, words in [(0, text)] if path.endswith(".md") else comments(path, text):
        for m in FILE_NAME.finditer(words):
            is_known = any(p.endswith("/" + m[0]) for p in by_name.get(m[0].rpartition("/")[2], []))
            if not is_known and not PLACEHOLDER.search(m[0]) and not FOREIGN_FILES.fullmatch(m[0]):
                wrong.append(f"{path}:{line_of(text, at + m.start())}: no file {m[0]}")
        wrong += [f"{path}:{line_of(text, at + start)}: {name} does not exist" for start, name in stale_names_of_paths(words, paths)]
    return wrong


def standard_library_in_kernels(path, text):
    """An inline function of the standard library, compiled for a newer CPU, could become the copy that the whole program calls."""
    if not KERNEL_FILE.search(path):
        return []
    found = [f"{path}:{line}: <{name}> in a file compiled for one instruction set"
             for line, name, quoted in includes(text) if not quoted and name not in KERNEL_HEADERS]
    return found + grep(path, code_alone(text), r"\bstd::(?!byte\b|size_t\b|u?int\d+_t\b|nullptr_t\b)",
                        "the standard library in a file compiled for one instruction set")


def shared_symbols(listing, namespace_of):
    """listing: `nm -C --defined-only` of a kernel's object file. Weak symbols are merged across the program, so each must be in the namespace of
    its instruction set."""
    weak = (line.split(maxsplit=2)[2] for line in listing.splitlines() if re.match(r"[0-9a-f]+ [WVu] ", line))
    return [f"{symbol} is shared with code for other CPUs" for symbol in weak if namespace_of not in symbol]


def types_of_one_name(texts):
    """texts: headers by path. Two classes with one name in namespace kvik share their inline functions in the linked program, such as destructors."""
    places = {}
    for path, text in texts.items():
        code = code_alone(text)
        if not re.search(r"^namespace kvik \{", code, re.M) or re.search(r"^namespace (?!kvik \{|CLI\b|boost\b|std\b)\w+", code, re.M):
            continue
        for match in re.finditer(r"^(?:class|struct)\s+(?:\w+\([^)]*\)\s*)?(\w+)(?:\s+final)?\s*(?::[^:;{]*(?:::[^:;{]*)*)?\{", code, re.M):
            places.setdefault(match[1], []).append(path)
    return [f"{name} is defined in {' and '.join(paths)}" for name, paths in sorted(places.items()) if len(paths) > 1]


def length(path, text):
    """Returns (errors, warnings)."""
    n = text.count("\n")
    if re.search(r"generated by", "\n".join(text.splitlines()[:5]), re.I):
        return [], []
    if n > MAX_LINES:
        return [f"{path}: {n} lines, more than {MAX_LINES}"], []
    return [], [f"{path}: {n} lines want splitting"] if n > MANY_LINES else []


def document_length(path, text, limit):
    n = text.count("\n")
    return [f"{path}: {n} lines, more than {limit}"] if n > limit else []


PATH_IN_TEXT = re.compile(r"(?<![\w./-])((?:src|tests|tools|cmake|bench|docs|deploy|models|web)/[\w./*{},-]*[\w*}/]|\./(?:run|test)\b)")
IDENTIFIER = re.compile(r"`(?:kvik::)?((?:[A-Za-z_]\w*::)*[A-Z][a-z]\w*|(?:[A-Za-z_]\w*::)*[a-z_]\w*(?=\(\)))(?:\(\))?`")


PLACEHOLDER = re.compile(r"\b(?:NAME|FAMILY|MODEL)(?=_|\b)")


def stale_names_of_paths(text, paths):
    """Yields the position and the name of each path in the text that does not exist; `*`, `{a,b}` and words such as NAME stand for several."""
    for m in PATH_IN_TEXT.finditer(text):
        for name in braces(PLACEHOLDER.sub("*", m[1]).removeprefix("./").rstrip("/")):
            if not any(fnmatch.fnmatch(p, name) or fnmatch.fnmatch(p, name + "/*") for p in paths):
                yield m.start(), name


def braces(name):
    m = re.search(r"\{([^{}]*)\}", name)
    if not m:
        return [name]
    return [n for choice in m[1].split(",") for n in braces(name[:m.start()] + choice + name[m.end():])]


def stale_names(path, text, words):
    """Types and functions in backticks, `Engine` or `Engine::step()`, must occur in the sources."""
    return [f"{path}:{line_of(text, m.start())}: no `{part}` in the sources"
            for m in IDENTIFIER.finditer(text) for part in m[1].split("::") if part not in words]


def workplace(path, text):
    """The tree is self-contained: it names no folder of the development machine, except one neighbor with test data."""
    here = re.escape(TREE_ROOT)
    found = grep(path, text, here + r"|/" r"root/|(?<![\w.])/home/\w+", "names a folder of one machine")
    return found + grep(path, text, r"\.\./shared/(?!data\b)", "reads beside the tree what is not test data")


# Modules of Debian's python3-* packages, with the package that tools/packages.sh must list.
PYTHON_PACKAGES = {"numpy": "python3-numpy", "jinja2": "python3-jinja2", "zmq": "python3-zmq", "msgpack": "python3-msgpack",
                   "jsonschema": "python3-jsonschema", "yaml": "python3-yaml"}


def python_of_debian(path, text):
    """Scripts run Debian's Python with Debian's modules, even if another Python comes first on the PATH. Scripts that use torch are exempt,
    because Debian does not have it."""
    if path.endswith(".py"):
        is_other = text.startswith("#!/usr/bin/env python3\n") and "import torch" not in text
        return [f"{path}:1: starts with the first Python on the PATH, not with #!/usr/bin/python3"] if is_other else []
    return grep(path, text, r"(?<![\w/.-])python3 (?=[\w$\"/.-]*\.py)", "runs the first Python on the PATH, not /usr/bin/python3")


def unlisted_packages(path, text, packages):
    """Tests import only modules whose Debian packages are in tools/packages.sh."""
    return [f"{path}:{line_of(text, m.start(1))}: imports {m[1]}, but tools/packages.sh does not list {PYTHON_PACKAGES[m[1]]}"
            for m in re.finditer(r"^\s*(?:import|from) (\w+)", text, re.M)
            if m[1] in PYTHON_PACKAGES and PYTHON_PACKAGES[m[1]] not in packages]


def unformatted(root, paths):
    """Returns the changes that clang-format would make, or None if it is not installed."""
    try:
        done = subprocess.run(["clang-format", "--dry-run", "-Werror", *paths], cwd=root, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    lines = re.findall(r"^(\S+?:\d+):\d+: error: ", done.stderr, re.M)
    return [f"{line}: not as clang-format writes it" for line in dict.fromkeys(lines)]
