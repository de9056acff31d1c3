#include "main/read_input.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>

#include "base/quantity.h"

namespace kvik {
namespace {

std::unexpected<Error> cannot_read(const std::string& path) {
  return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
              fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
}

}  // namespace

Result<std::string> read_input(const std::string& path, size_t max_bytes) {
  std::string text;
  char buffer[1 << 16];
  const auto too_long = [&] {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is longer than {}", path == "-" ? "stdin" : path,
                            counted(max_bytes, "byte")));
  };
  if (path == "-") {
    while (std::cin.read(buffer, sizeof(buffer)) || std::cin.gcount() > 0) {
      text.append(buffer, static_cast<size_t>(std::cin.gcount()));
      if (text.size() > max_bytes) return too_long();
    }
    return text;
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return cannot_read(path);
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    text.append(buffer, n);
    if (text.size() > max_bytes) return too_long();
  }
  if (std::ferror(file.get())) return cannot_read(path);
  return text;
}

}  // namespace kvik
