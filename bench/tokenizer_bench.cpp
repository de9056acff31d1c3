// Benchmarks tokenization on one thread: a megabyte of ordinary text, a prompt of 100 KB, and a
// megabyte of input that is hard for tokenizers. There is no cache between texts, so every run
// begins cold.
//   bench_tokenizer FOLDER TEXT… [--benchmark_…]
// FOLDER holds vocabularies (*.gguf); missing kinds are derived. The files TEXT are concatenated
// and repeated until they fill a megabyte.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "format/gguf/gguf.h"
#include "text/derived_vocabularies.h"
#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/vocabularies.h"

namespace kvik {
namespace {

constexpr size_t kMegabyte = 1'000'000;

std::map<std::string, Metadata> read_vocabularies(const std::string& folder) {
  std::map<std::string, Metadata> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    if (auto metadata = metadata_of_file(entry.path())) {
      all.emplace(entry.path().stem(), std::move(*metadata));
    }
  }
  std::map<std::string, Metadata> derived;
  for (const auto& [name, metadata] : all) {
    if (name.ends_with("llama-spm")) {
      derived.emplace("derived-unigram", as_unigram(metadata));
      derived.emplace("derived-gemma4", as_gemma4(metadata));
    }
    if (!name.ends_with("gpt-2")) continue;
    derived.emplace("derived-word-piece", as_word_piece(metadata));
    for (const char* pre : {"default", "llama-bpe", "qwen2", "deepseek-coder", "deepseek-v3",
                            "starcoder", "tekken", "gpt-4o", "kimi-k2"}) {
      derived.emplace(std::string("gpt-2-as-") + pre,
                      with(metadata, "tokenizer.ggml.pre", std::string(pre)));
    }
  }
  all.merge(derived);
  return all;
}

// Returns the texts, repeated and cut to at most `n_bytes` at a character boundary.
std::string first(const std::string& text, size_t n_bytes) {
  std::string filled;
  while (filled.size() < n_bytes) filled += text;
  while ((filled[n_bytes] & 0xC0) == 0x80) --n_bytes;
  filled.resize(n_bytes);
  return filled;
}

void add(const std::string& name, const Tokenizer& tokenizer, const std::string& text) {
  benchmark::RegisterBenchmark(name.c_str(), [&tokenizer, text](benchmark::State& state) {
    size_t n_ids = 0;
    for (auto _ : state) n_ids = tokenizer.tokenize(text, {.add_bos = false}).size();
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
    state.counters["bytes_per_token"] =
        static_cast<double>(text.size()) / static_cast<double>(std::max<size_t>(n_ids, 1));
  })->Unit(benchmark::kMillisecond);
}

void add_all(const std::string& folder, const std::string& ordinary) {
  static std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  const std::pair<const char*, std::string> hostile[] = {
      {"a", "a"},
      {"blanks", " "},
      {"newlines", "\n"},
      {"digits", "7"},
      {"cjk", "\xE6\x88\x91"},
      {"cjk_many",
       "\xE6\x88\x91\xE4\xBB\xAC\xE7\x9A\x84\xE6\x99\xBA\xE5\x8A\x9B\xE8\xAF\xAD\xE6\x96\x87"},
      {"alternating_case", "aA"},
      {"emoji", "\xF0\x9F\x98\x81"},
      {"invalid", "\xFF"},
  };
  for (const auto& [name, metadata] : read_vocabularies(folder)) {
    tokenizers.push_back(load(metadata));
    const Tokenizer& tokenizer = *tokenizers.back();
    add(name + "/ordinary_1MB", tokenizer, first(ordinary, kMegabyte));
    add(name + "/ordinary_100KB", tokenizer, first(ordinary, kMegabyte / 10));
    for (const auto& [what, unit] : hostile) {
      add(name + "/" + what + "_1MB", tokenizer, first(unit, kMegabyte));
    }
  }
}

}  // namespace
}  // namespace kvik

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc < 3) {
    std::cerr << "usage: bench_tokenizer FOLDER TEXT… [--benchmark_…]\n";
    return 2;
  }
  std::string ordinary;
  for (int i = 2; i < argc; ++i) ordinary += kvik::read_text(argv[i]);
  if (ordinary.empty()) {
    std::cerr << "the texts are empty\n";
    return 1;
  }
  kvik::add_all(argv[1], ordinary);
  benchmark::RunSpecifiedBenchmarks();
}
