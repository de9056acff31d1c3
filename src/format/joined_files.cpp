#include "format/joined_files.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "format/quoted.h"

namespace kvik {
namespace {

class JoinedFiles final : public TensorSource {
 public:
  explicit JoinedFiles(std::vector<std::unique_ptr<ModelSource>> pieces)
      : pieces_(std::move(pieces)) {
    for (const auto& piece : pieces_) {
      for (size_t i = 0; i < piece->tensors().size(); ++i) {
        infos_.push_back(piece->tensors()[i]);
        places_.push_back({piece.get(), i});
      }
    }
  }

  std::span<const TensorInfo> tensors() const override { return infos_; }
  Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) override {
    return at(index).piece->read_range(at(index).index, begin_byte, n_bytes);
  }
  void release(size_t index) override { at(index).piece->release(at(index).index); }
  Result<void> check_unchanged() const override {
    for (const auto& piece : pieces_) TRY(piece->check_unchanged());
    return {};
  }
  std::string name_in_file(size_t index) const override {
    return at(index).piece->name_in_file(at(index).index);
  }
  std::string_view stored_type(size_t index) const override {
    return at(index).piece->stored_type(at(index).index);
  }
  std::span<const uint32_t> gather(size_t index) const override {
    return at(index).piece->gather(at(index).index);
  }
  std::span<const float> scales(size_t index) const override {
    return at(index).piece->scales(at(index).index);
  }

 private:
  struct Place {
    ModelSource* piece;
    size_t index;
  };
  const Place& at(size_t index) const {
    CHECK(index < places_.size());
    return places_[index];
  }

  std::vector<std::unique_ptr<ModelSource>> pieces_;
  std::vector<TensorInfo> infos_;
  std::vector<Place> places_;
};

}  // namespace

Result<std::unique_ptr<ModelSource>> join_files(std::vector<std::unique_ptr<ModelSource>> pieces) {
  CHECK(!pieces.empty());
  std::unordered_set<std::string_view> names;
  for (const auto& piece : pieces) {
    for (const TensorInfo& tensor : piece->tensors()) {
      if (names.insert(tensor.name).second) continue;
      return fail(ErrorCode::kCorrupt, fmt::format("'{}': tensor {} is in an earlier piece, too",
                                                   piece->label(), quoted(tensor.name)));
    }
  }
  std::string label = pieces.front()->label();
  Metadata metadata = pieces.front()->metadata();
  return std::make_unique<ModelSource>(std::move(label), std::move(metadata),
                                       std::make_unique<JoinedFiles>(std::move(pieces)));
}

}  // namespace kvik
