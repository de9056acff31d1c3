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

// A low-rank update of one matrix of a model: W + scale · b · a (Hu et al. 2021), in the row and
// column order that the matrix has in a GGUF file. For the embedding, W is [n_vocab, model_dim], so
// that a row of b belongs to a token.
struct AdapterPair {
  TensorId tensor;
  uint32_t part = 0;    // index in a stack of matrices: an expert or a head
  uint64_t n_rows = 0;  // number of rows of the matrix
  uint64_t n_cols = 0;
  uint32_t rank = 0;
  float scale = 0;
  ElementType type = ElementType::kF32;  // f32, f16 or bf16: holds the file's values exactly
  // True for DoRA (Liu et al. 2024): each row of the updated matrix is scaled to the length that
  // the adapter stores for it.
  bool has_magnitudes = false;
};

// A tensor that replaces the base model's ("modules_to_save" of PEFT).
struct SavedTensor {
  TensorId tensor;
  ElementType type = ElementType::kF32;  // f32, f16 or bf16
};

// Factors of a pair, converted to f32.
struct LowRankFactors {
  std::vector<float> a;                // [rank, n_cols]
  std::vector<float> b;                // [n_rows, rank]
  std::vector<float> magnitudes = {};  // [n_rows], for DoRA
};

// An adapter on disk, checked against the shapes of one model. Its pairs are read one at a time,
// and no two of them update the same matrix. A tensor is changed by pairs or saved whole, not both.
// Used by one thread at a time.
class AdapterSource {
 public:
  virtual ~AdapterSource() = default;

  virtual const std::string& label() const = 0;  // path of the file or folder
  // Returns the name of the base model that the file states; empty if it states none.
  virtual const std::string& base_name() const = 0;
  // Returns the pairs, sorted by TensorId and then by part.
  virtual std::span<const AdapterPair> pairs() const = 0;
  // Reads the factors of pairs()[index]. Errors: those of reading the file, and kCorrupt for a
  // number that is not finite; the message names the tensor.
  virtual Result<LowRankFactors> read(size_t index) = 0;

  // Returns the tensors that replace the embedding and the head of the base model. Used by
  // merge_adapter() only.
  virtual std::span<const SavedTensor> saved() const { return {}; }
  // Returns the bytes of saved()[i], valid as long as the source.
  virtual Result<std::span<const std::byte>> read_saved(size_t) {
    return std::span<const std::byte>();
  }
};

// Returns true if a pair has magnitudes, so that the base model's weights are needed.
bool needs_base(const AdapterSource& source);

// Opens a PEFT folder (adapter_config.json and adapter_model.safetensors) or llama.cpp's LoRA file
// (GGUF with "general.type" = "adapter") for a model with that config. `factor`, a finite number,
// multiplies every scale. Errors, one sentence each that names the key or the tensor: kNotFound,
// kIo, kCorrupt, kUnsupported (neither LoRA nor DoRA, such as whole modules; an element type; a
// rank above kMaxAdapterRank), kInvalidArgument (the adapter was made for another model).
Result<std::unique_ptr<AdapterSource>> open_adapter(const std::string& path,
                                                    const ModelConfig& model, float factor = 1.0f);

// Returns the files that open_adapter() reads for a path: those of PEFT in a folder, else the path
// itself.
std::vector<std::string> adapter_files(const std::string& path);

// An adapter as named on a command line or by a client.
struct AdapterSpec {
  std::string path;
  float scale = 1.0f;
};
// Parses "PATH[:SCALE]". The text after the last colon is the scale if it is a number. Errors:
// kInvalidArgument for a scale outside [-1000, 1000], or a path that is empty or contains a NUL
// byte.
Result<AdapterSpec> parse_adapter_spec(const std::string& text);

}  // namespace kvik
