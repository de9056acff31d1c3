#include "main/serve/api_keys.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/printable.h"

namespace kvik {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Names appear in logs and metrics, so they must be short and printable.
bool is_name(const std::string& word) {
  constexpr size_t kMaxBytes = 128;
  return word.size() <= kMaxBytes && printable(word, Breaks::kShown) == word;
}

// Removes a word, and returns whether it was present.
bool take_mark(std::vector<std::string>& words, std::string_view mark) {
  return std::erase(words, mark) > 0;
}

// A file that is mounted into a container, such as a secret, may have to be readable by all.
void warn_of_other_readers(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return;
  const mode_t others = about.st_mode & (S_IRWXG | S_IRWXO);
  if ((others & (S_IRGRP | S_IROTH)) != 0) {
    log::warn(
        "the API key file '{}' has the mode {:04o}: other users can read the keys; chmod 600 "
        "keeps them out",
        path, about.st_mode & 07777);
  } else if ((others & (S_IWGRP | S_IWOTH)) != 0) {
    log::warn(
        "the API key file '{}' has the mode {:04o}: other users can add keys; chmod 600 keeps "
        "them out",
        path, about.st_mode & 07777);
  }
}

uint64_t mark_of(const std::string& secret, const std::string& name) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned n_bytes = 0;
  const std::string text = fmt::format("kvik tenant {}", name);
  const unsigned char* done =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &n_bytes);
  CHECK(done && n_bytes >= sizeof(uint64_t));
  uint64_t word = 0;
  for (size_t i = 0; i < sizeof(word); ++i) word |= uint64_t{digest[i]} << (8 * i);
  return word;
}

}  // namespace

Result<std::vector<ApiKey>> read_api_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::kIo, fmt::format("cannot read the API key file '{}'", path));
  warn_of_other_readers(path);
  std::vector<ApiKey> keys;
  size_t n_lines = 0;
  for (std::string line; std::getline(file, line);) {
    ++n_lines;
    std::vector<std::string> words = words_of(line);
    if (words.empty() || words[0].starts_with('#')) continue;
    const auto refuse = [&](const char* why) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("line {} of the API key file '{}' {}, expected KEY [NAME [SALT]] "
                              "[operator] [priority]",
                              n_lines, path, why));
    };
    ApiKey key{.secret = words[0]};
    words.erase(words.begin());
    key.is_operator = take_mark(words, "operator");
    key.may_outrank = take_mark(words, "priority");
    if (words.size() > 2) return refuse("has too many words");
    if (std::ranges::count(keys, key.secret, &ApiKey::secret) > 0) return refuse("repeats a key");
    words.resize(2);
    if (!is_name(words[0])) return refuse("has a name that cannot be shown");
    key.name = words[0].empty() ? fmt::format("key-{}", keys.size() + 1) : words[0];
    key.cache_salt = words[1];
    keys.push_back(std::move(key));
  }
  if (keys.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the API key file '{}' contains no keys; expected one per line", path));
  }
  return keys;
}

Result<void> add_api_keys(std::span<const std::string> secrets, std::vector<ApiKey>& keys) {
  for (const std::string& secret : secrets) {
    const std::vector<std::string> words = words_of(secret);
    const bool is_word = words.size() == 1 && words[0] == secret && is_name(secret);
    if (!is_word) {
      return fail(ErrorCode::kInvalidArgument,
                  "--api-key is not a valid key; expected 1 to 128 characters without blanks");
    }
    if (std::ranges::count(keys, secret, &ApiKey::secret) > 0) {
      return fail(ErrorCode::kInvalidArgument, "--api-key repeats a key");
    }
    keys.push_back(
        {.secret = secret, .name = fmt::format("key-{}", keys.size() + 1), .is_operator = true});
  }
  return {};
}

TenantMarks tenant_marks(std::span<const ApiKey> keys) {
  TenantMarks marks;
  for (const ApiKey& key : keys) {
    if (!marks.contains(key.name)) marks.emplace(key.name, mark_of(key.secret, key.name));
  }
  return marks;
}

std::string mark_key_of(std::span<const ApiKey> keys) {
  if (keys.empty()) return "";
  return std::string(as_text(keyed_hash(keys.front().secret, {"kvik page marks"})));
}

void isolate_tenants(std::span<ApiKey> keys) {
  const TenantMarks marks = tenant_marks(keys);
  for (ApiKey& key : keys) {
    key.cache_salt = fmt::format("{:016x}:{}", marks.at(key.name), key.cache_salt);
  }
}

}  // namespace kvik
