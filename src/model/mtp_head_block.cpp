#include "model/mtp_head_block.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {

namespace {

// Returns the config of the model with the width of the head's layers.
ModelConfig draft_config(ModelConfig config) {
  config.model_dim = config.draft_dim();
  return config;
}

}  // namespace

MtpHeadBlock::Buffers MtpHeadBlock::Buffers::take(const ModelConfig& config, uint32_t n_rows_max,
                                                  RowBuffers& buffers) {
  const uint32_t n_streams = config.mtp_hidden_dim() / config.model_dim;
  const bool has_normed = config.is_mtp_hidden_raw || config.assistant || config.mtp_streams;
  return {
      .hidden = buffers.take(n_rows_max, config.mtp_hidden_dim()),
      .before = buffers.take(n_rows_max, config.mtp_hidden_dim()),
      .pairs = buffers.take(n_rows_max * n_streams, 2 * config.model_dim),
      .outputs = buffers.take(std::min(kMaxRows, n_rows_max), config.mtp_hidden_dim()),
      .normed = buffers.take(std::min(kMaxRows, n_rows_max), has_normed ? config.draft_dim() : 0),
      .taps = buffers.take(
          n_rows_max,
          config.eagle ? static_cast<uint32_t>(config.eagle->taps.size()) * config.model_dim : 0),
      .stream = ResidualStream::Buffers::take(draft_config(config), n_rows_max, buffers)};
}

MtpHeadBlock::MtpHeadBlock(const Model& model, Backend& backend, KvType kv_type,
                           const Buffers& buffers, HyperConnections* hyper)
    : model_(model),
      backend_(backend),
      hyper_(hyper),
      draft_config_(draft_config(model.config())),
      state_offset_(state_layout(model.config()).offsets[model.config().n_layers]),
      place_(mtp_hidden_place(model.config(), kv_type, backend)),
      buffers_(buffers),
      x_(backend, draft_config_, buffers_.stream) {
  rows_.reserve(buffers.hidden.n_rows);
  tokens_.reserve(buffers.outputs.n_rows);
}

// Returns where the hidden state of the token at `position` is kept while it is the newest one of
// its sequence, or of its page.
float* MtpHeadBlock::hidden_at(const KvView& kv, uint32_t position) const {
  if (!place_) return reinterpret_cast<float*>(kv.state) + state_offset_;
  return reinterpret_cast<float*>(kv.groups[place_->group][position / kPageTokens] +
                                  place_->offset);
}

// Keeps the hidden states of the last of these rows, and of those that end a page.
void MtpHeadBlock::keep_hidden(const Run& run, uint32_t first_row, uint32_t n_rows) {
  for (uint32_t row = first_row; row < first_row + n_rows; ++row) {
    const uint32_t position = run.first_position + row - run.first_row;
    const bool ends_page = place_ && (position + 1) % kPageTokens == 0;
    if (row + 1 < first_row + n_rows && !ends_page) continue;
    copy_row(buffers_.hidden.slice(row, 1).data, hidden_at(run.kv, position));
  }
}

void MtpHeadBlock::copy_row(const float* from, float* to) {
  backend_.memory().copy(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from),
                         size_t{model_.config().mtp_hidden_dim()} * sizeof(float));
}

void MtpHeadBlock::copy_rows(Rows from, Rows to) {
  rows_.clear();
  for (uint32_t row = 0; row < from.n_rows; ++row) rows_.push_back(row);
  backend_.gather(from, rows_, to);
}

void MtpHeadBlock::tap(uint32_t layer, Rows x) {
  const ModelConfig& c = model_.config();
  if (!c.eagle) return;
  for (uint32_t i = 0; i < c.eagle->taps.size(); ++i) {
    if (c.eagle->taps[i] != layer) continue;
    copy_rows(x, buffers_.taps.slice(0, x.n_rows).columns(i * c.model_dim, c.model_dim));
  }
}

