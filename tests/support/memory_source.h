#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "format/model_source.h"

namespace kvik {

// A model source in memory. Tests may change its parts, and it counts reads and releases. The bytes
// of a tensor live from read() until release() or the next read(), so that a later access is a use
// after free.
class MemorySource final : public ModelSource {
 public:
  struct Use {
    uint64_t n_bytes_read = 0;
    uint32_t n_releases = 0;
  };

  explicit MemorySource(ModelSource& original)
      : MemorySource(original, std::make_unique<Tensors>()) {}

  // --- for tests ---

  void set_gather(const std::string& name, std::vector<uint32_t> order) {
    own_.orders[name] = std::move(order);
  }

  void add(TensorInfo info, std::vector<std::byte> bytes) {
    info.n_bytes = bytes.size();
    own_.infos.push_back(std::move(info));
    own_.bytes.push_back(std::move(bytes));
    own_.lent.emplace_back();
    own_.uses.emplace_back();
  }
  void add_vector(std::string name, const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    add({std::move(name), ElementType::kF32, {values.size()}, bytes.size()},
        {bytes.begin(), bytes.end()});
  }
  using ModelSource::add;

  struct Tensor {
    TensorInfo info;
    std::vector<std::byte> bytes;
  };
  // Removes a tensor and returns it; add() inserts it again.
  Tensor take(const std::string& name) {
    const size_t at = index_of(name);
    const auto index = static_cast<ptrdiff_t>(at);
    Tensor taken{std::move(own_.infos[at]), std::move(own_.bytes[at])};
    own_.infos.erase(own_.infos.begin() + index);
    own_.bytes.erase(own_.bytes.begin() + index);
    own_.lent.erase(own_.lent.begin() + index);
    own_.uses.erase(own_.uses.begin() + index);
    return taken;
  }
  TensorInfo& info(const std::string& name) { return own_.infos[index_of(name)]; }

  // Changes the value of a key.
  void set(const std::string& key, Metadata::Value value) {
    Metadata changed;
    changed.insert(key, std::move(value));
    for (const auto& [other, kept] : metadata().values()) changed.insert(other, kept);
    describe(label(), std::move(changed));
  }

  const std::vector<Use>& uses() const { return own_.uses; }
  size_t n_lent() const { return own_.n_lent(); }
  size_t n_lent_max() const { return own_.n_lent_max; }

 private:
  struct Tensors final : TensorSource {
    std::span<const TensorInfo> tensors() const override { return infos; }

    Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) override {
      uses[index].n_bytes_read += n_bytes;
      const auto range = std::span(bytes[index]).subspan(begin_byte, n_bytes);
      lent[index] = std::make_unique<std::vector<std::byte>>(range.begin(), range.end());
      n_lent_max = std::max(n_lent_max, n_lent());
      return Bytes(*lent[index]);
    }

    void release(size_t index) override {
      ++uses[index].n_releases;
      lent[index].reset();
    }

    std::span<const uint32_t> gather(size_t index) const override {
      const auto found = orders.find(infos[index].name);
      return found == orders.end() ? std::span<const uint32_t>() : found->second;
    }

    size_t n_lent() const {
      return static_cast<size_t>(
          std::ranges::count_if(lent, [](const auto& p) { return p != nullptr; }));
    }

    std::vector<TensorInfo> infos;
    std::vector<std::vector<std::byte>> bytes;
    std::vector<std::unique_ptr<std::vector<std::byte>>> lent;
    std::vector<Use> uses;
    std::map<std::string, std::vector<uint32_t>> orders;
    size_t n_lent_max = 0;
  };

  MemorySource(ModelSource& original, std::unique_ptr<Tensors> tensors)
      : ModelSource(original.label(), original.metadata(), std::move(tensors)),
        own_(static_cast<Tensors&>(top())) {
    for (size_t i = 0; i < original.tensors().size(); ++i) {
      const auto bytes = original.read(i);
      CHECK(bytes.has_value());
      add(original.tensors()[i], {bytes->begin(), bytes->end()});
      original.release(i);
    }
  }

  size_t index_of(const std::string& name) const {
    const std::optional<size_t> index = find(name);
    CHECK(index.has_value());
    return *index;
  }

  Tensors& own_;
};

}  // namespace kvik
