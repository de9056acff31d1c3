#include "format/gguf/gguf_split.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "format/joined_files.h"

namespace kvik {
namespace {

constexpr uint64_t kMaxPieces = 99999;  // maximum of five digits

std::string piece_ending(uint64_t no, uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", no + 1, count);
}

}  // namespace

Result<std::optional<GgufSplit>> read_gguf_split(const Metadata& metadata) {
  TRY_ASSIGN(const auto count, metadata.get_uint("split.count"));
  if (count.value_or(0) <= 1) return std::nullopt;
  TRY_ASSIGN(const auto no, metadata.get_uint("split.no"));
  TRY_ASSIGN(const auto n_tensors, metadata.get_uint("split.tensors.count"));
  if (!no || !n_tensors) {
    return fail(ErrorCode::kCorrupt, fmt::format("key 'split.count' is {}, but '{}' is missing",
                                                 *count, no ? "split.tensors.count" : "split.no"));
  }
  if (*count > kMaxPieces || *no >= *count) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("keys 'split.no' and 'split.count' are {} and {}, expected a number "
                            "below the count and a count up to {}",
                            *no, *count, kMaxPieces));
  }
  return GgufSplit{*no, *count, *n_tensors};
}

Result<std::string> gguf_piece_path(const std::string& path, const GgufSplit& self, uint64_t no) {
  const std::string ending = piece_ending(self.no, self.count);
  if (!path.ends_with(ending)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is piece {} of {} of a model, expected a name that ends in '{}'",
                            path, self.no + 1, self.count, ending));
  }
  return path.substr(0, path.size() - ending.size()) + piece_ending(no, self.count);
}

Result<std::unique_ptr<ModelSource>> join_gguf_pieces(
    std::vector<std::unique_ptr<ModelSource>> pieces) {
  CHECK(!pieces.empty());
  uint64_t n_tensors = 0;  // as stated
  for (size_t i = 0; i < pieces.size(); ++i) {
    TRY_ASSIGN(const auto split, read_gguf_split(pieces[i]->metadata()));
    n_tensors = split ? split->n_tensors : 0;
    if (!split || split->no != i || split->count != pieces.size()) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}' is not piece {} of {} of a model, as its name says",
                              pieces[i]->label(), i + 1, pieces.size()));
    }
  }
  TRY_ASSIGN(auto joined, join_files(std::move(pieces)));
  if (joined->tensors().size() != n_tensors) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}': the pieces have {} tensors, but 'split.tensors.count' is {}",
                            joined->label(), joined->tensors().size(), n_tensors));
  }
  return joined;
}

}  // namespace kvik
