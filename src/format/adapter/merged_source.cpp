#include "format/adapter/merged_source.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "format/adapter/base_rows.h"

namespace kvik {
namespace {

using Bytes = std::span<const std::byte>;

class MergedSource final : public ModelSource {
 public:
  MergedSource(std::unique_ptr<ModelSource> base, std::unique_ptr<AdapterSource> adapter)
      : base_(std::move(base)), adapter_(std::move(adapter)) {
    for (size_t i = 0; i < adapter_->pairs().size(); ++i) {
      pairs_[name_of(adapter_->pairs()[i].tensor)].push_back(i);
    }
    for (size_t i = 0; i < adapter_->saved().size(); ++i) {
      saved_[name_of(adapter_->saved()[i].tensor)] = i;
    }
    for (size_t i = 0; i < base_->tensors().size(); ++i) add(base_->tensors()[i], i);
    add_head();
  }

  const std::string& label() const override { return base_->label(); }
  const Metadata& metadata() const override { return base_->metadata(); }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  std::string name_in_file(size_t index) const override {
    return base_->name_in_file(places_[index]);
  }
  std::span<const uint32_t> gather(size_t index) const override {
    return is_changed(index) ? std::span<const uint32_t>() : base_->gather(places_[index]);
  }
  std::span<const float> scales(size_t index) const override {
    return is_changed(index) ? std::span<const float>() : base_->scales(places_[index]);
  }

  Result<Bytes> read(size_t index) override {
    if (const auto whole = saved_.find(infos_[index].name); whole != saved_.end()) {
      return adapter_->read_saved(whole->second);
    }
    if (!is_changed(index)) return base_->read(places_[index]);
    const auto known = merged_.find(index);
    if (known != merged_.end()) return std::as_bytes(std::span(known->second));
    TRY_ASSIGN(std::vector<float> values, base_values(index));
    for (const size_t pair : pairs_.at(infos_[index].name)) TRY(add_pair(pair, values));
    return std::as_bytes(std::span(merged_[index] = std::move(values)));
  }

  Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) override {
    if (is_changed(index)) return ModelSource::read_range(index, begin_byte, n_bytes);
    return base_->read_range(places_[index], begin_byte, n_bytes);
  }

  void release(size_t index) override {
    merged_.erase(index);
    base_->release(places_[index]);
  }

 private:
  bool is_changed(size_t index) const {
    return pairs_.contains(infos_[index].name) || saved_.contains(infos_[index].name);
  }

  void add(TensorInfo info, size_t place) {
    if (const auto whole = saved_.find(info.name); whole != saved_.end()) {
      info.type = adapter_->saved()[whole->second].type;
      info.n_bytes = *bytes_of(info.type, info.shape);
    }
    if (pairs_.contains(info.name)) {
      info.type = ElementType::kF32;
      info.n_bytes = info.n_elements() * sizeof(float);
    }
    infos_.push_back(std::move(info));
    places_.push_back(place);
  }

  void add_head() {
    const std::string head = name_of(TensorId{TensorRole::kHead});
    const std::string embedding = name_of(TensorId{TensorRole::kEmbedding});
    const auto tied = base_->find(embedding);
    if (base_->find(head) || !tied) return;
    const auto changes = [&](const std::string& name) {
      return pairs_.contains(name) || saved_.contains(name);
    };
    if (!changes(head) && !changes(embedding)) return;
    TensorInfo info = base_->tensors()[*tied];
    info.name = head;
    add(std::move(info), *tied);
  }

  // In the order of inputs, whatever that of the columns.
  Result<std::vector<float>> base_values(size_t index) {
    const TensorInfo& info = base_->tensors()[places_[index]];
    return base_rows(*base_, places_[index], 0, info.n_elements() / info.shape.back());
  }

  // values[part] += scale · b · a, and of DoRA each row times its scale.
  Result<void> add_pair(size_t index, std::vector<float>& values) {
    const AdapterPair& pair = adapter_->pairs()[index];
    TRY_ASSIGN(const LowRankFactors factors, adapter_->read(index));
    const uint64_t n_values = pair.n_rows * pair.n_cols;
    CHECK((pair.part + 1) * n_values <= values.size());
    const auto matrix = std::span(values).subspan(pair.part * n_values, n_values);
    add_low_rank(pair, factors, 0, matrix);
    for (uint64_t row = 0; pair.has_magnitudes && row < pair.n_rows; ++row) {
      const auto changed = matrix.subspan(row * pair.n_cols, pair.n_cols);
      const float scale = dora_scale(factors.magnitudes[row], changed);
      for (float& value : changed) value *= scale;
    }
    return {};
  }

  std::unique_ptr<ModelSource> base_;
  std::unique_ptr<AdapterSource> adapter_;
  std::map<std::string, std::vector<size_t>> pairs_;  // by the tensor's name
  std::map<std::string, size_t> saved_;               // likewise
  std::vector<TensorInfo> infos_;
  std::vector<size_t> places_;  // in base_
  std::map<size_t, std::vector<float>> merged_;
};

}  // namespace

std::unique_ptr<ModelSource> merge_adapter(std::unique_ptr<ModelSource> base,
                                           std::unique_ptr<AdapterSource> adapter) {
  return std::make_unique<MergedSource>(std::move(base), std::move(adapter));
}

}  // namespace kvik
