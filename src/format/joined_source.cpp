#include "format/joined_source.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "format/quoted.h"

namespace kvik {
namespace {

class JoinedSource final : public ModelSource {
 public:
  explicit JoinedSource(std::vector<std::unique_ptr<ModelSource>> pieces)
      : pieces_(std::move(pieces)) {
    for (const auto& piece : pieces_) {
      for (size_t i = 0; i < piece->tensors().size(); ++i) {
        infos_.push_back(piece->tensors()[i]);
        places_.push_back({piece.get(), i});
      }
    }
  }

  const std::string& label() const override { return pieces_.front()->label(); }
  const Metadata& metadata() const override { return pieces_.front()->metadata(); }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  Result<std::span<const std::byte>> read(size_t index) override {
    CHECK(index < places_.size());
    return places_[index].piece->read(places_[index].index);
  }
  Result<std::span<const std::byte>> read_range(size_t index, uint64_t begin_byte,
                                                uint64_t n_bytes) override {
    CHECK(index < places_.size());
    return places_[index].piece->read_range(places_[index].index, begin_byte, n_bytes);
  }
  void release(size_t index) override {
    CHECK(index < places_.size());
    places_[index].piece->release(places_[index].index);
  }
  std::string name_in_file(size_t index) const override {
    return places_[index].piece->name_in_file(places_[index].index);
  }
  std::span<const uint32_t> gather(size_t index) const override {
    return places_[index].piece->gather(places_[index].index);
  }
  std::span<const float> scales(size_t index) const override {
    return places_[index].piece->scales(places_[index].index);
  }

 private:
  struct Place {
    ModelSource* piece;
    size_t index;
  };
  std::vector<std::unique_ptr<ModelSource>> pieces_;
  std::vector<TensorInfo> infos_;
  std::vector<Place> places_;
};

}  // namespace

Result<std::unique_ptr<ModelSource>> join_sources(
    std::vector<std::unique_ptr<ModelSource>> pieces) {
  CHECK(!pieces.empty());
  std::unordered_set<std::string_view> names;
  for (const auto& piece : pieces) {
    for (const TensorInfo& tensor : piece->tensors()) {
      if (names.insert(tensor.name).second) continue;
      return fail(ErrorCode::kCorrupt, fmt::format("'{}': tensor {} is in an earlier piece, too",
                                                   piece->label(), quoted(tensor.name)));
    }
  }
  return std::make_unique<JoinedSource>(std::move(pieces));
}

}  // namespace kvik
