#include "format/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file/input_file.h"
#include "base/file/lfs_pointer.h"
#include "base/json/json_object.h"
#include "format/model_bytes.h"
#include "format/quoted.h"

namespace kvik {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytesOfFile = uint64_t{32} << 20;  // three times the largest known
constexpr uint64_t kMaxExtent = uint64_t{1} << 42;
constexpr size_t kMaxAxes = 8;

struct Dtype {
  std::string_view name;  // name in the file
  ElementType type;
};
constexpr Dtype kDtypes[] = {
    {"F32", ElementType::kF32},
    {"F16", ElementType::kF16},
    {"BF16", ElementType::kBF16},
    {"F64", ElementType::kF64},
    {"I64", ElementType::kI64},
    {"I32", ElementType::kI32},
    {"I16", ElementType::kI16},
    {"I8", ElementType::kI8},
    {"BOOL", ElementType::kI8},
    // Bytes have no meaning of their own; transforms interpret them.
    {"U8", ElementType::kI8},
    {"F8_E4M3", ElementType::kI8},
    {"F8_E8M0", ElementType::kI8},
};

// A tensor and its part of the data.
struct Entry {
  TensorInfo info;
  std::string_view stored_type;  // Dtype::name
  uint64_t begin = 0;
  uint64_t end = 0;
};

Result<Dtype> read_dtype(const JsonObject& tensor, std::string_view name) {
  TRY_ASSIGN(const auto stated, tensor.text("dtype"));
  std::string known;
  for (const Dtype& dtype : kDtypes) {
    if (stated == dtype.name) return dtype;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", dtype.name);
  }
  if (!stated) return tensor.unexpected_value("dtype", known);
  return fail(ErrorCode::kUnsupported,
              fmt::format("tensor {} has the element type {}, known are {}", quoted(name),
                          quoted(*stated), known));
}

Result<std::vector<uint64_t>> read_shape(const JsonObject& tensor, std::string_view name) {
  if (!tensor.find("shape")) return tensor.unexpected_value("shape", "a list of integers");
  TRY_ASSIGN(std::vector<uint64_t> shape, tensor.numbers("shape"));
  if (shape.size() > kMaxAxes) {
    return fail(ErrorCode::kCorrupt, fmt::format("tensor {} has {} axes, expected at most {}",
                                                 quoted(name), shape.size(), kMaxAxes));
  }
  for (const uint64_t extent : shape) {
    if (extent >= 1 && extent <= kMaxExtent) continue;
    return fail(ErrorCode::kCorrupt, fmt::format("tensor {} has an axis of {}, expected 1 to {}",
                                                 quoted(name), extent, kMaxExtent));
  }
  if (shape.empty()) shape = {1};
  return shape;
}

Result<Entry> read_entry(const boost::json::value& value, std::string_view name) {
  TRY_ASSIGN(const auto tensor, JsonObject::of(value, "header", quoted(name)));
  Entry entry;
  entry.info.name = name;
  TRY_ASSIGN(const Dtype dtype, read_dtype(tensor, name));
  entry.info.type = dtype.type;
  entry.stored_type = dtype.name;
  TRY_ASSIGN(entry.info.shape, read_shape(tensor, name));
  TRY_ASSIGN(const std::vector<uint64_t> offsets, tensor.numbers("data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return tensor.unexpected_value("data_offsets", "[begin, end) in bytes");
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  entry.info.n_bytes = entry.end - entry.begin;
  const auto n_bytes = bytes_of(entry.info.type, entry.info.shape);
  if (n_bytes == entry.info.n_bytes) return entry;
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("tensor {} of shape [{}] and type {} has {} bytes, expected {}", quoted(name),
                  fmt::join(entry.info.shape, ", "), name_of(entry.info.type), entry.info.n_bytes,
                  n_bytes ? std::to_string(*n_bytes) : "fewer than 2^64"));
}

// Checks that the tensors fill the data exactly, so that none overlap and no name occurs twice.
Result<void> check_placement(const std::vector<Entry>& entries, uint64_t data_bytes) {
  uint64_t filled = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != filled) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} begins at byte {} of the data, expected {}, where the one "
                              "before it ends",
                              quoted(entry.info.name), entry.begin, filled));
    }
    filled = entry.end;
    if (filled <= data_bytes) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} ends at byte {} of the data, but the file has only {}",
                            quoted(entry.info.name), filled, data_bytes));
  }
  if (filled == data_bytes) return {};
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("the tensors have {} bytes of data, but the file has {}", filled, data_bytes));
}

