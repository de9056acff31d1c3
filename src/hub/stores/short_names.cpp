#include "hub/stores/short_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "base/file/atomic_file.h"
#include "base/printable.h"
#include "hub/download/file_lock.h"
#include "hub/model_name.h"

namespace kvik {
namespace {

constexpr size_t kMaxShortNamesBytes = size_t{1} << 20;

std::string short_names_path(const std::string& folder) { return folder + "/short_names"; }

// Returns whether a name has the form of Ollama's, and no other meaning as MODEL.
bool is_short_name(const std::string& name) {
  const bool is_reserved =
      name == "demo" || name.starts_with("synthetic:") || name.ends_with(".gguf");
  return !is_reserved && parse_model_name("ollama://" + name, {}).has_value();
}

}  // namespace

std::string without_latest(std::string name) {
  constexpr std::string_view kLatest = ":latest";
  if (name.ends_with(kLatest)) name.resize(name.size() - kLatest.size());
  return name;
}

std::map<std::string, std::string> ShortNames::read() const {
  std::map<std::string, std::string> names;
  std::istringstream lines(read_whole(short_names_path(folder_), kMaxShortNamesBytes).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.find(' ');
    if (blank != std::string::npos) names[line.substr(0, blank)] = line.substr(blank + 1);
  }
  return names;
}

template <class Change>
Result<void> ShortNames::change(Change change_names) const {
  TRY_ASSIGN(auto lock, FileLock::try_lock(folder_ + "/short_names.lock"));
  while (!lock) {  // another process holds it for the time of a write
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    TRY_ASSIGN(lock, FileLock::try_lock(folder_ + "/short_names.lock"));
  }
  auto names = read();
  change_names(names);
  std::string text;
  for (const auto& [short_name, name] : names) text += fmt::format("{} {}\n", short_name, name);
  return write_atomically(short_names_path(folder_), text, 0666);
}

Result<void> ShortNames::add(const std::string& short_name, const std::string& name) const {
  if (!is_short_name(short_name)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' is not a short name; expected [NAMESPACE/]NAME[:TAG] of letters, digits, "
                    "'.', '_' and '-'",
                    printable(short_name)));
  }
  return change([&](auto& names) { names[without_latest(short_name)] = name; });
}

Result<void> ShortNames::remove(const std::string& short_name) const {
  return change([&](auto& names) { names.erase(without_latest(short_name)); });
}

Result<void> ShortNames::remove_target(const std::string& name) const {
  if (std::ranges::none_of(read(), [&](const auto& entry) { return entry.second == name; }))
    return {};
  return change([&](auto& names) {
    std::erase_if(names, [&](const auto& entry) { return entry.second == name; });
  });
}

}  // namespace kvik
