#include "main/models/hub_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "base/file/atomic_file.h"
#include "main/environment.h"

namespace kvik {
namespace {

// Returns the first variable that is set.
std::string first_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

std::string or_else(std::string value, std::string otherwise) {
  return value.empty() ? std::move(otherwise) : std::move(value);
}

// Returns the absolute form of a path that may begin with "~/".
std::string full_path(const std::string& path) {
  const std::string expanded = path.starts_with("~/") ? environment("HOME") + path.substr(1) : path;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(expanded, error).lexically_normal();
  std::string text = error ? expanded : absolute.string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

Result<std::string> server_of(const char* variable, const std::string& otherwise) {
  std::string url = or_else(environment(variable), otherwise);
  while (url.ends_with('/')) url.pop_back();
  const bool is_url = url.starts_with("https://") || url.starts_with("http://");
  const bool is_plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c < 127; });
  if (is_url && is_plain) return url;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is '{}', expected the URL of a server, such as {}", variable, url,
                          otherwise));
}

// Returns the token without surrounding blanks.
Result<std::string> read_token(const std::string& hf_home) {
  std::string token = first_of({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  const std::string path = or_else(environment("HF_TOKEN_PATH"), hf_home + "/token");
  constexpr size_t kMaxTokenBytes = 4096;
  if (token.empty()) token = read_whole(full_path(path), kMaxTokenBytes).value_or("");
  const size_t first = token.find_first_not_of(" \t\r\n");
  token = first == std::string::npos
              ? ""
              : token.substr(first, token.find_last_not_of(" \t\r\n") - first + 1);
  if (std::ranges::all_of(token, [](char c) { return c > ' ' && c < 127; })) return token;
  return fail(ErrorCode::kInvalidArgument,
              "HF_TOKEN has a blank or a control character, expected a token of Hugging Face");
}

bool is_on(std::string value) {
  std::ranges::transform(value, value.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return value == "1" || value == "on" || value == "yes" || value == "true";
}

}  // namespace

Result<HubOptions> hub_options() {
  HubOptions options;
  const std::string home = environment("HOME");
  const std::string cache = or_else(environment("XDG_CACHE_HOME"), home + "/.cache");
  const std::string hf_home = or_else(environment("HF_HOME"), cache + "/huggingface");
  options.hf_cache =
      full_path(or_else(first_of({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}), hf_home + "/hub"));
  TRY_ASSIGN(options.hf_endpoint, server_of("HF_ENDPOINT", options.hf_endpoint));
  TRY_ASSIGN(options.hf_token, read_token(hf_home));
  options.ollama_models =
      full_path(or_else(environment("OLLAMA_MODELS"), home + "/.ollama/models"));
  TRY_ASSIGN(options.ollama_registry, server_of("KVIK_OLLAMA_REGISTRY", options.ollama_registry));
  options.kvik_models =
      full_path(or_else(environment("KVIK_DOWNLOADS"), cache + "/kvik/downloads"));
  options.ca_file = first_of({"CURL_CA_BUNDLE", "SSL_CERT_FILE"});
  options.is_offline = is_on(environment("HF_HUB_OFFLINE"));
  return options;
}

}  // namespace kvik