struct Contents {
  std::vector<TensorInfo> infos;
  std::vector<uint64_t> offsets;               // offset of each tensor in the file
  std::vector<std::string_view> stored_types;  // of each tensor
};

Result<std::string_view> header_of(ModelBytes& file) {
  if (file.size() < kLengthBytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} bytes, expected a header's length in the first {}", file.size(),
                            kLengthBytes));
  }
  static_assert(std::endian::native == std::endian::little);
  uint64_t n_bytes = 0;
  TRY_ASSIGN(const auto length, file.head(kLengthBytes));
  std::memcpy(&n_bytes, length.data(), kLengthBytes);
  const uint64_t limit = std::min<uint64_t>(file.size() - kLengthBytes, kMaxHeaderBytesOfFile);
  if (n_bytes > limit) {
    const std::string_view first(reinterpret_cast<const char*>(length.data()), kLengthBytes);
    if (kLfsPointer.starts_with(first))
      return fail(ErrorCode::kCorrupt, std::string(kIsLfsPointer));
    return fail(ErrorCode::kCorrupt, fmt::format("the header's length is {} bytes, expected at "
                                                 "most {}",
                                                 n_bytes, limit));
  }
  TRY_ASSIGN(const auto head, file.head(kLengthBytes + n_bytes));
  return std::string_view(reinterpret_cast<const char*>(head.data()) + kLengthBytes, n_bytes);
}

Result<Contents> read_contents(ModelBytes& file) {
  TRY_ASSIGN(const std::string_view header, header_of(file));
  TRY_ASSIGN(const auto parsed, parse_json_file(header, "the header"));
  TRY_ASSIGN(const auto all, JsonObject::of(parsed, "the header"));
  std::vector<Entry> entries;
  entries.reserve(all.all().size());
  for (const auto& member : all.all()) {
    const std::string_view name(member.key().data(), member.key().size());
    if (name == "__metadata__") continue;
    if (name.empty()) return fail(ErrorCode::kCorrupt, "a tensor has an empty name");
    TRY_ASSIGN(Entry entry, read_entry(member.value(), name));
    entries.push_back(std::move(entry));
  }
  std::ranges::stable_sort(entries, {}, &Entry::begin);
  const uint64_t data_begin = kLengthBytes + header.size();
  TRY(check_placement(entries, file.size() - data_begin));
  Contents contents;
  for (Entry& entry : entries) {
    contents.offsets.push_back(data_begin + entry.begin);
    contents.stored_types.push_back(entry.stored_type);
    contents.infos.push_back(std::move(entry.info));
  }
  return contents;
}

class SafetensorsTensors final : public TensorSource {
 public:
  SafetensorsTensors(ModelBytes file, Contents contents)
      : file_(std::move(file)), contents_(std::move(contents)) {}

  std::span<const TensorInfo> tensors() const override { return contents_.infos; }

  // Headers may have any length, so tensors may be unaligned in the file.
  Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) override {
    CHECK(index < contents_.infos.size());
    return file_.read({contents_.offsets[index], begin_byte, n_bytes},
                      traits(contents_.infos[index].type).block_bytes);
  }

  std::string_view stored_type(size_t index) const override {
    CHECK(index < contents_.infos.size());
    return contents_.stored_types[index];
  }

  void release(size_t index) override { file_.release(contents_.offsets[index]); }
  Result<void> check_unchanged() const override { return file_.check_unchanged(); }

 private:
  ModelBytes file_;
  Contents contents_;
};

Result<std::unique_ptr<ModelSource>> open_bytes(std::string label, ModelBytes file) {
  auto contents = read_contents(file);
  if (!contents) {
    return fail(contents.error().code, fmt::format("'{}': {}", label, contents.error().message));
  }
  file.drop_head();
  return std::make_unique<ModelSource>(
      std::move(label), Metadata(),
      std::make_unique<SafetensorsTensors>(std::move(file), std::move(*contents)));
}

}  // namespace

Result<std::unique_ptr<ModelSource>> open_safetensors(const std::string& path,
                                                      const SpareRegion& spare) {
  TRY_ASSIGN(InputFile file, InputFile::open(path));
  return open_bytes(path, ModelBytes(std::move(file), spare));
}

Result<std::unique_ptr<ModelSource>> open_safetensors_bytes(std::string label,
                                                            std::span<const std::byte> bytes) {
  return open_bytes(std::move(label), ModelBytes(bytes));
}

}  // namespace kvik
