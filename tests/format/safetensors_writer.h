#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor_view.h"

namespace kvik {

// Writes small safetensors files into memory for tests, including invalid ones.
class SafetensorsWriter {
 public:
  std::optional<uint64_t> length_claimed = {};  // length of the header
  std::string header_end = "}";                 // closing text of the header; blanks may follow

  SafetensorsWriter& tensor(const std::string& name, const std::string& dtype,
                            const std::vector<uint64_t>& shape, std::span<const std::byte> data) {
    const size_t begin = data_.size();
    data_.insert(data_.end(), data.begin(), data.end());
    return entry(name, fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", dtype,
                                   fmt::join(shape, ","), begin, data_.size()));
  }

  SafetensorsWriter& floats(const std::string& name, const std::vector<uint64_t>& shape,
                            const std::vector<float>& values) {
    return tensor(name, "F32", shape, std::as_bytes(std::span(values)));
  }

  // Adds an entry with any JSON.
  SafetensorsWriter& entry(const std::string& name, const std::string& json) {
    header_ += fmt::format("{}\"{}\":{}", header_.size() == 1 ? "" : ",", name, json);
    return *this;
  }

  // Adds bytes that belong to no tensor.
  SafetensorsWriter& more_data(size_t n_bytes) {
    data_.resize(data_.size() + n_bytes);
    return *this;
  }

  std::vector<std::byte> bytes() const {
    const std::string header = header_ + header_end;
    const uint64_t length = length_claimed.value_or(header.size());
    std::vector<std::byte> out(sizeof(length));
    std::memcpy(out.data(), &length, sizeof(length));
    const auto text = std::as_bytes(std::span(header));
    out.insert(out.end(), text.begin(), text.end());
    out.insert(out.end(), data_.begin(), data_.end());
    return out;
  }

 private:
  std::string header_ = "{";
  std::vector<std::byte> data_;
};

}  // namespace kvik
