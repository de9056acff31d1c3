#include "cli/input_history.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "base/file/atomic_file.h"
#include "base/file/file_descriptor.h"
#include "base/file/private_files.h"
#include "base/printable.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = size_t{16} << 20;

std::string to_line(std::string_view input) {
  std::string line;
  for (const char c : input) {
    if (c == '\\') {
      line += "\\\\";
    } else if (c == '\n') {
      line += "\\n";
    } else {
      line += c;
    }
  }
  return line + '\n';
}

std::string from_line(std::string_view line) {
  std::string input;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      input += line[++i] == 'n' ? '\n' : line[i];
    } else {
      input += line[i];
    }
  }
  return input;
}

}  // namespace

InputHistory::InputHistory(std::string path) : path_(std::move(path)) {
  if (!path_.empty()) read_file();
}

void InputHistory::read_file() {
  const auto bytes = read_whole(path_, kMaxBytes);
  if (!bytes) return;
  for (size_t at = 0; at < bytes->size();) {
    const size_t end = std::min(bytes->find('\n', at), bytes->size());
    if (end > at) {
      inputs_.push_back(from_line(valid_utf8(std::string_view(*bytes).substr(at, end - at))));
    }
    at = end + 1;
  }
  // The file may grow to twice the limit, so it is rarely rewritten.
  if (inputs_.size() <= 2 * kMaxInputs) return;
  inputs_.erase(inputs_.begin(), inputs_.end() - kMaxInputs);
  std::string kept;
  for (const std::string& input : inputs_) kept += to_line(input);
  static_cast<void>(write_atomically(path_, kept, kPrivateFile));
}

bool InputHistory::add(const std::string& input) {
  if (!inputs_.empty() && inputs_.back() == input) return false;
  inputs_.push_back(input);
  if (path_.empty()) return true;
  static_cast<void>(make_private_folders(fs::path(path_).parent_path()));  // open() reports errors
  const FileDescriptor file(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kPrivateFile));
  if (!file.is_open()) return true;
  const std::string line = to_line(input);
  [[maybe_unused]] const ssize_t n = ::write(file.get(), line.data(), line.size());
  return true;
}

}  // namespace kvik
