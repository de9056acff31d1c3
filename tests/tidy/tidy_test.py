"""Tests that the tree follows its own rules, and that every rule can fail."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

import rules

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TREE = rules.Tree(ROOT)
SCRIPTS = TREE.matching("*.py", "*.sh", "*.cmake", "*.mjs", "*.ts", "*.tsx")


class TheTree(unittest.TestCase):
    def holds(self, wrong):
        if wrong:
            self.fail("\n" + "\n".join(wrong))

    def each(self, rule, paths):
        self.holds([w for p in paths for w in rule(p, TREE.text(p))])

    def test_floors_include_only_what_lies_below_them(self):
        self.each(rules.include_arrows, TREE.sources("src/"))

    def test_floors_reach_through_headers_only_what_lies_below_them(self):
        self.holds(rules.reached_arrows({p: TREE.text(p) for p in TREE.sources("src/")}))

    def test_headers_of_values_hold_values_alone(self):
        self.holds(rules.value_headers({p: TREE.text(p) for p in TREE.sources("src/") if p.endswith(".h")}))

    def test_folders_have_not_outgrown_their_readers(self):
        self.holds(rules.folder_sizes(TREE.paths))

    def test_headers_do_not_include_each_other_in_circles(self):
        headers = [p for p in TREE.sources("src/") if p.endswith(".h")]
        self.holds(rules.include_cycles({p: TREE.text(p) for p in headers}))

    def test_folders_of_a_floor_do_not_include_each_other(self):
        self.holds(rules.mutual_folders({p: TREE.text(p) for p in TREE.sources("src/")}))

    def test_the_environment_is_read_in_main_alone(self):
        self.each(rules.environment, TREE.sources("src/"))

    def test_families_and_devices_are_not_asked_for_by_name(self):
        self.each(rules.family_branches, TREE.sources("src/"))

    def test_nothing_throws(self):
        self.each(rules.throws, TREE.sources("src/"))

    def test_variants_can_be_copied_without_memory(self):
        self.each(rules.variants, TREE.sources("src/"))

    def test_locks_say_what_they_guard(self):
        self.each(rules.locks, TREE.sources("src/"))

    def test_streams_signals_and_threads_have_one_owner(self):
        self.each(rules.process, TREE.sources("src/"))

    def test_no_std_regex(self):
        self.each(rules.regexes, TREE.sources("src/", "tests/", "bench/"))

    def test_no_notes_to_self(self):
        self.each(rules.promises, TREE.sources("src/", "tests/", "bench/") + TREE.matching("*.py", "*.md", "*.cmake", "*.txt"))

    def test_comments_are_sentences_with_standard_terms(self):
        self.each(rules.unclear_comments, TREE.sources("src/", "tests/", "bench/") + SCRIPTS)

    def test_vague_words_in_comments_only_become_fewer(self):
        for folder, recorded in rules.VAGUE_COMMENTS.items():
            with self.subTest(folder=folder):
                self.holds(rules.vague_comments({p: TREE.text(p) for p in TREE.sources(folder) + SCRIPTS if p.startswith(folder)}, recorded))

    def test_comments_and_documents_name_files_that_exist(self):
        documents = [p for p in TREE.matching("*.md") if p != "CHANGELOG.md"]  # it may name what was removed later
        self.each(lambda path, text: rules.missing_files(path, text, TREE.paths),
                  TREE.sources("src/", "tests/", "bench/") + SCRIPTS + TREE.matching("*CMakeLists.txt") + documents)

    def test_kernels_do_without_the_standard_library(self):
        self.each(rules.standard_library_in_kernels, TREE.sources("src/") + TREE.matching("src/*.cpp.in"))

    def test_object_files_of_kernels_share_no_function_with_others(self):
        objects = glob.glob(f"{os.environ.get('KVIK_BUILD', ROOT + '/build')}/**/*_avx*.cpp.o", recursive=True)
        wrong = []
        for path in objects:
            isa = os.path.basename(path).removesuffix(".cpp.o").rpartition("_")[2]
            listing = subprocess.run(["nm", "-C", "--defined-only", path], capture_output=True, text=True, check=True).stdout
            wrong += [f"{os.path.basename(path)}: {w}" for w in rules.shared_symbols(listing, f"::{isa}::")]
        self.holds(wrong)

    def test_types_have_names_of_their_own(self):
        self.holds(rules.types_of_one_name({p: TREE.text(p) for p in TREE.sources("src/") if p.endswith(".h")}))

    def test_files_have_not_outgrown_their_readers(self):
        code = TREE.sources("src/", "tests/", "bench/") + TREE.matching("*.py")
        errors, warnings = zip(*(rules.length(p, TREE.text(p)) for p in code))
        for w in sum(warnings, []):
            print("warning:", w, file=sys.stderr)
        self.holds(sum(errors, []))

    def test_documents_stay_short(self):
        self.holds([w for path, limit in (("README.md", 120), ("ARCHITECTURE.md", 200))
                    for w in rules.document_length(path, TREE.text(path), limit)])

    def test_documents_name_what_exists(self):
        words = set(rules.re.findall(r"\w+", "\n".join(TREE.text(p) for p in TREE.sources("src/", "tests/"))))
        wrong = []
        for path in ("ARCHITECTURE.md", *(f"docs/design/{name}.md" for name in ("exactness", "kv_cache", "life_of_a_request", "scheduler"))):
            wrong += rules.stale_names(path, TREE.text(path), words)
        self.holds(wrong)

    def test_no_file_tells_where_it_was_written(self):
        texts = [p for p in TREE.paths if not p.endswith((".gguf", ".npy", ".png"))]
        self.each(rules.workplace, [p for p in texts if p != "tests/tidy/rules.py"])

    def test_scripts_run_the_python_of_debian(self):
        self.each(rules.python_of_debian, TREE.matching("*.py", "*.sh", "*.cmake", "*CMakeLists.txt", "run", "test", ".ci/run"))

    def test_packages_of_the_tests_are_listed(self):
        packages = TREE.text("tools/packages.sh").split()
        self.holds([w for p in TREE.matching("tests/*.py", "tools/*.py") for w in rules.unlisted_packages(p, TREE.text(p), packages)])
        self.assertIn("json-schema-test-suite", packages)  # for tests/e2e/constrain_test.py

    def test_clang_format_has_nothing_to_change(self):
        wrong = rules.unformatted(ROOT, TREE.sources("src/", "tests/", "bench/"))
        if wrong is None:
            self.skipTest("clang-format is not installed")
        self.holds(wrong)


class EveryRuleCanFail(unittest.TestCase):
    """Tests each rule on a line that breaks it, and on a similar valid line."""

    def rejects(self, rule, path, *texts):
        for text in texts:
            self.assertTrue(rule(path, text), f"{path} should not hold: {text}")

    def accepts(self, rule, path, *texts):
        for text in texts:
            self.assertEqual(rule(path, text), [], f"{path} may hold: {text}")

    def test_include_arrows(self):
        wrong = {
            "src/base/a.h": ["tensor/tensor_view.h", "kv/page_pool.h"],
            "src/tensor/a.h": ["backend/backend.h", "format/gguf/gguf.h"],
            "src/backend/cpu/a.cpp": ["kv/kv_view.h", "model/config.h", "engine/engine.h", "format/gguf/gguf.h"],
            "src/format/a.cpp": ["model/config.h", "backend/backend.h"],
            "src/text/a.cpp": ["engine/request/request.h", "format/gguf/gguf.h"],
            "src/kv/a.cpp": ["model/config.h", "backend/backend.h", "engine/engine.h", "backend/host_memory.h"],
            "src/model/a.cpp": ["kv/page_pool.h", "backend/cpu/cpu_backend.h", "text/tokenizer.h", "engine/engine.h"],
            "src/engine/a.cpp": ["text/tokenizer.h", "service/service.h", "backend/cpu/cpu_backend.h"],
            "src/service/a.cpp": ["server/server.h", "kv/page_pool.h", "model/decoder.h"],
            "src/server/a.cpp": ["engine/request/request.h", "kv/page_pool.h", "text/tokenizer.h", "model/decoder.h", "main/serve.h"],
            "src/main/a.cpp": ["tests/fake.h", "page_pool.h", "../kv/page_pool.h"],
        }
        for path, names in wrong.items():
            self.rejects(rules.include_arrows, path, *(f'#include "{n}"\n' for n in names))
        self.rejects(rules.include_arrows, "src/engine/a.cpp", "#include <boost/json.hpp>\n", "  #  include <unicode/uchar.h>\n")
        self.rejects(rules.include_arrows, "src/kv/a.cpp", "#include <gtest/gtest.h>\n", "#include <CLI/CLI.hpp>\n")
        self.rejects(rules.include_arrows, "src/kv/a.cpp", 'auto s = "//";\n#include "engine/engine.h"\n')

        right = {
            "src/tensor/a.h": ["base/check.h", "tensor/half.h"],
            "src/kv/a.h": ["backend/memory.h", "kv/page_pool.h", "tensor/kv_type.h"],
            "src/model/a.h": ["format/gguf/gguf.h", "backend/backend.h", "kv/kv_view.h", "base/metadata.h"],
            "src/server/a.h": ["service/service.h", "base/log.h"],
            "src/main/a.cpp": ["backend/cpu/cpu_backend.h", "server/server.h"],
        }
        for path, names in right.items():
            self.accepts(rules.include_arrows, path, *(f'#include "{n}"\n' for n in names))
        self.accepts(rules.include_arrows, "src/server/a.cpp", "#include <boost/asio.hpp>\n", '// #include "kv/page_pool.h"\n')

    def test_reached_arrows(self):
        tree = {"src/server/a.cpp": '#include "service/service_api.h"', "src/service/service_api.h": '#include "kv/pin.h"',
                "src/kv/pin.h": '#include "base/clock.h"', "src/base/clock.h": ""}
        self.assertEqual(rules.reached_arrows(tree), [])
        for name in ("kv/kv_cache.h", "engine/engine.h"):
            tree["src/service/service_api.h"] = f'#include "{name}"'
            self.assertTrue([w for w in rules.reached_arrows(tree) if w.startswith(f"server may not reach {name}: src/server/a.cpp → ")])
        tree = {"src/engine/a.cpp": '#include "model/decoder.h"', "src/model/decoder.h": '#include "backend/backend.h"\n#include "format/gguf/gguf.h"'}
        self.assertEqual(len(rules.reached_arrows(tree)), 1)
        self.assertEqual(rules.reached_arrows({"src/main/a.cpp": '#include "service/b.h"', "src/service/b.h": '#include "engine/c.h"'}), [])

    def test_value_headers(self):
        texts = {"src/" + name: '#include "base/clock.h"\n#include "kv/pin.h"\n' for name in rules.VALUE_HEADERS}
        self.assertEqual(rules.value_headers(texts), [])
        self.assertEqual(len(rules.value_headers(texts | {"src/kv/page_cell.h": '#include "kv/page_map.h"'})), 1)
        del texts["src/kv/pin.h"]
        self.assertEqual(len(rules.value_headers(texts)), 1)

    def test_folder_sizes(self):
        files = [f"src/kv/a{i}.h" for i in range(40)]
        self.assertEqual(rules.folder_sizes(files + ["src/tier/b.h"]), [])
        self.assertTrue(rules.folder_sizes(files + ["src/kv/b.h"]))

    def test_include_cycles(self):
        self.assertEqual(len(rules.include_cycles({
            "src/kv/a.h": '#include "kv/b.h"', "src/kv/b.h": '#include "kv/c.h"', "src/kv/c.h": '#include "kv/a.h"'})), 1)
        self.assertEqual(rules.include_cycles({
            "src/kv/a.h": '#include "kv/b.h"\n#include "kv/c.h"', "src/kv/b.h": '#include "kv/c.h"', "src/kv/c.h": ""}), [])

    def test_mutual_folders(self):
        headers = {"src/kv/a/x.h": "", "src/kv/b/y.h": "", "src/kv/z.h": '#include "kv/a/x.h"'}
        self.assertEqual(len(rules.mutual_folders({
            **headers, "src/kv/a/x.cpp": '#include "kv/b/y.h"', "src/kv/b/y.cpp": '#include "kv/a/x.h"'})), 1)
        self.assertEqual(rules.mutual_folders({
            **headers, "src/kv/a/x.cpp": '#include "kv/b/y.h"\n#include "kv/z.h"', "src/kv/b/y.cpp": '#include "kv/z.h"'}), [])

    def test_environment(self):
        self.rejects(rules.environment, "src/base/a.cpp", 'getenv("X")', 'std::getenv("X")', "secure_getenv(name)")
        self.accepts(rules.environment, "src/base/a.cpp", "// getenv", 'log("getenv")', "target_envelope")
        self.accepts(rules.environment, "src/main/a.cpp", 'getenv("X")')

    def test_family_branches(self):
        self.rejects(rules.family_branches, "src/model/decoder.cpp", 'if (arch == "llama")', 'if (config.architecture != "gemma2")',
                     'if (architecture.starts_with("gemma"))', 'return "llama" == arch;', "#ifdef KVIK_CUDA\n", "#if defined(USE_HIP)\n")
        self.accepts(rules.family_branches, "src/catalogue/families.cpp", 'if (arch == "llama")')
        self.rejects(rules.family_branches, "src/model/config.cpp", 'if (arch == "llama")')
        self.accepts(rules.family_branches, "src/model/decoder.cpp", '// arch == "llama"', "#ifdef NDEBUG\n", "search == 3", "if (a.arch == b.arch)")

    def test_throws(self):
        self.rejects(rules.throws, "src/kv/a.cpp", "throw std::runtime_error(x);", "if (bad) throw;")
        self.accepts(rules.throws, "src/kv/a.cpp", "new (std::nothrow) int", "// throw", '"throw"', "/* they\nthrow */")

    def test_variants(self):
        self.rejects(rules.variants, "src/service/a.h", "std::variant<bool, std::string> a;", "std::variant<int,\n    std::vector<int>> a;")
        self.accepts(rules.variants, "src/service/a.h", "Variant<bool, std::string> a;", "std::variant<A, std::unique_ptr<B>> a;", "// std::variant<std::string>")

    def test_locks(self):
        self.rejects(rules.locks, "src/kv/a.cpp", "std::mutex m;", "const std::scoped_lock lock(m);", "std::shared_mutex m;", "std::condition_variable_any c;")
        self.accepts(rules.locks, "src/kv/a.cpp", "Mutex m;", "const MutexLock lock(m);", "// std::mutex", "std::once_flag once;")
        self.accepts(rules.locks, "src/base/mutex.h", "std::mutex m;")

    def test_process(self):
        self.rejects(rules.process, "src/engine/a.cpp", "thread_ = std::thread([this] { main(); });", "std::thread waiter([&] {});", "std::jthread t{f};",
                     "boost::asio::thread_pool offload{2};", "std::async(f)", "std::signal(SIGHUP, SIG_IGN);", "::sigaction(SIGINT, &action, nullptr);",
                     'fmt::print("x");', "std::cout << x;", 'std::printf("x");', "std::fwrite(p, 1, n, stdout);")
        self.accepts(rules.process, "src/engine/a.cpp", "std::thread thread_;", "std::thread writer_, reader_;", "std::this_thread::yield();", "// stdout",
                     'log("stderr")', "std::thread::hardware_concurrency()", "std::snprintf(b, n, f);", "Result<std::thread> start();")
        self.accepts(rules.process, "src/base/process/thread.cpp", "return std::thread(std::move(body));")
        self.accepts(rules.process, "src/host/progress_bar.cpp", "streams::write_now(stderr, text);")

    def test_regexes(self):
        self.rejects(rules.regexes, "src/text/a.cpp", "std::regex r;", "#include <regex>\n")
        self.accepts(rules.regexes, "src/text/a.cpp", "my_regex r;", "// std::regex")

    def test_unclear_comments(self):
        def comment(words):
            return f"// {words}\n"

        self.rejects(rules.unclear_comments, "src/a.h", comment("What is left."), comment("Whether it is full."), comment("a guess"), comment("see THREATS 20"),
                     "int n;  // it is behind\n")
        self.accepts(rules.unclear_comments, "src/a.h", comment("The rest."), comment("Returns what is left."), comment("What if it is empty?"),
                     comment('The key "behind".'), '"What is left"')

        self.rejects(rules.unclear_comments, "a.py", "# What is left.\n", '    """Whether it is full."""\n', "    # it is behind\n")
        self.accepts(rules.unclear_comments, "a.py", 'x = "# behind"\n', "# The rest.\n")

    def test_vague_comments(self):
        def rule(path, text):
            return rules.vague_comments({path: text}, 1)

        one = "// Pages, whose keys differ.\n"
        self.rejects(rule, "src/a.h", one + "// So it is.\n", "// Pages.\n")
        self.accepts(rule, "src/a.h", one, one + 'int n = "A page, whose";\n')

    def test_folders_of_builds_and_killed_tests_are_not_read(self):
        with tempfile.TemporaryDirectory() as root:
            for path in ("src/a.h", "build-fuzz/b.h", "web/.unit-x7Qz/c.mjs", "web/node_modules/d.ts"):
                os.makedirs(os.path.join(root, os.path.dirname(path)))
                with open(os.path.join(root, path), "w", encoding="utf-8"):
                    pass
            self.assertEqual(rules.Tree(root).paths, ["src/a.h"])

    def test_missing_files(self):
        def rule(path, text):
            return rules.missing_files(path, text, ["src/kv/a.h", "src/kv/b.cpp", "docs/c.md", "tools/d.py", "models/demo.gguf"])

        self.rejects(rule, "src/a.cpp", "// see c.h\n", "int n;  // of model/a.h\n", "// in src/model/\n", "// docs/gone.md has it.\n")
        self.accepts(rule, "src/a.cpp", "// see a.h and kv/b.cpp\n", "// as in llama.cpp\n", '#include "c.h"\n', "// src/kv/*.h, docs/c.md\n")
        self.rejects(rule, "a.py", "# run tools/gone.py\n")
        self.accepts(rule, "a.py", "# run tools/d.py\n", "run('tools/gone.py')\n", "# tools/NAME.py\n")
        self.rejects(rule, "A.md", "`src/kv/page_index.h`", "see src/kv/gone.", "`src/kv/*_neon.cpp`", "src/kv/a.{h,cpp}", "`./test`")
        self.accepts(rule, "A.md", "`src/kv/a.h`.", "the floor src/kv/ holds", "`src/kv/{a,b}.*`", "../other/src/nothing.h", "models/{demo}.gguf")

    def test_promises(self):
        self.rejects(rules.promises, "src/a.cpp", "// TO" "DO: later", "# FIX" "ME")
        self.accepts(rules.promises, "src/a.cpp", "// to do this, take a page", "TODOS")

    def test_standard_library_in_kernels(self):
        rule = rules.standard_library_in_kernels
        for path in ("src/backend/cpu/rows/rows_avx2.cpp", "src/backend/cpu/rows_avx512bf16.cpp", "src/backend/cpu/rows/rows.inl", "src/backend/cpu/isa/vec_avx512.h",
                     "src/backend/cpu/isa/unit.cpp.in"):
            self.rejects(rule, path, "std::min(a, b)", "#include <algorithm>\n", "std::span<float> x;")
            self.accepts(rule, path, "const std::byte* p;", "std::size_t n;", "// std::min", "#include <immintrin.h>\n")
        self.accepts(rule, "src/backend/cpu/rows/rows_scalar.cpp", "std::min(a, b)")

    def test_shared_symbols(self):
        listing = ("0000000000000000 T kvik::cpu::avx2::make_table()\n"
                   "0000000000000000 W kvik::cpu::avx2::add(kvik::cpu::avx2::F32x16)\n")
        self.assertEqual(rules.shared_symbols(listing, "::avx2::"), [])
        self.assertEqual(len(rules.shared_symbols(listing, "::avx512::")), 1)
        self.assertEqual(len(rules.shared_symbols(listing + "0000000000000010 W int const& std::min<int>(int const&, int const&)\n", "::avx2::")), 1)

    def test_types_of_one_name(self):
        def of(namespace, text):
            return f"namespace {namespace} {{\n{text}\n}}  // namespace {namespace}\n"

        page = of("kvik", "class Page {\n};")
        for other in ("struct Page {\n};", "class Page final : public std::exception {\n};"):
            self.assertEqual(len(rules.types_of_one_name({"a.h": page, "b.h": of("kvik", other)})), 1)
        for other in (of("kvik::hf", "class Page {\n};"), of("kvik", "class Page;"), of("kvik", "class Pages {\n  struct Page {};\n};")):
            self.assertEqual(rules.types_of_one_name({"a.h": page, "b.h": other}), [])

    def test_length(self):
        self.assertEqual(rules.length("src/a.cpp", "\n" * 500), ([], []))
        self.assertTrue(rules.length("src/a.cpp", "\n" * 501)[1])
        self.assertTrue(rules.length("src/a.cpp", "\n" * 801)[0])
        self.assertEqual(rules.length("src/a.cpp", "// Generated by tools/make_tables.py" + "\n" * 801), ([], []))
        self.assertTrue(rules.document_length("README.md", "\n" * 121, 120))
        self.assertEqual(rules.document_length("README.md", "\n" * 120, 120), [])

    def test_stale_names(self):
        words = {"Engine", "step", "PagePool", "plan"}

        def rule(path, text):
            return rules.stale_names(path, text, words)

        self.rejects(rule, "A.md", "`PageIndex`", "`Engine::run()`", "`Motor::step()`", "calls `commit()`", "`kvik::Gone`")
        self.accepts(rule, "A.md", "`Engine::step()`", "`plan()`", "`PagePool`", "`kvik::Engine`", "PageIndex in plain words", "`llama.cpp`", "`demo`")

    def test_workplace(self):
        self.rejects(rules.workplace, "README.md", f"cd {rules.TREE_ROOT}/src", "/ro" "ot/.cache", "/ho" "me/somebody", "../sha" "red/DESIGN.md")
        self.accepts(rules.workplace, "README.md", "../shared/data/demo.gguf", "network/worker", "the work/life of a page")

    def test_python_of_debian(self):
        self.rejects(rules.python_of_debian, "tools/a.py", "#!/usr/bin/env python3\nimport numpy\n")
        self.accepts(rules.python_of_debian, "tools/a.py", "#!/usr/bin/python3\n", "#!/usr/bin/env python3\nimport torch\n")
        self.rejects(rules.python_of_debian, "test", "exec python3 tools/count_tests.py", 'python3 "$x/a.py"')
        self.accepts(rules.python_of_debian, "test", "exec /usr/bin/python3 tools/count_tests.py", "python3-numpy  # for a.py")

    def test_unlisted_packages(self):
        def rule(path, text):
            return rules.unlisted_packages(path, text, ["python3-numpy"])

        self.rejects(rule, "tests/e2e/a_test.py", "import zmq", "import os\nfrom jsonschema import validate")
        self.accepts(rule, "tests/e2e/a_test.py", "import numpy as np", "import json")

    def test_unformatted(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/a.cpp", "w") as f:
                f.write("int   main( ){return 0 ;}\n")
            with open(f"{folder}/.clang-format", "w") as f:
                f.write("BasedOnStyle: Google\n")
            wrong = rules.unformatted(folder, ["a.cpp"])
            if wrong is None:
                self.skipTest("clang-format is not installed")
            self.assertTrue(wrong)
            with open(f"{folder}/a.cpp", "w") as f:
                f.write("int main() { return 0; }\n")
            self.assertEqual(rules.unformatted(folder, ["a.cpp"]), [])


if __name__ == "__main__":
    unittest.main()
