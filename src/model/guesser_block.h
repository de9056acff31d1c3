#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token_id.h"
#include "model/attention_block.h"
#include "model/model.h"
#include "model/recurrent/recurrent_block.h"
#include "model/recurrent/state_layout.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// The layer that guesses the token behind the next one (ModelConfig::has_guesser): its input at a
// token is projection([norm(embedding of the token), norm(hidden state of the token before)]), and
// what it gives, normed, meets the head (Gloeckle et al. 2024; DeepSeek-V3, 2024, section 2.2;
// Qwen3-Next). So its K and V of a token depend on no later one and lie in the pages of the others,
// and the hidden state of the newest token is a part of the sequence's state. At the first token it
// sees nothing, and nobody looks back at that. One thread.
class GuesserBlock {
 public:
  struct Buffers {
    Rows hidden;   // [n_rows_max, model_dim] of the step's rows, behind the last norm
    Rows before;   // [n_rows_max, model_dim] of the token before each
    Rows pairs;    // [n_rows_max, 2 · model_dim]
    Rows guessed;  // [kMostRows, model_dim] of the newest guesses, behind the guesser's norm
    ResidualStream::Buffers stream;
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };
  static constexpr uint32_t kMostRows = 32;  // guesses of one pass

  // `model`, which has a guesser, and `backend` are borrowed.
  GuesserBlock(const Model& model, Backend& backend, const Buffers& buffers);

  uint32_t layer() const { return model_.config().n_layers; }

  // The step's rows behind the last layer, with their tokens: leaves K and V of all of them in the
  // pages, and in each state the hidden state of the last row that is no guess. `runs` are borrowed
  // until accept().
  void follow(std::span<const TokenId> tokens, std::span<const RecurrentBlock::Run> runs, Rows x,
              AttentionBlock& attention);
  // Of run i of the step, the first n_true[i] of its guesses came true.
  void accept(std::span<const uint32_t> n_true);

  // A token of one sequence that is guessed behind.
  struct Row {
    TokenId token = 0;
    std::byte* state = nullptr;           // of the sequence: the token comes behind its newest,
    std::optional<uint32_t> behind = {};  // or it was guessed by that row of the last pass
  };
  // The layer's input for such rows, kMostRows at most.
  ResidualStream& begin(std::span<const Row> rows);
  // Behind the layer: what the head meets.
  Rows end();

 private:
  float* hidden_of(std::byte* state) const {
    return reinterpret_cast<float*>(state) + state_offset_;
  }
  void copy_row(const float* from, float* to);
  void join(std::span<const TokenId> tokens);

  const Model& model_;
  Backend& backend_;
  const uint64_t state_offset_;
  Buffers buffers_;
  ResidualStream x_;
  std::span<const RecurrentBlock::Run> runs_;
  std::vector<uint32_t> rows_;  // of a gather
  std::vector<TokenId> tokens_;
};

}  // namespace kvik
