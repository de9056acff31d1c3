#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "tensor/element_type.h"

namespace kvik {

inline constexpr uint32_t kMaxAdapterRank = 256;

// A change of low rank of one matrix of a model: W + scale · b · a (Hu et al. 2021), in the order
// of rows and columns that the matrix has in a GGUF file. Of the embedding, too: W is then
// [n_vocab, model_dim], and a row of b is a token's.
struct AdapterPair {
  TensorId tensor;
  uint32_t part = 0;    // of a stack of matrices, which: an expert's or a head's
  uint64_t n_rows = 0;  // of the matrix
  uint64_t n_cols = 0;
  uint32_t rank = 0;
  float scale = 0;
  ElementType type = ElementType::kF32;  // f32, f16 or bf16: holds exactly what the file holds
  // DoRA (Liu et al. 2024): each row of the changed matrix is then brought to a length of its own.
  bool has_magnitudes = false;
};

// A tensor that stands in the place of the base's ("modules_to_save" of PEFT).
struct SavedTensor {
  TensorId tensor;
  ElementType type = ElementType::kF32;  // f32, f16 or bf16
};

struct LowRankFactors {
  std::vector<float> a;                // [rank, n_cols]
  std::vector<float> b;                // [n_rows, rank]
  std::vector<float> magnitudes = {};  // [n_rows], of DoRA
};

// An adapter as it lies on disk, for one model's shapes: pairs that are read one by one. No matrix
// is changed by two of them. One thread at a time.
class AdapterSource {
 public:
  virtual ~AdapterSource() = default;

  virtual const std::string& label() const = 0;  // the path
  // What the file says it was made for; empty where it does not.
  virtual const std::string& base_name() const = 0;
  // In the order of TensorId, then of the part.
  virtual std::span<const AdapterPair> pairs() const = 0;
  // Errors: those of the file, kCorrupt for what is no finite number; names the tensor.
  virtual Result<LowRankFactors> read(size_t index) = 0;

  // The embedding and the head, where they are saved whole. Read for merge_adapter() alone.
  virtual std::span<const SavedTensor> saved() const { return {}; }
  // The bytes of saved()[i], valid as long as the source.
  virtual Result<std::span<const std::byte>> read_saved(size_t) {
    return std::span<const std::byte>();
  }
};

// Returns true if a pair has magnitudes, so that the base's weights are needed to compute with it.
bool needs_base(const AdapterSource& source);

// Opens a folder of PEFT (adapter_config.json and adapter_model.safetensors) or a LoRA file of
// llama.cpp (GGUF with "general.type" = "adapter") for a model of that config. `factor`, a finite
// number, multiplies every scale. Errors, one sentence each that names the key or the tensor:
// kNotFound, kIo, kCorrupt, kUnsupported (what is neither LoRA nor DoRA, such as whole modules; an
// element type; a rank above kMaxAdapterRank), kInvalidArgument (made for another model).
Result<std::unique_ptr<AdapterSource>> open_adapter(const std::string& path,
                                                    const ModelConfig& model, float factor = 1.0f);

// The files that open_adapter() reads for a path: those of PEFT in a folder, else the path itself.
std::vector<std::string> adapter_files(const std::string& path);

// "PATH[:SCALE]": what stands behind the last colon is the scale where it is a number. Error:
// kInvalidArgument for a scale that is not from -1000 to 1000, or a path that
// is empty or holds a NUL byte.
struct AdapterSpec {
  std::string path;
  float scale = 1.0f;
};
Result<AdapterSpec> parse_adapter_spec(const std::string& text);

}  // namespace kvik
