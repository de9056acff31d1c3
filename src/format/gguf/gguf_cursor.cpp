#include "format/gguf/gguf_cursor.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvik {
namespace {

std::string shown(HeaderPart part) {
  if (part.name.empty()) return std::string(part.what);
  return fmt::format("{} {}", part.what, quoted(part.name));
}

}  // namespace

size_t GgufCursor::bytes_left() const {
  return std::min<uint64_t>(file_.size(), kMaxHeaderBytes) - position_;
}

Result<ModelBytes::Bytes> GgufCursor::take(uint64_t n_bytes, HeaderPart part) {
  if (n_bytes > file_.size() - position_) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} takes {} bytes at byte {}, but the file has only {} bytes",
                            shown(part), n_bytes, position_, file_.size()));
  }
  if (n_bytes > bytes_left()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} takes {} bytes at byte {}, but a header has at most {} bytes",
                            shown(part), n_bytes, position_, kMaxHeaderBytes));
  }
  TRY_ASSIGN(const auto head, file_.head(position_ + n_bytes));
  const auto bytes = head.subspan(position_, n_bytes);
  position_ += n_bytes;
  return bytes;
}

Result<std::string_view> GgufCursor::string(HeaderPart part) {
  TRY_ASSIGN(const auto n_bytes, number<uint64_t>(part));
  TRY_ASSIGN(const auto bytes, take(n_bytes, part));
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace kvik
