#include "hub/model_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/printable.h"
#include "base/utf8.h"

namespace kvik {
namespace {

constexpr size_t kMaxNameBytes = 2048;
constexpr size_t kMaxPartBytes = 128;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

// Returns whether a text may be an organization, repository, model, tag or quantization.
bool is_part(std::string_view text) {
  return !text.empty() && text.size() <= kMaxPartBytes &&
         std::ranges::all_of(text, is_name_character) && text.front() != '.' &&
         text.front() != '-' && text.find("..") == std::string_view::npos;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::unexpected<Error> bad_name(std::string_view text) {
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' is not the name of a model; expected ORG/REPO[:QUANT], "
                  "hf.co/ORG/REPO/FILE.gguf, ollama://MODEL[:TAG] or https://HOST/FILE.gguf",
                  printable(text)));
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Parses what follows "hf.co/".
std::optional<ModelName> parse_hf(std::string_view text) {
  ModelName name{.kind = ModelName::Kind::kHuggingFace};
  const size_t first = text.find('/');
  if (first == std::string_view::npos) return std::nullopt;
  name.org = text.substr(0, first);
  std::string_view rest = text.substr(first + 1);
  if (const size_t second = rest.find('/'); second != std::string_view::npos) {
    name.file = rest.substr(second + 1);
    rest = rest.substr(0, second);
    if (!is_safe_path(name.file)) return std::nullopt;
  } else if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    name.quant = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!is_part(name.quant)) return std::nullopt;
  }
  name.repo = rest;
  const bool is_valid = is_part(name.org) && is_part(name.repo) &&
                        name.org.find("--") == std::string::npos &&
                        name.repo.find("--") == std::string::npos;
  return is_valid ? std::optional(name) : std::nullopt;
}

// Parses what follows "ollama://".
std::optional<ModelName> parse_ollama(std::string_view text) {
  ModelName name{.kind = ModelName::Kind::kOllama};
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    name.tag = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    name.space = text.substr(0, slash);
    text = text.substr(slash + 1);
  }
  name.model = text;
  const bool is_valid = is_part(name.space) && is_part(name.model) && is_part(name.tag);
  return is_valid ? std::optional(name) : std::nullopt;
}

// Parses "ORG/REPO/resolve/main/FILE?download=true", the path of a file's URL at Hugging Face.
std::optional<ModelName> parse_hf_path(std::string_view path) {
  path = path.substr(0, path.find_first_of("?#"));
  const auto parts = split_at(path, '/');
  if (parts.size() == 2 && !path.ends_with(".gguf")) return parse_hf(path);
  const bool is_file = parts.size() > 4 && (parts[2] == "resolve" || parts[2] == "blob");
  if (!is_file || parts[3] != "main") return std::nullopt;
  const size_t n_head = parts[0].size() + parts[1].size() + parts[2].size() + parts[3].size() + 4;
  return parse_hf(fmt::format("{}/{}/{}", parts[0], parts[1], path.substr(n_head)));
}

std::optional<ModelName> parse_url(std::string_view text) {
  text = text.substr(0, text.find('#'));
  const bool is_plain =
      std::ranges::all_of(text, [](char c) { return c > ' ' && c < 127 && c != '\\'; });
  const std::string_view path = text.substr(0, text.find('?'));
  if (!is_plain || !path.ends_with(".gguf") || path.find('@') != std::string_view::npos)
    return std::nullopt;
  std::string_view below = path.substr(path.find("://") + 3);
  if (!is_safe_path(below) || below.find('/') == std::string_view::npos) return std::nullopt;
  return ModelName{.kind = ModelName::Kind::kUrl, .url = std::string(text)};
}

}  // namespace

bool is_safe_path(std::string_view path) {
  constexpr size_t kMaxPathBytes = 1024, kMaxFileBytes = 200, kMaxDepth = 16;
  if (path.size() > kMaxPathBytes || valid_utf8(path) != path) return false;
  const bool has_control = std::ranges::any_of(
      path, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127 || c == '\\'; });
  const auto parts = split_at(path, '/');
  return !has_control && parts.size() <= kMaxDepth &&
         std::ranges::all_of(parts, [](std::string_view part) {
           return !part.empty() && part.size() <= kMaxFileBytes && part != "." && part != ".." &&
                  part.front() != ' ';
         });
}

bool is_hex(std::string_view text, size_t n_digits) {
  return text.size() == n_digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string ModelName::text() const {
  switch (kind) {
    case Kind::kUrl:
      return url.substr(0, url.find('?'));
    case Kind::kOllama:
      return fmt::format("{}{}:{}", space == "library" ? "" : space + "/", model, tag);
    case Kind::kHuggingFace:
      break;
  }
  if (!file.empty()) return fmt::format("{}/{}", repository(), file);
  return quant.empty() ? repository() : fmt::format("{}:{}", repository(), quant);
}

std::string ModelName::pull_argument() const {
  if (kind == Kind::kOllama) return "ollama://" + text();
  return kind == Kind::kHuggingFace && !file.empty() ? "hf.co/" + text() : text();
}

Result<ModelName> parse_model_name(std::string_view text, const HubOptions& options) {
  if (text.empty() || text.size() > kMaxNameBytes) return bad_name(text);
  std::string_view rest = text;
  std::optional<ModelName> name;
  const std::array<std::string, 4> hf_urls = {options.hf_endpoint + "/", "https://huggingface.co/",
                                              "https://hf.co/", "http://huggingface.co/"};
  for (const std::string& url : hf_urls) {
    if (name || !take_prefix(rest, url)) continue;
    name = parse_hf_path(rest);
    if (name) name->has_origin = true;
    rest = text;
  }
  if (name) return *name;
  if (take_prefix(rest, "hf.co/") || take_prefix(rest, "huggingface.co/")) {
    name = parse_hf(rest);
    if (name) name->has_origin = true;
  } else if (take_prefix(rest, "ollama://")) {
    name = parse_ollama(rest);
    if (name) name->has_origin = true;
  } else if (rest.starts_with("https://") || rest.starts_with("http://")) {
    name = parse_url(rest);
    if (name) name->has_origin = true;
  } else {
    name = rest.find('/') == std::string_view::npos ? parse_ollama(rest) : parse_hf(rest);
  }
  if (!name) return bad_name(text);
  return *name;
}

}  // namespace kvik
