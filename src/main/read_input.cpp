#include "main/read_input.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>

namespace kvik {
namespace {

std::unexpected<Error> cannot_read(const std::string& path) {
  return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
              fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
}

}  // namespace

Result<std::string> read_input(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return cannot_read(path);
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), file.get())) text.append(buffer, n);
  if (std::ferror(file.get())) return cannot_read(path);
  return text;
}

}  // namespace kvik
