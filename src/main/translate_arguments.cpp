#include "main/translate_arguments.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace kvik {
namespace {

// Removes a flag and the value after it, and returns the value; std::nullopt if the flag is not
// given or has no value.
std::optional<std::string> take_flag(std::vector<std::string>& arguments,
                                     std::initializer_list<std::string_view> names) {
  for (size_t i = 0; i + 1 < arguments.size() && arguments[i] != "--"; ++i) {
    if (std::ranges::find(names, arguments[i]) == names.end()) continue;
    std::string value = arguments[i + 1];
    if (value.empty() || value.starts_with("-")) return std::nullopt;
    const auto at = arguments.begin() + static_cast<ptrdiff_t>(i);
    arguments.erase(at, at + 2);
    return value;
  }
  return std::nullopt;
}

// Returns a name of -hf, which may have its origin already.
std::string with_hf_origin(const std::string& name) {
  const bool has_origin = name.starts_with("hf.co/") || name.find("://") != std::string::npos;
  return has_origin ? name : "hf.co/" + name;
}

}  // namespace

std::string translate_conventions(std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "version") arguments[0] = "--version";
  if (!arguments.empty() && arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  std::replace(arguments.begin(), std::ranges::find(arguments, "--"), std::string("-ngl"),
               std::string("--n-gpu-layers"));
  if (const auto draft = take_flag(arguments, {"-hfd", "-hfrd", "--hf-repo-draft"})) {
    arguments.emplace_back("--draft=" + with_hf_origin(*draft));
  }
  if (const auto url = take_flag(arguments, {"-mu", "--model-url"})) return *url;
  const auto repository = take_flag(arguments, {"-hf", "-hfr", "--hf-repo"});
  if (!repository) return "";
  const auto file = take_flag(arguments, {"-hff", "--hf-file"});
  if (!file) return with_hf_origin(*repository);
  return with_hf_origin(repository->substr(0, repository->find(':'))) + "/" + *file;
}

}  // namespace kvik
