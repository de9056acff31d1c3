#include "format/model_source.h"

#include <map>
#include <utility>

#include "base/check.h"

namespace kvik {
namespace {

// The outputs of a transform, kept from read_range() to release().
class TransformedTensors final : public TensorSource {
 public:
  explicit TransformedTensors(std::unique_ptr<TensorTransform> transform)
      : transform_(std::move(transform)) {
    for (const TensorTransform::Output& output : transform_->outputs()) {
      infos_.push_back(output.info);
    }
  }

  std::span<const TensorInfo> tensors() const override { return infos_; }

  Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) override {
    const TensorTransform::Output& output = at(index);
    if (!output.is_made) return inputs().read_range(*output.input, begin_byte, n_bytes);
    TensorTransform::Made& made = made_[index];
    const bool is_there = !made.memory.empty() && begin_byte >= made.begin &&
                          begin_byte + n_bytes <= made.begin + made.bytes.size();
    if (!is_there) {
      made.memory.clear();
      const auto done = transform_->make(index, {begin_byte, n_bytes}, made);
      if (!done) {
        made.memory.clear();
        return std::unexpected(done.error());
      }
    }
    CHECK(begin_byte >= made.begin && begin_byte - made.begin <= made.bytes.size() &&
          n_bytes <= made.bytes.size() - (begin_byte - made.begin));
    return made.bytes.subspan(begin_byte - made.begin, n_bytes);
  }

  void release(size_t index) override {
    const TensorTransform::Output& output = at(index);
    if (!output.is_made) return inputs().release(*output.input);
    made_.erase(index);
    transform_->release(index);
  }

  std::string name_in_file(size_t index) const override {
    const TensorTransform::Output& output = at(index);
    return output.input ? inputs().name_in_file(*output.input) : output.info.name;
  }

  std::string_view stored_type(size_t index) const override {
    const TensorTransform::Output& output = at(index);
    return output.is_made ? std::string_view() : inputs().stored_type(*output.input);
  }

  std::span<const uint32_t> gather(size_t index) const override {
    if (!at(index).is_made) return inputs().gather(*at(index).input);
    const auto found = made_.find(index);
    return found == made_.end() ? std::span<const uint32_t>() : found->second.gather;
  }

  std::span<const float> scales(size_t index) const override {
    if (!at(index).is_made) return inputs().scales(*at(index).input);
    const auto found = made_.find(index);
    return found == made_.end() ? std::span<const float>() : found->second.scales;
  }

 private:
  const TensorTransform::Output& at(size_t index) const {
    CHECK(index < infos_.size());
    return transform_->outputs()[index];
  }
  TensorSource& inputs() const { return transform_->inputs(); }

  std::unique_ptr<TensorTransform> transform_;
  std::vector<TensorInfo> infos_;
  std::map<size_t, TensorTransform::Made> made_;
};

}  // namespace

float TensorSource::scale(size_t index, uint64_t slice) const {
  const auto all = scales(index);
  return all.empty() ? 1.0f : all[all.size() == 1 ? 0 : slice];
}

std::optional<size_t> TensorSource::find(std::string_view name) const {
  const auto all = tensors();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return i;
  }
  return std::nullopt;
}

std::byte* TensorTransform::Made::allocate(uint64_t begin_byte, uint64_t n_bytes) {
  memory.resize(n_bytes);
  bytes = memory;
  begin = begin_byte;
  return memory.data();
}

void TensorTransform::release(size_t index) {
  if (const auto input = outputs_[index].input) inputs_.release(*input);
}

ModelSource::ModelSource(std::string label, Metadata metadata, std::unique_ptr<TensorSource> files)
    : label_(std::move(label)), metadata_(std::move(metadata)) {
  levels_.push_back(std::move(files));
}

void ModelSource::describe(std::string label, Metadata metadata) {
  label_ = std::move(label);
  metadata_ = std::move(metadata);
}

void ModelSource::add(std::unique_ptr<TensorTransform> transform) {
  CHECK(&transform->inputs() == &top());
  levels_.push_back(std::make_unique<TransformedTensors>(std::move(transform)));
}

Result<TensorSource::Bytes> ModelSource::read_range(size_t index, uint64_t begin_byte,
                                                    uint64_t n_bytes) {
  last_read_ = {index, begin_byte};
  return top().read_range(index, begin_byte, n_bytes);
}

}  // namespace kvik
