#include "model/mtp_head_block.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {

MtpHeadBlock::Buffers MtpHeadBlock::Buffers::take(const ModelConfig& config, uint32_t n_rows_max,
                                                  RowBuffers& buffers) {
  return {.hidden = buffers.take(n_rows_max, config.model_dim),
          .before = buffers.take(n_rows_max, config.model_dim),
          .pairs = buffers.take(n_rows_max, 2 * config.model_dim),
          .outputs = buffers.take(std::min(kMaxRows, n_rows_max), config.model_dim),
          .stream = ResidualStream::Buffers::take(config, n_rows_max, buffers)};
}

MtpHeadBlock::MtpHeadBlock(const Model& model, Backend& backend, const Buffers& buffers)
    : model_(model),
      backend_(backend),
      state_offset_(state_layout(model.config()).offsets[model.config().n_layers]),
      buffers_(buffers),
      x_(backend, model.config(), buffers_.stream) {
  rows_.reserve(buffers.hidden.n_rows);
  tokens_.reserve(buffers.outputs.n_rows);
}

void MtpHeadBlock::copy_row(const float* from, float* to) {
  backend_.memory().copy(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
                         size_t{model_.config().model_dim} * sizeof(float));
}

// Computes the rows of the residual stream for tokens whose predecessors' hidden states are in
// buffers_.before.
void MtpHeadBlock::join(std::span<const TokenId> tokens) {
  const ModelConfig& c = model_.config();
  const MtpHeadWeights& w = model_.mtp_head();
  const auto n_rows = static_cast<uint32_t>(tokens.size());
  const Rows pairs = buffers_.pairs.slice(0, n_rows);
  const Rows embedded = pairs.columns(0, c.model_dim);
  x_.begin_step(n_rows);
  backend_.embed(model_.embedding(), tokens, x_.rows());
  backend_.rms_norm(x_.rows(), w.embedding_norm.floats(), c.model_dim, c.norm_eps, embedded);
  backend_.rms_norm(buffers_.before.slice(0, n_rows), w.hidden_norm.floats(), c.model_dim,
                    c.norm_eps, pairs.columns(c.model_dim, c.model_dim));
  backend_.matmul(pairs, *w.input, x_.rows());
}

void MtpHeadBlock::follow(std::span<const TokenId> tokens,
                          std::span<const RecurrentBlock::Run> runs, Rows x,
                          AttentionBlock& attention) {
  const ModelConfig& c = model_.config();
  runs_ = runs;
  const Rows hidden = buffers_.hidden.slice(0, x.n_rows);
  backend_.rms_norm(x, model_.output_norm().floats(), c.model_dim, c.norm_eps, hidden);
  rows_.clear();
  for (uint32_t row = 0; row < x.n_rows; ++row) rows_.push_back(row > 0 ? row - 1 : 0);
  backend_.gather(hidden, rows_, buffers_.before.slice(0, x.n_rows));
  for (const RecurrentBlock::Run& run : runs) {
    copy_row(hidden_of(run.state), buffers_.before.slice(run.first_row, 1).data);
  }
  join(tokens);
  attention.write_kv(layer(), x_);
  for (const RecurrentBlock::Run& run : runs) {
    CHECK(run.n_rows > run.n_draft_tokens);
    const uint32_t newest = run.first_row + run.n_rows - run.n_draft_tokens - 1;
    copy_row(hidden.slice(newest, 1).data, hidden_of(run.state));
  }
}

void MtpHeadBlock::accept(std::span<const uint32_t> n_accepted_drafts) {
  CHECK(n_accepted_drafts.size() == runs_.size());
  for (size_t i = 0; i < runs_.size(); ++i) {
    const RecurrentBlock::Run& run = runs_[i];
    CHECK(n_accepted_drafts[i] <= run.n_draft_tokens);
    if (n_accepted_drafts[i] == 0) continue;
    const uint32_t newest =
        run.first_row + run.n_rows - run.n_draft_tokens + n_accepted_drafts[i] - 1;
    copy_row(buffers_.hidden.slice(newest, 1).data, hidden_of(run.state));
  }
}

ResidualStream& MtpHeadBlock::begin(std::span<const Row> rows) {
  CHECK(rows.size() <= buffers_.outputs.n_rows);
  tokens_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* before = rows[i].previous_row
                              ? buffers_.outputs.slice(*rows[i].previous_row, 1).data
                              : hidden_of(rows[i].state);
    copy_row(before, buffers_.before.slice(static_cast<uint32_t>(i), 1).data);
    tokens_.push_back(rows[i].token);
  }
  join(tokens_);
  return x_;
}

Rows MtpHeadBlock::end() {
  const ModelConfig& c = model_.config();
  const Rows outputs = buffers_.outputs.slice(0, x_.n_rows());
  backend_.rms_norm(x_.rows(), model_.mtp_head().output_norm.floats(), c.model_dim, c.norm_eps,
                    outputs);
  return outputs;
}

}  // namespace kvik
