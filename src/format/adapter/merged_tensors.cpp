#include "format/adapter/merged_tensors.h"

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

// Number of values of the base model that are converted at a time.
constexpr uint64_t kChunkValues = uint64_t{4} << 20;

// The pairs and saved tensors of an adapter by the name of the tensor that they change.
class Changes {
 public:
  explicit Changes(std::unique_ptr<AdapterSource> adapter) : adapter_(std::move(adapter)) {
    for (size_t i = 0; i < adapter_->pairs().size(); ++i) {
      pairs_[name_of(adapter_->pairs()[i].tensor)].push_back(i);
    }
    for (size_t i = 0; i < adapter_->saved().size(); ++i) {
      const std::string name = name_of(adapter_->saved()[i].tensor);
      CHECK(!pairs_.contains(name));
      saved_[name] = i;
    }
  }

  // Returns the base model's tensors, and a separate head if it differs from the embedding.
  std::vector<TensorTransform::Output> outputs(const TensorSource& base) const {
    std::vector<TensorTransform::Output> outputs;
    for (size_t i = 0; i < base.tensors().size(); ++i) {
      outputs.push_back(changed(base.tensors()[i], i));
    }
    const std::string head = name_of(TensorId{TensorRole::kHead});
    const std::string embedding = name_of(TensorId{TensorRole::kEmbedding});
    const auto tied = base.find(embedding);
    if (base.find(head) || !tied || (!has(head) && !has(embedding))) return outputs;
    TensorInfo info = base.tensors()[*tied];
    info.name = head;
    outputs.push_back(changed(std::move(info), *tied));
    return outputs;
  }

  AdapterSource& adapter() const { return *adapter_; }
  std::optional<size_t> saved(const std::string& name) const {
    const auto found = saved_.find(name);
    return found == saved_.end() ? std::nullopt : std::optional(found->second);
  }
  std::span<const size_t> pairs(const std::string& name) const { return pairs_.at(name); }

 private:
  bool has(const std::string& name) const { return pairs_.contains(name) || saved_.contains(name); }

  TensorTransform::Output changed(TensorInfo info, size_t input) const {
    if (const auto whole = saved(info.name)) {
      info.type = adapter_->saved()[*whole].type;
      info.n_bytes = *bytes_of(info.type, info.shape);
    }
    if (pairs_.contains(info.name)) {
      info.type = ElementType::kF32;
      info.n_bytes = info.n_elements() * sizeof(float);
    }
    const bool is_made = has(info.name);
    return {std::move(info), input, is_made};
  }

  std::unique_ptr<AdapterSource> adapter_;
  std::map<std::string, std::vector<size_t>> pairs_;
  std::map<std::string, size_t> saved_;
};

class MergedTensors final : public TensorTransform {
 public:
  MergedTensors(TensorSource& inputs, Changes changes)
      : TensorTransform(inputs, changes.outputs(inputs)), changes_(std::move(changes)) {}

  Result<void> make(size_t index, Range, Made& made) override {
    if (const auto whole = changes_.saved(info(index).name)) {
      TRY_ASSIGN(made.bytes, changes_.adapter().read_saved(*whole));
      return {};
    }
    TRY_ASSIGN(const std::span<float> values, base_values(index, made));
    for (const size_t pair : changes_.pairs(info(index).name)) TRY(add_pair(pair, values));
    return {};
  }

 private:
  // Returns the values of the base model as f32. Columns are in the order of the inputs, even if
  // the file has another order.
  Result<std::span<float>> base_values(size_t index, Made& made) {
    const size_t input = *outputs()[index].input;
    const uint64_t n_cols = info(index).shape.back();
    const uint64_t n_rows = info(index).n_elements() / n_cols;
    const uint64_t n_at_once = std::max<uint64_t>(1, kChunkValues / n_cols);
    auto* const values = reinterpret_cast<float*>(made.allocate(0, info(index).n_bytes));
    for (uint64_t first = 0; first < n_rows; first += n_at_once) {
      const uint64_t n = std::min(n_at_once, n_rows - first);
      TRY_ASSIGN(const std::vector<float> rows, base_rows(inputs_, input, first, n));
      std::ranges::copy(rows, values + first * n_cols);
    }
    return std::span(values, n_rows * n_cols);
  }

  // Computes values[part] += scale · b · a, and for DoRA scales each row.
  Result<void> add_pair(size_t index, std::span<float> values) {
    const AdapterPair& pair = changes_.adapter().pairs()[index];
    TRY_ASSIGN(const LowRankFactors factors, changes_.adapter().read(index));
    const uint64_t n_values = pair.n_rows * pair.n_cols;
    CHECK((pair.part + 1) * n_values <= values.size());
    const auto matrix = values.subspan(pair.part * n_values, n_values);
    add_low_rank(pair, factors, 0, matrix);
    for (uint64_t row = 0; pair.has_magnitudes && row < pair.n_rows; ++row) {
      const auto changed = matrix.subspan(row * pair.n_cols, pair.n_cols);
      const float scale = dora_scale(factors.magnitudes[row], changed);
      for (float& value : changed) value *= scale;
    }
    return {};
  }

  Changes changes_;
};

}  // namespace

void merge_adapter(ModelSource& source, std::unique_ptr<AdapterSource> adapter) {
  source.add(std::make_unique<MergedTensors>(source.top(), Changes(std::move(adapter))));
}

}  // namespace kvik
