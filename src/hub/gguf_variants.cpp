#include "hub/gguf_variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "base/printable.h"
#include "base/text/ascii_case.h"

namespace kvik {
namespace {

// The order in which a quantization is chosen if none is named.
constexpr std::array<std::string_view, 14> kUsualQuants = {
    "Q4_K_M", "Q4_K_S", "UD-Q4_K_XL", "Q4_0", "MXFP4", "MXFP4_MOE", "IQ4_XS",
    "Q5_K_M", "Q6_K",   "Q8_0",       "BF16", "F16",   "FP16",      "F32"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns whether an uppercase word is a quantization: Q4_K_M, IQ2_XXS, TQ1_0, BF16, MXFP4_MOE.
bool is_quant(std::string_view word) {
  for (const std::string_view type : {"F16", "FP16", "BF16", "F32", "FP32"}) {
    if (word == type) return true;
  }
  if (word.starts_with("MXFP4") || word.starts_with("NVFP4")) return true;
  for (const std::string_view prefix : {"Q", "IQ", "TQ"}) {
    if (!word.starts_with(prefix) || word.size() <= prefix.size()) continue;
    if (is_digit(word[prefix.size()]) &&
        (word.size() == prefix.size() + 1 || word[prefix.size() + 1] == '_'))
      return true;
  }
  return false;
}

std::string quant_in_word(std::string_view stem) {
  std::string text = ascii_upper(stem);
  std::string last;
  size_t end = text.size();
  while (end > 0) {
    const size_t separator = text.find_last_of("-.", end - 1);
    const size_t begin = separator == std::string::npos ? 0 : separator + 1;
    std::string word = text.substr(begin, end - begin);
    // "MODEL_Q4_K_M": the quantization contains the separator.
    for (size_t at = word.find('_'); !is_quant(word) && at != std::string::npos;
         at = word.find('_', at + 1)) {
      if (is_quant(std::string_view(word).substr(at + 1))) word = word.substr(at + 1);
    }
    if (is_quant(word)) {
      const bool is_dynamic = begin >= 3 && text.compare(begin - 3, 3, "UD-") == 0 &&
                              (begin == 3 || text[begin - 4] == '-');
      return is_dynamic ? "UD-" + word : word;
    }
    if (separator == std::string::npos) break;
    end = separator;
  }
  return "";
}

// A name "STEM-00002-of-00003.gguf".
struct PieceName {
  std::string stem;
  uint32_t number, count;
};

std::optional<PieceName> piece_name(std::string_view path) {
  constexpr std::string_view kForm = "-00001-of-00001.gguf";
  if (path.size() <= kForm.size()) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kForm.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  PieceName piece{std::string(path.substr(0, path.size() - kForm.size())), 0, 0};
  const auto read = [&](size_t at, uint32_t& number) {
    const char* const begin = tail.data() + at;
    const auto [end, error] = std::from_chars(begin, begin + 5, number);
    return error == std::errc() && end == begin + 5;
  };
  if (!read(1, piece.number) || !read(10, piece.count)) return std::nullopt;
  return piece;
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool has_suffix(std::string_view path, std::string_view suffix) {
  return ascii_upper(path).ends_with(ascii_upper(suffix));
}

}  // namespace

uint64_t GgufVariant::n_bytes() const {
  uint64_t sum = 0;
  for (const RepositoryFile& piece : pieces) sum += piece.n_bytes;
  return sum;
}

std::string quant_in_name(std::string_view path) {
  const auto piece = piece_name(path);
  std::string_view rest = piece ? std::string_view(piece->stem) : path;
  if (!piece && has_suffix(rest, ".gguf")) rest.remove_suffix(5);
  for (;;) {
    const size_t slash = rest.rfind('/');
    const std::string quant =
        quant_in_word(slash == std::string_view::npos ? rest : rest.substr(slash + 1));
    if (!quant.empty() || slash == std::string_view::npos) return quant;
    rest = rest.substr(0, slash);
  }
}

bool is_sidecar(std::string_view path) {
  const std::string name = ascii_upper(base_name(path));
  return name.find("MMPROJ") != std::string::npos || name.find("IMATRIX") != std::string::npos ||
         name.starts_with("MTP-");
}

std::vector<GgufVariant> find_gguf_variants(const std::vector<RepositoryFile>& files) {
  std::map<std::string, std::map<uint32_t, RepositoryFile>> split;  // by stem and count
  std::vector<GgufVariant> variants;
  for (const RepositoryFile& file : files) {
    if (!has_suffix(file.path, ".gguf") || is_sidecar(file.path)) continue;
    if (const auto piece = piece_name(file.path)) {
      if (piece->number == 0 || piece->number > piece->count) continue;
      split[fmt::format("{}/{}", piece->stem, piece->count)][piece->number] = file;
    } else {
      variants.push_back({quant_in_name(file.path), {file}});
    }
  }
  for (auto& [stem, pieces] : split) {
    const uint32_t count = piece_name(pieces.begin()->second.path)->count;
    if (pieces.size() != count) continue;
    GgufVariant variant{quant_in_name(pieces.begin()->second.path), {}};
    for (auto& [number, file] : pieces) variant.pieces.push_back(std::move(file));
    variants.push_back(std::move(variant));
  }
  std::ranges::sort(variants, {},
                    [](const GgufVariant& v) { return std::pair(v.quant, v.pieces.front().path); });
  return variants;
}

Result<GgufVariant> choose_variant(const std::vector<GgufVariant>& variants,
                                   const std::string& quant, const std::string& repository) {
  const auto having = [&](std::string_view wanted) {
    std::vector<const GgufVariant*> found;
    for (const GgufVariant& variant : variants) {
      if (variant.quant == wanted) found.push_back(&variant);
    }
    return found;
  };
  std::vector<const GgufVariant*> found;
  if (quant.empty()) {
    for (const std::string_view usual : kUsualQuants) {
      if (found.empty()) found = having(usual);
    }
    if (found.empty() && !variants.empty()) found = having(variants.front().quant);
  } else {
    const std::string wanted = ascii_upper(quant);
    found = having(wanted);
    if (found.empty()) found = having("UD-" + wanted);
  }
  if (found.size() == 1) return *found.front();
  std::vector<std::string> names;
  if (found.empty()) {
    for (const GgufVariant& variant : variants) {
      names.push_back(
          printable(variant.quant.empty() ? variant.pieces.front().path : variant.quant));
    }
    return fail(
        ErrorCode::kNotFound,
        fmt::format("{} has no {}; it has {}", repository,
                    quant.empty() ? "GGUF file" : printable(quant),
                    names.empty() ? "no GGUF file" : fmt::format("{}", fmt::join(names, ", "))));
  }
  for (const GgufVariant* variant : found) names.push_back(printable(variant->pieces.front().path));
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format(
          "{} has {} models of this quantization; name one of the files, such as hf.co/{}/{}: {}",
          repository, found.size(), repository, names.front(), fmt::join(names, ", ")));
}

std::vector<RepositoryFile> find_folder_files(const std::vector<RepositoryFile>& files) {
  const bool has_usual_names = std::ranges::any_of(files, [](const RepositoryFile& file) {
    return file.path.starts_with("model") && file.path.ends_with(".safetensors");
  });
  std::vector<RepositoryFile> chosen, config;
  bool has_tensors = false;
  for (const RepositoryFile& file : files) {
    if (file.path.find('/') != std::string::npos) continue;
    const bool is_tensors =
        file.path.ends_with(".safetensors") && (!has_usual_names || file.path.starts_with("model"));
    const bool is_text = file.path.ends_with(".json") || file.path.ends_with(".jinja") ||
                         file.path == "tokenizer.model" || file.path == "merges.txt";
    has_tensors = has_tensors || is_tensors;
    if (file.path == "config.json") {
      config.push_back(file);
    } else if (is_tensors || is_text) {
      chosen.push_back(file);
    }
  }
  if (config.empty() || !has_tensors) return {};
  chosen.push_back(config.front());
  return chosen;
}

}  // namespace kvik
