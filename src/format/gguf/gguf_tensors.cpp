#include "format/gguf/gguf_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <unordered_set>
#include <utility>

namespace kvik {
namespace {

constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, axes, one axis, type, offset
constexpr uint32_t kMaxAxes = 4;
constexpr std::string_view kBareBias = ".exp_probs_b";  // some families' name of a bias
constexpr std::string_view kMtpProjection = ".nextn.eh_proj.weight";
constexpr std::string_view kMtpOutputNorm = ".nextn.shared_head_norm.weight";
constexpr std::string_view kLayerOutputNorm = ".layer_output_norm.weight";
constexpr uint64_t kMaxExtent = uint64_t{1} << 42;

std::string known_types() {
  std::vector<std::string> known;
  for (const ElementTraits& t : element_types()) {
    if (t.gguf_id != kNoGgufId) known.push_back(fmt::format("{} ({})", t.gguf_id, t.name));
  }
  return fmt::format("{}", fmt::join(known, ", "));
}

// Types of ik_llama.cpp with four to sixteen rows interleaved for its kernels, and the types that
// they are made from.
struct InterleavedType {
  uint32_t id;
  const char *name, *plain;
};
constexpr InterleavedType kInterleavedTypes[] = {
    {202, "q4_0_r8", "q4_0"},     {206, "q5_0_r4", "q5_0"},       {208, "q8_0_r8", "q8_0"},
    {210, "q2_k_r4", "q2_k"},     {211, "q3_k_r4", "q3_k"},       {212, "q4_k_r4", "q4_k"},
    {213, "q5_k_r4", "q5_k"},     {214, "q6_k_r4", "q6_k"},       {216, "iq2_xxs_r4", "iq2_xxs"},
    {217, "iq2_xs_r4", "iq2_xs"}, {218, "iq3_xxs_r4", "iq3_xxs"}, {219, "iq1_s_r4", "iq1_s"},
    {220, "iq4_nl_r4", "iq4_nl"}, {221, "iq3_s_r4", "iq3_s"},     {222, "iq2_s_r4", "iq2_s"},
    {223, "iq4_xs_r8", "iq4_xs"}, {229, "iq1_m_r4", "iq1_m"},     {230, "bf16_r16", "bf16"},
    {233, "q6_0_r4", "q6_0"},     {335, "iq2_bn_r4", "iq2_bn"},   {337, "iq2_k_r4", "iq2_k"},
    {338, "iq3_k_r4", "iq3_k"},   {339, "iq4_k_r4", "iq4_k"},     {340, "iq5_k_r4", "iq5_k"},
    {344, "iq4_ks_r4", "iq4_ks"}, {352, "iq5_ks_r4", "iq5_ks"},   {353, "mxfp4_r8", "mxfp4"},
    {398, "q8_kv_r8", "q8_kv"},   {399, "q8_k_r8", "q8_k"},
};

// Returns the shape with the last axis fastest; the file lists the fastest axis first.
Result<std::vector<uint64_t>> read_shape(GgufCursor& in, std::string_view name) {
  TRY_ASSIGN(const auto n_axes, in.number<uint32_t>({"the number of axes of tensor", name}));
  if (n_axes < 1 || n_axes > kMaxAxes) {
    return fail(ErrorCode::kCorrupt, fmt::format("tensor {} has {} axes, expected 1 to {}",
                                                 quoted(name), n_axes, kMaxAxes));
  }
  std::vector<uint64_t> shape(n_axes);
  for (uint64_t& extent : shape) {
    TRY_ASSIGN(extent, in.number<uint64_t>({"the shape of tensor", name}));
    if (extent < 1 || extent > kMaxExtent) {
      return fail(ErrorCode::kCorrupt, fmt::format("tensor {} has an axis of {}, expected 1 to {}",
                                                   quoted(name), extent, kMaxExtent));
    }
  }
  std::reverse(shape.begin(), shape.end());
  return shape;
}

Result<ElementType> read_element_type(GgufCursor& in, std::string_view name) {
  TRY_ASSIGN(const auto id, in.number<uint32_t>({"the element type of tensor", name}));
  if (const auto type = element_type_from_gguf(id)) return *type;
  const auto* found = std::ranges::find(kInterleavedTypes, id, &InterleavedType::id);
  if (found != std::end(kInterleavedTypes)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor {} has element type {} ({}), with rows interleaved for "
                            "ik_llama.cpp, expected a file with {}",
                            quoted(name), id, found->name, found->plain));
  }
  return fail(ErrorCode::kUnsupported, fmt::format("tensor {} has element type {}, known are {}",
                                                   quoted(name), id, known_types()));
}

