#include "main/serve/chat_template_file.h"

#include <fmt/format.h>

#include <span>

#include "base/file/input_file.h"
#include "template/chat_template.h"

namespace kvik {

Result<std::string> read_chat_template(const std::string& path) {
  TRY_ASSIGN(const InputFile file, InputFile::open(path));
  std::string source(file.size(), '\0');
  TRY(file.read(0, std::as_writable_bytes(std::span(source))));
  const auto parsed = ChatTemplate::parse(source);
  if (parsed) return source;
  return fail(parsed.error().code,
              fmt::format("--chat-template {}: {}", path, parsed.error().message));
}

}  // namespace kvik
