#include "main/api_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace kvik {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace

Result<std::vector<ApiKey>> read_api_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::kIo, fmt::format("cannot read the API key file '{}'", path));
  std::vector<ApiKey> keys;
  size_t n_lines = 0;
  for (std::string line; std::getline(file, line);) {
    ++n_lines;
    std::vector<std::string> words = words_of(line);
    if (words.empty() || words[0].starts_with('#')) continue;
    const auto refuse = [&](const char* why) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("line {} of the API key file '{}' {}, expected KEY [NAME [SALT]]",
                              n_lines, path, why));
    };
    if (words.size() > 3) return refuse("has more than three words");
    if (std::ranges::count(keys, words[0], &ApiKey::secret) > 0) return refuse("repeats a key");
    words.resize(3);
    if (words[1].empty()) words[1] = fmt::format("key-{}", keys.size() + 1);
    keys.push_back({.secret = words[0], .name = words[1], .cache_salt = words[2]});
  }
  if (keys.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the API key file '{}' holds no key, expected one per line", path));
  }
  return keys;
}

}  // namespace kvik
