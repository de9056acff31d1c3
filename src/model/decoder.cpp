#include "model/decoder.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "catalogue/kv_source.h"

namespace kvik {
namespace {

// Number of rows whose logits are computed at once. More would take memory and save no time.
constexpr uint32_t kLogitRows = 32;
static_assert(kLogitRows >= Decoder::kMaxMtpHeadRows);

}  // namespace

Decoder::Buffers Decoder::Buffers::take(const ModelConfig& c, uint32_t n_rows_max,
                                        RowBuffers& buffers) {
  Buffers taken;
  taken.stream = ResidualStream::Buffers::take(c, n_rows_max, buffers);
  taken.attention = AttentionBlock::Buffers::take(c, n_rows_max, buffers);
  if (c.has_state()) taken.recurrent = RecurrentBlock::Buffers::take(c, n_rows_max, buffers);
  taken.mlp = MlpBlock::take_buffer(c, n_rows_max, buffers);
  if (c.experts()) taken.experts = ExpertsBlock::Buffers::take(c, n_rows_max, buffers);
  taken.per_layer = PerLayerInputs::Buffers::take(c, n_rows_max, buffers);
  if (c.streams) taken.streams = ResidualStreams::Buffers::take(c, n_rows_max, buffers);
  if (c.hyper) taken.hyper = HyperConnections::Buffers::take(c, n_rows_max, buffers);
  if (c.ngrams) taken.ngrams = NgramBlock::Buffers::take(c, n_rows_max, buffers);
  if (c.has_mtp_head) taken.mtp_head = MtpHeadBlock::Buffers::take(c, n_rows_max, buffers);
  const uint32_t n_logit_rows = std::min(kLogitRows, n_rows_max);
  taken.logits = buffers.take(n_logit_rows, c.n_vocab);
  // host_logits_, host_hidden_ and draft_logits_
  const uint64_t n_draft = c.eagle && c.eagle->tokens ? c.eagle->tokens->size() : 0;
  buffers.count((uint64_t{n_logit_rows} * c.n_vocab + c.model_dim + n_draft) * sizeof(float));
  return taken;
}

uint64_t Decoder::buffer_bytes(const ModelConfig& config, KvType kv_type, uint32_t n_rows_max,
                               const Backend& backend) {
  RowBuffers counted(nullptr);
  Buffers::take(config, n_rows_max, counted);
  const uint64_t statistics = is_quantized(kv_type) ? KeyStatistics::bytes(config) : 0;
  return counted.bytes() + KeyBases::bytes(config, kv_type) + statistics +
         OpenPages::arena_bytes(config, kv_type, backend, n_rows_max);
}

namespace {

std::optional<TokenSwitch> switch_of(const Model& model, Backend& backend) {
  if (!model.config().adapter_switch) return std::nullopt;
  return std::optional<TokenSwitch>(std::in_place, model, backend);
}

}  // namespace

Decoder::Decoder(const Model& model, Backend& backend, KvType kv_type, uint32_t n_rows_max)
    : model_(model),
      switch_(switch_of(model, backend)),
      backend_(switch_ ? switch_->backend() : backend),
      n_rows_max_(n_rows_max),
      memory_(&backend.memory()),
      buffers_(Buffers::take(model.config(), n_rows_max, memory_)),
      x_(backend_, model.config(), buffers_.stream),
      attention_(model, backend_, kv_type, buffers_.attention),
      mlp_(backend_, model.config().activation, buffers_.mlp),
      open_page_bytes_(kvik::open_page_bytes(model.config(), kv_type, backend)) {
  attention_.set_bases(KeyBases(model, backend, kv_type));
  const ModelConfig& c = model.config();
  if (c.experts()) experts_.emplace(backend_, c, buffers_.experts);
  if (c.per_layer_dim) per_layer_.emplace(model, backend_, buffers_.per_layer);
  if (c.streams) streams_.emplace(model, backend_, buffers_.streams);
  if (c.hyper) hyper_.emplace(model, backend_, buffers_.hyper);
  for (uint32_t i = 0; i < c.layers.size(); ++i) {
    if (writes_cache(c.layers[i])) last_writer_ = i;
  }
  if (c.has_mtp_head) {
    mtp_head_.emplace(model, backend_, kv_type, buffers_.mtp_head,
                      c.mtp_streams ? &*hyper_ : nullptr);
    mtp_head_runs_.reserve(n_rows_max);
    if (c.eagle) eagle_mlp_.emplace(backend_, Activation::kSilu, buffers_.mlp);
    if (c.eagle && c.eagle->tokens) draft_logits_.resize(c.eagle->tokens->size());
  }
  if (open_page_bytes_ > 0) open_pages_.emplace(c, backend_, n_rows_max);
  if (c.has_state()) {
    recurrent_.emplace(model, backend_, buffers_.recurrent);
    attention_.use_states(*recurrent_);
    states_.reserve(n_rows_max);
  }
  if (c.ngrams) ngrams_.emplace(model, backend_, buffers_.ngrams, recurrent_->layout().ngrams);
  host_logits_.resize(size_t{buffers_.logits.n_rows} * c.n_vocab);
  likeliest_.resize(buffers_.logits.n_rows);
  host_hidden_.resize(c.model_dim);
  tokens_.reserve(n_rows_max);
  positions_.reserve(n_rows_max);
  wanted_.reserve(n_rows_max);
  runs_.reserve(n_rows_max);
  wanted_runs_.reserve(n_rows_max);
}

void Decoder::forward(std::span<const BatchSequence> batch) {
  CHECK(forward_interruptible(batch, [] { return false; }));
}

bool Decoder::forward_interruptible(std::span<const BatchSequence> batch,
                                    const std::function<bool()>& is_interrupted) {
  lay_out(batch);
  const ModelConfig& c = model_.config();
  x_.begin_step(static_cast<uint32_t>(tokens_.size()));
  attention_.begin_step(positions_, runs_);
  if (recurrent_) recurrent_->begin_step(states_);
  x_.embed(model_.embedding(), tokens_);
  if (model_.positions()) x_.add_positions(*model_.positions(), positions_);
  if (per_layer_) per_layer_->begin_step(tokens_, x_);
  if (streams_) streams_->begin_step(x_);
  if (hyper_) hyper_->begin_step(x_);
  if (experts_) experts_->set_tokens(tokens_);
  for (uint32_t layer = 0; layer < c.n_layers && x_.n_rows() > 0; ++layer) {
    if (is_interrupted()) return false;
    if (mtp_head_) mtp_head_->tap(layer, x_.rows());
    if (ngrams_ && ngrams_->is_before(layer)) ngrams_->add(*hyper_, *recurrent_, x_.n_rows());
    if (c.layers[layer].mixes()) mix(layer);
    if (x_.n_rows() > 0) finish(layer);
  }
  if (streams_ && x_.n_rows() > 0) streams_->finish(x_);
  if (hyper_ && x_.n_rows() > 0) hyper_->finish(x_);
  if (mtp_head_) update_mtp_head();
  first_projected_.reset();
  if (first_logits_) {
    project(*first_logits_);
    if (wants_likeliest_) compute_argmax();
    if (wants_logits_) copy_logits_to_host();
  }
  backend_.wait();  // the cost model measures the time of whole steps
  return true;
}

// Computes the first half of a layer, its mixer. First all rows write their K and V, or update the
// states. After the last layer that does so, rows whose outputs are not wanted are dropped.
void Decoder::mix(uint32_t layer) {
  const bool attends = model_.config().layers[layer].if_attention() != nullptr;
  const bool has_state = model_.config().layers[layer].has_state();
  if (streams_) streams_->predict(layer, x_);
  if (hyper_) hyper_->begin(model_.layers()[layer].mixer_hyper, x_);
  if (attends) attention_.write_kv(layer, x_);
  if (has_state) recurrent_->advance(layer, x_);
  if (layer == last_writer_ && wanted_.size() < x_.n_rows()) {
    x_.keep(wanted_);
    if (per_layer_) per_layer_->keep(wanted_);
    if (streams_) streams_->keep(wanted_);
    if (hyper_) hyper_->keep(wanted_);
    if (experts_) experts_->keep(wanted_);
    keep_rows(wanted_);
    if (attends) attention_.keep(wanted_, wanted_runs_);
    if (has_state) recurrent_->keep(wanted_);
  }
  if (x_.n_rows() == 0) return;
  // Attention reads the pages and Q, so that x may change before it.
  if (model_.config().has_parallel_halves) feed_forward(layer, x_);
  if (attends) attention_.attend(layer, x_);
  if (has_state) recurrent_->finish(layer, x_);
  if (streams_) streams_->join(x_);
  if (hyper_) hyper_->end(x_);
}

// Computes the second half of a layer, its feed-forward, and what follows it.
void Decoder::finish(uint32_t layer) {
  const bool is_done = model_.config().has_parallel_halves;
  if (hyper_) hyper_->begin(model_.layers()[layer].ffn_hyper, x_);
  if (!is_done && model_.config().layers[layer].has_feed_forward()) feed_forward(layer, x_);
  if (hyper_) {
    hyper_->end(x_);
  } else if (streams_) {
    streams_->correct(layer, x_, *per_layer_);
  } else if (per_layer_) {
    per_layer_->add(layer, x_);
  }
  if (model_.layers()[layer].scale != 1.0f) backend_.scale(x_.rows(), model_.layers()[layer].scale);
}

void Decoder::feed_forward(uint32_t layer, ResidualStream& x) {
  const FeedForwardWeights& w = model_.layers()[layer].feed_forward;
  const Buffer& norm = model_.layers()[layer].feed_forward_norm();
  if (const ExpertsConfig* experts = model_.config().layers[layer].experts()) {
    experts_->forward(*experts, w, norm, x);
  } else {
    mlp_.forward(w, norm, x);
  }
}

// Runs the MTP head on all rows, then drops those whose outputs are not wanted.
void Decoder::update_mtp_head() {
  if (model_.config().assistant) {
    if (x_.n_rows() > 0) mtp_head_->follow(mtp_head_runs_, x_.rows());
    return;
  }
  mtp_head_->tap(mtp_head_->layer(), x_.rows());
  mtp_head_->follow(tokens_, mtp_head_runs_, x_.rows(), attention_);
  if (wanted_.size() == x_.n_rows()) return;
  x_.keep(wanted_);
  keep_rows(wanted_);
}

void Decoder::keep_rows(std::span<const uint32_t> rows) {
  backend_.keep(rows);
  if (switch_) switch_->backend().keep(rows);
}

// Returns the open pages of the sequence that was added last; none if there are none.
std::span<std::byte* const> Decoder::open_from(uint32_t group, uint32_t position) const {
  return open_pages_ ? open_pages_->pages(group, position) : std::span<std::byte* const>();
}

// Lays out the sequences' tokens as consecutive rows.
void Decoder::lay_out(std::span<const BatchSequence> batch) {
  const uint32_t n_groups = groups().n_groups();
  tokens_.clear();
  positions_.clear();
  runs_.resize(n_groups);
  wanted_runs_.resize(n_groups);
  for (auto& runs : runs_) runs.clear();
  for (auto& runs : wanted_runs_) runs.clear();
  wanted_.clear();
  states_.clear();
  mtp_head_runs_.clear();
  first_logits_.reset();
  wants_likeliest_ = wants_logits_ = false;
  backend_.begin_step();
  if (open_pages_) open_pages_->begin_step();
  if (ngrams_) ngrams_->begin_step();
  for (const BatchSequence& sequence : batch) {
    const auto first_row = static_cast<uint32_t>(tokens_.size());
    const auto n_rows = static_cast<uint32_t>(sequence.tokens.size());
    CHECK(n_rows > 0 && sequence.kv.groups.size() == n_groups);
    for (uint32_t i = 0; i < n_rows; ++i) positions_.push_back(sequence.first_position + i);
    tokens_.insert(tokens_.end(), sequence.tokens.begin(), sequence.tokens.end());
    if (ngrams_) {
      const uint32_t n_needed = model_.config().ngrams->n_tokens - 1;
      CHECK(sequence.earlier.size() >= std::min(sequence.first_position, n_needed));
      ngrams_->add_sequence(sequence.earlier, sequence.tokens);
    }
    backend_.add_rows(sequence.adapter, n_rows);
    if (switch_) {
      CHECK(sequence.earlier.size() == sequence.first_position);
      switch_->add_sequence(sequence.earlier, std::span(tokens_).last(n_rows));
    }
    if (open_pages_) open_pages_->add(sequence.kv.open, sequence.first_position, n_rows);
    for (uint32_t g = 0; g < n_groups; ++g) {
      runs_[g].push_back({sequence.kv.groups[g], sequence.first_position, first_row, n_rows,
                          open_from(g, sequence.first_position)});
    }
    if (recurrent_) {
      states_.push_back({sequence.kv.state, first_row, n_rows, sequence.n_draft_tokens});
    }
    const uint32_t n_wanted = std::min(sequence.want.n_last, n_rows);
    if (mtp_head_) {
      MtpHeadBlock::Run run{.kv = sequence.kv,
                            .first_position = sequence.first_position,
                            .first_row = first_row,
                            .n_rows = n_rows,
                            .n_draft_tokens = sequence.n_draft_tokens};
      if (model_.config().assistant) {  // it reads the wanted rows only
        run.first_position += n_rows - n_wanted;
        run.first_row = static_cast<uint32_t>(wanted_.size());
        run.n_rows = n_wanted;
      }
      mtp_head_runs_.push_back(run);
    }
    if (n_wanted == 0) continue;
    if (!sequence.want.is_hidden && !first_logits_)
      first_logits_ = static_cast<uint32_t>(wanted_.size());
    wants_likeliest_ = wants_likeliest_ || sequence.want.needs_argmax_only;
    wants_logits_ = wants_logits_ || (!sequence.want.needs_argmax_only && !sequence.want.is_hidden);
    const uint32_t first_wanted = sequence.first_position + n_rows - n_wanted;
    for (uint32_t g = 0; g < n_groups; ++g) {
      wanted_runs_[g].push_back({sequence.kv.groups[g], first_wanted,
                                 static_cast<uint32_t>(wanted_.size()), n_wanted,
                                 open_from(g, first_wanted)});
    }
    for (uint32_t i = n_rows - n_wanted; i < n_rows; ++i) wanted_.push_back(first_row + i);
  }
  CHECK(!tokens_.empty() && tokens_.size() <= n_rows_max_);
}

void Decoder::accept(std::span<const uint32_t> n_accepted_drafts) {
  if (recurrent_) recurrent_->replay(n_accepted_drafts);
  if (ngrams_) ngrams_->replay(*recurrent_);
  attention_.replay();
  if (mtp_head_) mtp_head_->accept(n_accepted_drafts);
}

// Lays out the rows. Those of an assistant attend to the tokens before the first one of the draft,
// from its position.
void Decoder::lay_out_mtp_head(std::span<const MtpHeadRow> rows) {
  const uint32_t n_groups = groups().n_groups();
  const bool is_assistant = model_.config().assistant.has_value();
  positions_.clear();
  mtp_head_rows_.clear();
  runs_.resize(n_groups);
  for (auto& runs : runs_) runs.clear();
  backend_.begin_step();
  if (open_pages_) open_pages_->begin_step();
  for (const MtpHeadRow& row : rows) {
    const auto at = static_cast<uint32_t>(positions_.size());
    const uint32_t position = is_assistant ? row.position - row.n_drafted : row.position;
    CHECK(position > 0);
    const uint32_t last = is_assistant ? position - 1 : position;
    if (open_pages_ && is_assistant) open_pages_->add_computed(row.kv.open, last);
    if (open_pages_ && !is_assistant) open_pages_->add(row.kv.open, last, 1);
    for (uint32_t g = 0; g < n_groups; ++g) {
      runs_[g].push_back({row.kv.groups[g], last, at, 1, open_from(g, last)});
    }
    positions_.push_back(position);
    mtp_head_rows_.push_back({row.token, position, row.kv, row.previous_row});
    backend_.add_rows(nullptr, 1);
  }
}

void Decoder::run_mtp_head(std::span<const MtpHeadRow> rows) {
  CHECK(mtp_head_ && rows.size() <= kMaxMtpHeadRows);
  lay_out_mtp_head(rows);
  attention_.begin_step(positions_, runs_);
  ResidualStream& x = mtp_head_->begin(mtp_head_rows_);
  if (model_.config().assistant) {
    run_assistant(x);
  } else {
    mtp_head_->write_kv(attention_);
    attention_.attend_after_first(mtp_head_->layer(), x);
    const LayerWeights& w = model_.layers()[mtp_head_->layer()];
    const bool has_streams = model_.config().mtp_streams.has_value();
    if (has_streams) hyper_->end(x);
    if (has_streams) hyper_->begin(w.ffn_hyper, x);
    if (eagle_mlp_) {
      eagle_mlp_->forward(w.feed_forward, w.feed_forward_norm(), x);
    } else {
      feed_forward(mtp_head_->layer(), x);
    }
    if (has_streams) hyper_->end(x);
  }
  copy_draft_logits(mtp_head_->end());
  first_projected_.reset();
  backend_.wait();
}

// Runs the layers of an assistant, which read K and V of layers of the model.
void Decoder::run_assistant(ResidualStream& x) {
  for (size_t layer = mtp_head_->layer(); layer < model_.config().layers.size(); ++layer) {
    const LayerWeights& w = model_.layers()[layer];
    attention_.write_kv(static_cast<uint32_t>(layer), x);
    attention_.attend(static_cast<uint32_t>(layer), x);
    mlp_.forward(w.feed_forward, w.feed_forward_norm(), x);
    if (w.scale != 1.0f) backend_.scale(x.rows(), w.scale);
  }
}

// Projects the outputs of the MTP head and copies the logits to host_logits_. Tokens that the head
// does not have get no probability.
void Decoder::copy_draft_logits(Rows hidden) {
  const ModelConfig& c = model_.config();
  if (!c.eagle && !c.assistant) {
    return copy_to_host(project_to_logits(hidden, model_.mtp_head_output()));
  }
  const PackedMatrix& head = model_.mtp_head_output();
  const Rows logits = buffers_.logits.slice(0, hidden.n_rows).columns(0, head.n_rows());
  backend_.matmul(hidden, head, logits);
  if (!c.eagle || !c.eagle->tokens) return copy_to_host(logits);
  const std::vector<uint32_t>& tokens = *c.eagle->tokens;
  const auto host = std::span(host_logits_).first(size_t{hidden.n_rows} * c.n_vocab);
  std::ranges::fill(host, -std::numeric_limits<float>::infinity());
  for (uint32_t row = 0; row < hidden.n_rows; ++row) {
    backend_.memory().copy_out(std::as_writable_bytes(std::span(draft_logits_)),
                               reinterpret_cast<const std::byte*>(logits.slice(row, 1).data));
    for (size_t i = 0; i < tokens.size(); ++i) {
      host[size_t{row} * c.n_vocab + tokens[i]] = draft_logits_[i];
    }
  }
}

std::span<const float> Decoder::mtp_head_logits(size_t row) const {
  CHECK(row < mtp_head_rows_.size());
  const size_t n_vocab = model_.config().n_vocab;
  return std::span(host_logits_).subspan(row * n_vocab, n_vocab);
}

std::span<const float> Decoder::logits(size_t row) {
  const uint32_t place = project(row);
  if (!has_logits_) copy_logits_to_host();
  const size_t n_vocab = model_.config().n_vocab;
  return std::span(host_logits_).subspan(place * n_vocab, n_vocab);
}

std::optional<TokenId> Decoder::argmax(size_t row) {
  const uint32_t place = project(row);
  if (!has_likeliest_) compute_argmax();
  return likeliest_[place];
}

void Decoder::compute_argmax() {
  backend_.largest(buffers_.logits.slice(0, n_projected_),
                   std::span(likeliest_).first(n_projected_));
  has_likeliest_ = true;
}

std::span<const float> Decoder::hidden(size_t row) {
  CHECK(row < wanted_.size());
  const Rows normed = x_.normed(model_.output_norm(), static_cast<uint32_t>(row), 1);
  backend_.memory().copy_out(std::as_writable_bytes(std::span(host_hidden_)),
                             reinterpret_cast<const std::byte*>(normed.data));
  return host_hidden_;
}

// Computes as many rows as the buffer holds. If every token of a prompt wants its logits, all of
// them together would take as much memory as a small model.
uint32_t Decoder::project(size_t row) {
  CHECK(row < wanted_.size());
  const uint32_t n_max = buffers_.logits.n_rows;
  const auto place = static_cast<uint32_t>(row % n_max);
  const uint32_t first = static_cast<uint32_t>(row) - place;
  if (first == first_projected_) return place;
  n_projected_ = std::min(static_cast<uint32_t>(wanted_.size()) - first, n_max);
  backend_.select_rows(first, n_projected_);
  if (switch_) switch_->backend().select_rows(first, n_projected_);
  project_to_logits(x_.normed(model_.output_norm(), first, n_projected_), model_.head());
  first_projected_ = first;
  has_likeliest_ = has_logits_ = false;
  return place;
}

Rows Decoder::project_to_logits(Rows hidden, const PackedMatrix& head) {
  const ModelConfig& c = model_.config();
  const Rows out = buffers_.logits.slice(0, hidden.n_rows);
  backend_.matmul(hidden, head, out);
  if (model_.head_bias().size() > 0) backend_.add_bias(out, model_.head_bias().floats());
  if (c.logit_scale != 1.0f) backend_.scale(out, c.logit_scale);
  if (c.logit_soft_cap > 0) backend_.soft_cap(out, c.logit_soft_cap);
  return out;
}

void Decoder::copy_logits_to_host() {
  copy_to_host(buffers_.logits.slice(0, n_projected_));
  has_logits_ = true;
}

// Copies logits to host_logits_.
void Decoder::copy_to_host(Rows logits) {
  const auto host = std::span(host_logits_).first(size_t{logits.n_rows} * model_.config().n_vocab);
  backend_.memory().copy_out(std::as_writable_bytes(host),
                             reinterpret_cast<const std::byte*>(logits.data));
}

}  // namespace kvik