// Computes the rows of the residual stream for tokens whose predecessors' hidden states are in
// buffers_.before.
void MtpHeadBlock::join(std::span<const TokenId> tokens) {
  const ModelConfig& c = model_.config();
  const MtpHeadWeights& w = model_.mtp_head();
  const auto n_rows = static_cast<uint32_t>(tokens.size());
  const Rows pairs = buffers_.pairs.slice(0, n_rows);
  const Rows embedded = pairs.columns(0, c.model_dim);
  const Rows before = buffers_.before.slice(0, n_rows);
  const Rows normed = pairs.columns(c.model_dim, c.model_dim);
  x_.begin_step(n_rows);
  if (hyper_) {
    backend_.embed(model_.mtp_head_embedding(), tokens, x_.rows());
    return join_streams(x_.rows(), before);
  }
  if (c.assistant) {
    const Rows rows = buffers_.hidden.slice(0, n_rows);
    backend_.embed(model_.embedding(), tokens, rows);
    if (c.embedding_scale != 1.0f) backend_.scale(rows, c.embedding_scale);
    copy_rows(rows, embedded);
    copy_rows(before, normed);
    return backend_.matmul(pairs, *w.input, x_.rows());
  }
  backend_.embed(model_.mtp_head_embedding(), tokens, x_.rows());
  backend_.rms_norm(x_.rows(), w.embedding_norm.floats(), c.model_dim, c.norm_eps, embedded);
  backend_.rms_norm(before, w.hidden_norm.floats(), c.model_dim, c.norm_eps, normed);
  if (c.eagle) {
    copy_rows(c.eagle->is_residual_normed ? normed : before, x_.rows());
  } else {
    backend_.matmul(pairs, *w.input, x_.rows());
  }
}

// Computes the streams in the same way.
void MtpHeadBlock::join_streams(Rows embedded, Rows before) {
  const ModelConfig& c = model_.config();
  const MtpHeadWeights& w = model_.mtp_head();
  const uint32_t n = c.hyper->n, dim = c.model_dim;
  const Rows rows = buffers_.pairs.slice(0, before.n_rows * n);
  const Rows pairs{rows.data, before.n_rows, n * rows.n_cols, n * rows.n_cols};  // n for each token
  if (c.mtp_streams == StreamNorm::kTogether) {
    backend_.rms_norm(before, w.hidden_norm.floats(), n * dim, c.norm_eps, before);
  }
  const Rows first = pairs.columns(0, dim);
  backend_.rms_norm(embedded, w.embedding_norm.floats(), dim, c.norm_eps, first);
  for (uint32_t j = 0; j < n; ++j) {
    const Rows stream = before.columns(j * dim, dim);
    const Rows normed = pairs.columns((2 * j + 1) * dim, dim);
    const Rows copy = pairs.columns(2 * j * dim, dim);
    if (j > 0) backend_.copy_heads({first, 1, 0, 0, dim}, {copy, 1, 0, 0, dim});
    if (c.mtp_streams == StreamNorm::kTogether) {
      backend_.copy_heads({stream, 1, 0, 0, dim}, {normed, 1, 0, 0, dim});
      continue;
    }
    const bool is_own = c.mtp_streams == StreamNorm::kOwn;
    const float* weights = w.hidden_norm.floats() + (is_own ? size_t{j} * dim : 0);
    backend_.rms_norm(stream, weights, dim, c.norm_eps, normed);
  }
  backend_.matmul(rows, *w.input, hyper_->begin_step(before.n_rows));
}

void MtpHeadBlock::write_kv(AttentionBlock& attention) {
  if (model_.config().eagle)
    return attention.write_kv(layer(), buffers_.pairs.slice(0, x_.n_rows()));
  if (hyper_) hyper_->begin(model_.layers()[layer()].mixer_hyper, x_);
  attention.write_kv(layer(), x_);
}

