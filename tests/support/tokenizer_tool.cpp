// Answers the queries of tools/measure/tokenizer_peers.mjs about one vocabulary.
//   tokenizer_tool ids VOCABULARY.gguf AS    stdin: texts, each after its byte count (u32, little
//                                            endian); stdout: one line of ids per text
//   tokenizer_tool back VOCABULARY.gguf AS   reads the same; prints one line per text: 1 if the
//                                            ids decode to the same bytes, otherwise 0
//   tokenizer_tool json VOCABULARY.gguf AS   writes the vocabulary as tokenizer.json
//   tokenizer_tool gguf VOCABULARY.gguf AS   writes the vocabulary as a GGUF file without tensors
// AS: "itself"; "unigram", "gemma4" or "word-piece", which are derived from the vocabulary; or the
// name of another pre-tokenizer.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "format/gguf_writer.h"
#include "text/derived_vocabularies.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/vocabularies.h"

namespace kvik {
namespace {

Metadata as(const Metadata& metadata, const std::string& kind) {
  if (kind == "itself") return metadata;
  if (kind == "unigram") return as_unigram(metadata);
  if (kind == "gemma4") return as_gemma4(metadata);
  if (kind == "word-piece") return as_word_piece(metadata);
  return with(metadata, "tokenizer.ggml.pre", kind);
}

std::optional<std::string> next_text() {
  uint32_t n_bytes = 0;
  if (!std::cin.read(reinterpret_cast<char*>(&n_bytes), sizeof(n_bytes))) return std::nullopt;
  std::string text(n_bytes, '\0');
  std::cin.read(text.data(), n_bytes);
  return text;
}

void print_ids(const Tokenizer& tokenizer) {
  while (const auto text = next_text()) {
    std::cout << fmt::format("{}\n", fmt::join(tokenizer.tokenize(*text, {.add_bos = false}), " "));
  }
}

void print_round_trip(const Tokenizer& tokenizer) {
  while (const auto text = next_text()) {
    const auto ids = tokenizer.tokenize(*text, {.add_bos = false});
    std::string back;
    for (const TokenId id : ids) back += tokenizer.piece(id, Tokenizer::Special::kShow);
    if (tokenizer.strips_leading_space() && back.starts_with(' ')) back.erase(0, 1);
    std::cout << (back == *text ? "1\n" : "0\n");
  }
}

// Writes numbers with the types that converters use.
void print_gguf(const Metadata& metadata) {
  GgufWriter file;
  if (!metadata.contains("general.architecture")) file.key("general.architecture", "bert");
  for (const auto& [key, value] : metadata.values()) {
    const auto write = [&, name = std::string_view(key)](const auto& v) {
      using T = std::remove_cvref_t<decltype(v)>;
      if constexpr (std::is_same_v<T, uint64_t>) {
        file.key(name, static_cast<uint32_t>(v));
      } else if constexpr (std::is_same_v<T, int64_t>) {
        file.key(name, static_cast<int32_t>(v));
      } else if constexpr (std::is_same_v<T, double>) {
        file.key(name, static_cast<float>(v));
      } else if constexpr (std::is_same_v<T, std::vector<double>>) {
        file.key(name, std::vector<float>(v.begin(), v.end()));
      } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
        file.key(name, std::vector<int32_t>(v.begin(), v.end()));
      } else if constexpr (std::is_same_v<T, std::vector<uint64_t>>) {
        file.key(name, std::vector<uint32_t>(v.begin(), v.end()));
      } else if constexpr (!std::is_same_v<T, std::vector<bool>>) {
        file.key(name, v);
      }
    };
    std::visit(write, value);
  }
  const auto bytes = file.bytes();
  std::cout.write(reinterpret_cast<const char*>(bytes.data()),
                  static_cast<std::streamsize>(bytes.size()));
}

int run(const std::string& what, const std::string& path, const std::string& kind) {
  const auto original = metadata_of_file(path);
  if (!original) {
    std::cerr << path << " is no GGUF file\n";
    return 1;
  }
  const Metadata metadata = as(*original, kind);
  if (what == "ids") print_ids(*load(metadata));
  if (what == "back") print_round_trip(*load(metadata));
  if (what == "json") std::cout << tokenizer_json(metadata, Specials::kLeaveOut);
  if (what == "gguf") print_gguf(metadata);
  return 0;
}

}  // namespace
}  // namespace kvik

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  if (argc != 4) {
    std::cerr << "usage: tokenizer_tool ids|back|json|gguf VOCABULARY.gguf AS\n";
    return 2;
  }
  return kvik::run(argv[1], argv[2], argv[3]);
}
