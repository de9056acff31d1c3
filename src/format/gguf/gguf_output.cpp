#include "format/gguf/gguf_output.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "format/gguf/gguf_metadata.h"

namespace kvik {
namespace {

constexpr unsigned kFileMode = 0666;  // minus the umask
constexpr uint32_t kVersion = 3;

// GGUF's numbers of its value types.
enum ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

class Bytes {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(T));
  }
  void put_string(std::string_view text) {
    put<uint64_t>(text.size());
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), begin, begin + text.size());
  }
  void pad(uint64_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
struct ElementOf {
  using type = T;
};
template <class T>
struct ElementOf<std::vector<T>> {
  using type = T;
};

// Returns whether 32 bits suffice; floats may lose precision, which models tolerate.
template <class T>
bool fits_32_bits(T value) {
  if constexpr (std::same_as<T, int64_t>) {
    return value >= std::numeric_limits<int32_t>::min() &&
           value <= std::numeric_limits<int32_t>::max();
  } else if constexpr (std::same_as<T, uint64_t>) {
    return value <= std::numeric_limits<uint32_t>::max();
  } else {
    return true;
  }
}

template <class T>
unsigned natural_bits(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return fits_32_bits(value) ? 32 : 64;
  } else if constexpr (std::is_arithmetic_v<typename ElementOf<T>::type>) {
    return std::ranges::all_of(value, [](auto v) { return fits_32_bits(v); }) ? 32 : 64;
  } else {
    return 0;
  }
}

template <class T>
ValueType value_type(unsigned bits) {
  if constexpr (std::same_as<T, bool>) return kBool;
  if constexpr (std::same_as<T, std::string>) return kString;
  if constexpr (std::same_as<T, double>) return bits == 64 ? kFloat64 : kFloat32;
  constexpr bool kIsSigned = std::is_signed_v<T>;
  switch (bits) {
    case 8:
      return kIsSigned ? kInt8 : kUint8;
    case 16:
      return kIsSigned ? kInt16 : kUint16;
    case 32:
      return kIsSigned ? kInt32 : kUint32;
    default:
      return kIsSigned ? kInt64 : kUint64;
  }
}

template <class T>
void put_value(Bytes& out, const T& value, unsigned bits) {
  if constexpr (std::same_as<T, bool>) {
    out.put<uint8_t>(value ? 1 : 0);
  } else if constexpr (std::same_as<T, std::string>) {
    out.put_string(value);
  } else if constexpr (std::same_as<T, double>) {
    bits == 64 ? out.put(value) : out.put(static_cast<float>(value));
  } else if (bits == 8) {
    out.put(static_cast<uint8_t>(value));
  } else if (bits == 16) {
    out.put(static_cast<uint16_t>(value));
  } else if (bits == 32) {
    out.put(static_cast<uint32_t>(value));
  } else {
    out.put(static_cast<uint64_t>(value));
  }
}

template <class T>
void put_key_value(Bytes& out, const T& value, unsigned bits) {
  using Element = ElementOf<T>::type;
  if constexpr (std::same_as<Element, T>) {
    out.put<uint32_t>(value_type<T>(bits));
    put_value(out, value, bits);
  } else {
    out.put<uint32_t>(kArray);
    out.put<uint32_t>(value_type<Element>(bits));
    out.put<uint64_t>(value.size());
    for (const auto& element : value) put_value<Element>(out, element, bits);
  }
}

uint64_t alignment_of(const Metadata& metadata) {
  const auto stated = metadata.get_uint("general.alignment");
  return stated ? stated->value_or(kDefaultAlignment) : kDefaultAlignment;
}

uint64_t padded(uint64_t n_bytes, uint64_t alignment) {
  return (n_bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

std::vector<std::byte> gguf_header(const Metadata& metadata, std::span<const TensorInfo> tensors) {
  const uint64_t alignment = alignment_of(metadata);
  Bytes out;
  for (const char letter : std::string_view("GGUF")) out.put(letter);
  out.put(kVersion);
  out.put<uint64_t>(tensors.size());
  out.put<uint64_t>(metadata.values().size());
  for (const auto& [key, value] : metadata.values()) {
    out.put_string(key);
    const unsigned stored = metadata.stored_bits(key);
    std::visit([&](const auto& v) { put_key_value(out, v, stored ? stored : natural_bits(v)); },
               value);
  }
  uint64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    CHECK(traits(tensor.type).gguf_id != kNoGgufId);
    out.put_string(tensor.name);
    out.put(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t axis = tensor.shape.size(); axis-- > 0;) out.put(tensor.shape[axis]);
    out.put(traits(tensor.type).gguf_id);
    out.put(offset);
    offset += padded(tensor.n_bytes, alignment);
  }
  out.pad(alignment);
  return out.take();
}

Result<GgufOutput> GgufOutput::create(const std::string& path, const Metadata& metadata,
                                      std::vector<TensorInfo> tensors) {
  TRY_ASSIGN(auto file, NewFile::create(path, kFileMode));
  const std::vector<std::byte> header = gguf_header(metadata, tensors);
  GgufOutput output(std::move(file), std::move(tensors), alignment_of(metadata));
  output.n_bytes_ = header.size();
  for (const TensorInfo& tensor : output.tensors_) {
    output.n_bytes_ += padded(tensor.n_bytes, output.alignment_);
  }
  TRY(output.file_.reserve(output.n_bytes_));
  TRY(output.file_.write(header));
  return output;
}

Result<void> GgufOutput::write(std::span<const std::byte> bytes) {
  CHECK(tensor_ < tensors_.size());
  n_written_ += bytes.size();
  const uint64_t n_all = tensors_[tensor_].n_bytes;
  CHECK(n_written_ <= n_all);
  TRY(file_.write(bytes));
  if (n_written_ < n_all) return {};
  ++tensor_;
  n_written_ = 0;
  const std::vector<std::byte> padding(padded(n_all, alignment_) - n_all);
  return file_.write(padding);
}

Result<void> GgufOutput::commit() {
  CHECK(tensor_ == tensors_.size());
  return file_.commit();
}

}  // namespace kvik
