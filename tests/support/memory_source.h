#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "format/model_source.h"

namespace kvik {

// A model source in memory whose parts a test may change, and that counts what is done with it.
// Bytes live from being read to release() or being read again, so that a later use is one after
// free.
class MemorySource final : public ModelSource {
 public:
  struct Use {
    uint64_t n_bytes_read = 0;
    uint32_t n_releases = 0;
  };

  explicit MemorySource(ModelSource& original) : label_(original.label()) {
    for (const auto& [key, value] : original.metadata().values()) metadata_.insert(key, value);
    for (size_t i = 0; i < original.tensors().size(); ++i) {
      const auto bytes = original.read(i);
      CHECK(bytes.has_value());
      add(original.tensors()[i], {bytes->begin(), bytes->end()});
      original.release(i);
    }
  }

  const std::string& label() const override { return label_; }
  const Metadata& metadata() const override { return metadata_; }
  std::span<const TensorInfo> tensors() const override { return infos_; }

  Result<std::span<const std::byte>> read(size_t index) override {
    return read_range(index, 0, bytes_[index].size());
  }

  Result<std::span<const std::byte>> read_range(size_t index, uint64_t begin_byte,
                                                uint64_t n_bytes) override {
    uses_[index].n_bytes_read += n_bytes;
    const auto range = std::span(bytes_[index]).subspan(begin_byte, n_bytes);
    lent_[index] = std::make_unique<std::vector<std::byte>>(range.begin(), range.end());
    n_lent_max_ = std::max(n_lent_max_, n_lent());
    return std::span<const std::byte>(*lent_[index]);
  }

  void release(size_t index) override {
    ++uses_[index].n_releases;
    lent_[index].reset();
  }

  std::span<const uint32_t> gather(size_t index) const override {
    const auto found = orders_.find(infos_[index].name);
    return found == orders_.end() ? std::span<const uint32_t>() : found->second;
  }

  // --- for tests ---

  void set_gather(const std::string& name, std::vector<uint32_t> order) {
    orders_[name] = std::move(order);
  }

  void add(TensorInfo info, std::vector<std::byte> bytes) {
    info.n_bytes = bytes.size();
    infos_.push_back(std::move(info));
    bytes_.push_back(std::move(bytes));
    lent_.emplace_back();
    uses_.emplace_back();
  }
  void add_vector(std::string name, const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    add({std::move(name), ElementType::kF32, {values.size()}, bytes.size()},
        {bytes.begin(), bytes.end()});
  }
  struct Tensor {
    TensorInfo info;
    std::vector<std::byte> bytes;
  };
  // Takes a tensor out; add() puts it back.
  Tensor take(const std::string& name) {
    const size_t at = index_of(name);
    const auto index = static_cast<ptrdiff_t>(at);
    Tensor taken{std::move(infos_[at]), std::move(bytes_[at])};
    infos_.erase(infos_.begin() + index);
    bytes_.erase(bytes_.begin() + index);
    lent_.erase(lent_.begin() + index);
    uses_.erase(uses_.begin() + index);
    return taken;
  }
  TensorInfo& info(const std::string& name) { return infos_[index_of(name)]; }

  // Gives a key another value.
  void set(const std::string& key, Metadata::Value value) {
    Metadata changed;
    changed.insert(key, std::move(value));
    for (const auto& [other, kept] : metadata_.values()) changed.insert(other, kept);
    metadata_ = std::move(changed);
  }

  const std::vector<Use>& uses() const { return uses_; }
  size_t n_lent() const {
    return static_cast<size_t>(
        std::ranges::count_if(lent_, [](const auto& p) { return p != nullptr; }));
  }
  size_t n_lent_max() const { return n_lent_max_; }

 private:
  size_t index_of(const std::string& name) const {
    const std::optional<size_t> index = find(name);
    CHECK(index.has_value());
    return *index;
  }

  std::string label_;
  Metadata metadata_;
  std::vector<TensorInfo> infos_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> lent_;
  std::vector<Use> uses_;
  std::map<std::string, std::vector<uint32_t>> orders_;
  size_t n_lent_max_ = 0;
};

}  // namespace kvik
