#include "format/gguf/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file/input_file.h"
#include "base/file/lfs_pointer.h"
#include "format/gguf/fused_experts.h"
#include "format/gguf/gguf_cursor.h"
#include "format/gguf/gguf_experts.h"
#include "format/gguf/gguf_metadata.h"
#include "format/gguf/gguf_scales.h"
#include "format/gguf/gguf_split.h"
#include "format/gguf/gguf_tensors.h"
#include "format/gguf/mtp_blocks.h"
#include "format/latent_up.h"
#include "format/model_bytes.h"

namespace kvik {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kFirstVersion = 2;  // version 1 has 32-bit counts and is obsolete
constexpr uint32_t kLastVersion = 3;
constexpr uint64_t kMinAlignment = 8;  // minimum of the specification
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;

struct GgufContents {
  Metadata metadata;
  GgufTensorTable tensors;
  uint64_t data_begin = 0;  // offset of the tensor data in the file
};

Result<void> check_magic_and_version(GgufCursor& in) {
  TRY_ASSIGN(const auto magic, in.take(kMagic.size(), {"the magic number"}));
  const std::string_view found(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (kLfsPointer.starts_with(found)) return fail(ErrorCode::kCorrupt, std::string(kIsLfsPointer));
  if (found != kMagic) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("not a GGUF file: it begins with {}, expected 'GGUF'", quoted(found)));
  }
  TRY_ASSIGN(const auto version, in.number<uint32_t>({"the version"}));
  if (version >= kFirstVersion && version <= kLastVersion) return {};
  const uint32_t swapped = std::byteswap(version);
  if (swapped >= 1 && swapped <= kLastVersion) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("a big-endian GGUF file of version {}, expected a little-endian one", swapped));
  }
  return fail(ErrorCode::kUnsupported, fmt::format("GGUF version {}, expected {} or {}", version,
                                                   kFirstVersion, kLastVersion));
}

Result<uint64_t> read_alignment(const Metadata& metadata) {
  TRY_ASSIGN(const auto stated, metadata.get_uint("general.alignment"));
  const uint64_t alignment = stated.value_or(kDefaultAlignment);
  if (std::has_single_bit(alignment) && alignment >= kMinAlignment && alignment <= kMaxAlignment) {
    return alignment;
  }
  return fail(ErrorCode::kCorrupt,
              fmt::format("key 'general.alignment' is {}, expected a power of two from {} to {}",
                          alignment, kMinAlignment, kMaxAlignment));
}

Result<GgufContents> read_contents(ModelBytes& file) {
  GgufCursor in(file);
  TRY(check_magic_and_version(in));
  TRY_ASSIGN(const auto n_tensors, in.number<uint64_t>({"the number of tensors"}));
  TRY_ASSIGN(const auto n_keys, in.number<uint64_t>({"the number of keys"}));
  GgufContents contents;
  TRY_ASSIGN(contents.metadata, read_gguf_metadata(in, n_keys));
  TRY_ASSIGN(const auto alignment, read_alignment(contents.metadata));
  TRY_ASSIGN(contents.tensors, read_gguf_tensor_table(in, n_tensors));
  // A file without tensors may end with its header, without padding.
  contents.data_begin = (in.position() + alignment - 1) / alignment * alignment;
  const uint64_t data_bytes = file.size() - std::min<uint64_t>(file.size(), contents.data_begin);
  TRY(check_gguf_placement(contents.tensors, alignment, data_bytes));
  return contents;
}

class GgufTensors final : public TensorSource {
 public:
  GgufTensors(ModelBytes file, GgufTensorTable table, uint64_t data_begin)
      : file_(std::move(file)), table_(std::move(table)), data_begin_(data_begin) {}

  std::span<const TensorInfo> tensors() const override { return table_.infos; }

  Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) override {
    // No alignment beyond that of the file, which is at least kMinAlignment.
    constexpr size_t kNoAlignment = 1;
    return file_.read({offset_of(index), begin_byte, n_bytes}, kNoAlignment);
  }

  void release(size_t index) override { file_.release(offset_of(index)); }
  Result<void> check_unchanged() const override { return file_.check_unchanged(); }

 private:
  uint64_t offset_of(size_t index) const {
    CHECK(index < table_.infos.size());
    return data_begin_ + table_.offsets[index];
  }

  ModelBytes file_;
  GgufTensorTable table_;
  uint64_t data_begin_;
};

Result<std::unique_ptr<ModelSource>> open_bytes(std::string label, ModelBytes file) {
  auto contents = read_contents(file);
  if (!contents) {
    return fail(contents.error().code, fmt::format("'{}': {}", label, contents.error().message));
  }
  file.drop_head();
  return std::make_unique<ModelSource>(
      std::move(label), std::move(contents->metadata),
      std::make_unique<GgufTensors>(std::move(file), std::move(contents->tensors),
                                    contents->data_begin));
}

Result<std::unique_ptr<ModelSource>> open_file(const std::string& path, const SpareRegion& spare) {
  TRY_ASSIGN(InputFile file, InputFile::open(path));
  return open_bytes(path, ModelBytes(std::move(file), spare));
}

// Combines tensors with their scales, and converts layouts of older files and of other programs.
Result<std::unique_ptr<ModelSource>> convert_old_layouts(std::unique_ptr<ModelSource> source) {
  TRY(take_gguf_scales(*source));
  TRY(stack_gguf_experts(*source));
  TRY(split_gguf_experts(*source));
  TRY(split_gguf_latents(*source));
  join_mtp_blocks(*source);
  return source;
}

}  // namespace

Result<std::unique_ptr<ModelSource>> open_gguf(const std::string& path) {
  const SpareRegion spare = make_spare_region();
  TRY_ASSIGN(std::unique_ptr<ModelSource> source, open_file(path, spare));
  const auto split = read_gguf_split(source->metadata());
  if (!split) return fail(split.error().code, fmt::format("'{}': {}", path, split.error().message));
  if (!*split) return convert_old_layouts(std::move(source));
  std::vector<std::unique_ptr<ModelSource>> pieces;
  for (uint64_t no = 0; no < (*split)->count; ++no) {
    if (no == (*split)->no) {
      pieces.push_back(std::move(source));
      continue;
    }
    TRY_ASSIGN(const std::string piece, gguf_piece_path(path, **split, no));
    auto opened = open_file(piece, spare);
    if (!opened) {
      return fail(opened.error().code, fmt::format("piece {} of {} of the model: {}", no + 1,
                                                   (*split)->count, opened.error().message));
    }
    pieces.push_back(std::move(*opened));
  }
  TRY_ASSIGN(auto joined, join_gguf_pieces(std::move(pieces)));
  return convert_old_layouts(std::move(joined));
}

Result<std::unique_ptr<ModelSource>> open_gguf_bytes(std::string label,
                                                     std::span<const std::byte> bytes) {
  return open_bytes(std::move(label), ModelBytes(bytes));
}

}  // namespace kvik