void MtpHeadBlock::follow(std::span<const TokenId> tokens, std::span<const Run> runs, Rows x,
                          AttentionBlock& attention) {
  const ModelConfig& c = model_.config();
  runs_ = runs;
  const Rows hidden = buffers_.hidden.slice(0, x.n_rows);
  if (c.eagle) {
    backend_.matmul(buffers_.taps.slice(0, x.n_rows), *model_.mtp_head().input, hidden);
  } else if (c.is_mtp_hidden_raw || hyper_) {
    copy_rows(hyper_ ? hyper_->streams(x.n_rows) : x, hidden);
  } else {
    backend_.rms_norm(x, model_.output_norm().floats(), c.model_dim, c.norm_eps, hidden);
  }
  rows_.clear();
  for (uint32_t row = 0; row < x.n_rows; ++row) rows_.push_back(row > 0 ? row - 1 : 0);
  backend_.gather(hidden, rows_, buffers_.before.slice(0, x.n_rows));
  for (const Run& run : runs) {
    const Rows first = buffers_.before.slice(run.first_row, 1);
    if (run.first_position == 0) {
      backend_.clear(first);
    } else {
      copy_row(hidden_at(run.kv, run.first_position - 1), first.data);
    }
  }
  join(tokens);
  write_kv(attention);
  for (const Run& run : runs) {
    CHECK(run.n_rows > run.n_draft_tokens);
    keep_hidden(run, run.first_row, run.n_rows - run.n_draft_tokens);
  }
}

void MtpHeadBlock::follow(std::span<const Run> runs, Rows x) {
  const ModelConfig& c = model_.config();
  runs_ = runs;
  backend_.rms_norm(x, model_.output_norm().floats(), c.model_dim, c.norm_eps,
                    buffers_.hidden.slice(0, x.n_rows));
  for (const Run& run : runs) {
    if (run.n_rows > run.n_draft_tokens) {
      keep_hidden(run, run.first_row, run.n_rows - run.n_draft_tokens);
    }
  }
}

void MtpHeadBlock::accept(std::span<const uint32_t> n_accepted_drafts) {
  CHECK(n_accepted_drafts.size() == runs_.size());
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Run& run = runs_[i];
    CHECK(n_accepted_drafts[i] <= run.n_draft_tokens);
    if (n_accepted_drafts[i] == 0) continue;
    keep_hidden(run, run.first_row + run.n_rows - run.n_draft_tokens, n_accepted_drafts[i]);
  }
}

ResidualStream& MtpHeadBlock::begin(std::span<const Row> rows) {
  CHECK(rows.size() <= buffers_.outputs.n_rows);
  tokens_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* before = rows[i].previous_row
                              ? buffers_.outputs.slice(*rows[i].previous_row, 1).data
                              : hidden_at(rows[i].kv, rows[i].position - 1);
    copy_row(before, buffers_.before.slice(static_cast<uint32_t>(i), 1).data);
    tokens_.push_back(rows[i].token);
  }
  join(tokens_);
  return x_;
}

Rows MtpHeadBlock::end() {
  const ModelConfig& c = model_.config();
  const Rows outputs = buffers_.outputs.slice(0, x_.n_rows());
  if (hyper_) {
    copy_rows(hyper_->streams(x_.n_rows()), outputs);
    hyper_->finish(model_.mtp_head_hyper_output(), x_);
    if (c.lacks_mtp_output_norm) return x_.rows();
  }
  if (c.lacks_mtp_output_norm) {
    copy_rows(x_.rows(), outputs);
    return outputs;
  }
  const bool has_others = c.is_mtp_hidden_raw || c.assistant || hyper_;
  const Rows normed = has_others ? buffers_.normed.slice(0, x_.n_rows()) : outputs;
  backend_.rms_norm(x_.rows(), model_.mtp_head_norm().floats(), c.draft_dim(), c.norm_eps, normed);
  if (c.assistant) {
    backend_.matmul(normed, *model_.mtp_head().post, outputs);
  } else if (c.is_mtp_hidden_raw) {
    copy_rows(x_.rows(), outputs);
  }
  return normed;
}

}  // namespace kvik
