#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/metadata.h"
#include "format/tensor_source.h"
#include "format/tensor_transform.h"

namespace kvik {

// A model on disk (or a synthetic one): metadata, and the tensors of files with a list of
// transforms. Tensors are read one after another, large ones in ranges, and released, so that a
// tensor is never in memory twice, as read and packed, for longer than necessary. One thread at a
// time.
class ModelSource : public TensorSource {
 public:
  ModelSource(std::string label, Metadata metadata, std::unique_ptr<TensorSource> files);

  // Returns the origin of the model for messages: a path, "demo", "synthetic:tinyllama-1.1b:q8_0".
  const std::string& label() const { return label_; }
  const Metadata& metadata() const { return metadata_; }
  // Replaces the label and the metadata.
  void describe(std::string label, Metadata metadata);

  // Leaves the MTP head out of config_of(), so that it is not loaded.
  void leave_out_mtp_head() { is_mtp_head_left_out_ = true; }
  bool is_mtp_head_left_out() const { return is_mtp_head_left_out_; }

  // Leaves tables whose rows are looked up (RowTable) in the file when the model is loaded.
  void leave_tables_in_file() { are_tables_in_file_ = true; }
  bool are_tables_in_file() const { return are_tables_in_file_; }

  // States that the metadata and tensors of a draft head were added.
  void set_draft_head() { has_draft_head_ = true; }
  bool has_draft_head() const { return has_draft_head_; }

  // Returns the inputs of the next transform. add() makes the outputs of a transform the tensors of
  // this source.
  TensorSource& top() const { return *levels_.back(); }
  void add(std::unique_ptr<TensorTransform> transform);

  std::span<const TensorInfo> tensors() const override { return top().tensors(); }
  Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) override;
  void release(size_t index) override { top().release(index); }
  Result<void> check_unchanged() const override { return levels_.front()->check_unchanged(); }
  std::string name_in_file(size_t index) const override { return top().name_in_file(index); }
  std::string_view stored_type(size_t index) const override { return top().stored_type(index); }
  std::span<const uint32_t> gather(size_t index) const override { return top().gather(index); }
  std::span<const float> scales(size_t index) const override { return top().scales(index); }

  // The tensor that was read last, and the offset.
  struct Place {
    size_t tensor;
    uint64_t begin_byte;
  };
  const Place& last_read() const { return last_read_; }

 private:
  std::string label_;
  Metadata metadata_;
  // the files, then the outputs of the transforms
  std::vector<std::unique_ptr<TensorSource>> levels_;
  Place last_read_{};
  bool is_mtp_head_left_out_ = false;
  bool are_tables_in_file_ = false;
  bool has_draft_head_ = false;
};

}  // namespace kvik