Result<uint64_t> size_in_bytes(std::string_view name, ElementType type,
                               std::span<const uint64_t> shape) {
  const uint32_t block = traits(type).block_elements;
  if (shape.back() % block != 0) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} has rows of {} elements, expected a multiple of {} as {}",
                            quoted(name), shape.back(), block, name_of(type)));
  }
  if (const auto bytes = bytes_of(type, shape)) return *bytes;
  return fail(ErrorCode::kCorrupt,
              fmt::format("tensor {} of shape [{}] has more bytes than 64 bits can count",
                          quoted(name), fmt::join(shape, ", ")));
}

Result<TensorInfo> read_tensor_info(GgufCursor& in) {
  const size_t position = in.position();
  TRY_ASSIGN(const auto name, in.string({"the name of a tensor"}));
  if (name.empty()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("the tensor at byte {} of the header has an empty name", position));
  }
  TensorInfo info;
  TRY_ASSIGN(info.shape, read_shape(in, name));
  TRY_ASSIGN(info.type, read_element_type(in, name));
  TRY_ASSIGN(info.n_bytes, size_in_bytes(name, info.type, info.shape));
  info.name = name;
  if (name.ends_with(kBareBias)) info.name += ".bias";
  return info;
}

// Gives the last norm of an MTP layer the name that it has in most files: those of Ling 3.0 have
// another.
void rename_mtp_norms(std::vector<TensorInfo>& infos) {
  std::unordered_set<std::string> names;
  for (const TensorInfo& info : infos) names.insert(info.name);
  for (TensorInfo& info : infos) {
    if (!info.name.ends_with(kLayerOutputNorm)) continue;
    const std::string layer = info.name.substr(0, info.name.size() - kLayerOutputNorm.size());
    const std::string usual = layer + std::string(kMtpOutputNorm);
    if (names.contains(layer + std::string(kMtpProjection)) && !names.contains(usual)) {
      info.name = usual;
    }
  }
}

Result<void> check_no_overlap(const GgufTensorTable& table) {
  std::vector<size_t> by_offset(table.infos.size());
  std::iota(by_offset.begin(), by_offset.end(), size_t{0});
  std::sort(by_offset.begin(), by_offset.end(),
            [&](size_t a, size_t b) { return table.offsets[a] < table.offsets[b]; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const TensorInfo& before = table.infos[by_offset[i - 1]];
    const uint64_t begin = table.offsets[by_offset[i]];
    if (table.offsets[by_offset[i - 1]] + before.n_bytes <= begin) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} at offset {} overlaps tensor {}, which has {} bytes at "
                            "offset {}",
                            quoted(table.infos[by_offset[i]].name), begin, quoted(before.name),
                            before.n_bytes, table.offsets[by_offset[i - 1]]));
  }
  return {};
}

}  // namespace

Result<GgufTensorTable> read_gguf_tensor_table(GgufCursor& in, uint64_t n_tensors) {
  if (n_tensors > in.bytes_left() / kMinTensorBytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("the header counts {} tensors, expected no more than fit the {} bytes "
                            "that follow",
                            n_tensors, in.bytes_left()));
  }
  GgufTensorTable table;
  table.infos.reserve(n_tensors);
  table.offsets.reserve(n_tensors);
  std::unordered_set<std::string_view> names;  // views of table.infos, which is not reallocated
  for (uint64_t t = 0; t < n_tensors; ++t) {
    TRY_ASSIGN(auto info, read_tensor_info(in));
    TRY_ASSIGN(const auto offset, in.number<uint64_t>({"the offset of tensor", info.name}));
    table.infos.push_back(std::move(info));
    table.offsets.push_back(offset);
    if (!names.insert(table.infos.back().name).second) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} occurs twice", quoted(table.infos.back().name)));
    }
  }
  rename_mtp_norms(table.infos);
  return table;
}

Result<void> check_gguf_placement(const GgufTensorTable& table, uint64_t alignment,
                                  uint64_t data_bytes) {
  for (size_t t = 0; t < table.infos.size(); ++t) {
    const TensorInfo& info = table.infos[t];
    const uint64_t offset = table.offsets[t];
    if (offset % alignment != 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} begins at offset {}, expected a multiple of {}",
                              quoted(info.name), offset, alignment));
    }
    if (offset > data_bytes || info.n_bytes > data_bytes - offset) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor {} has {} bytes at offset {}, but the file has only {} bytes "
                              "of tensor data",
                              quoted(info.name), info.n_bytes, offset, data_bytes));
    }
  }
  return check_no_overlap(table);
}

}  // namespace kvik
