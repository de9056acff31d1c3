#include "engine/speculate/draft_model.h"

#include <algorithm>

#include "base/check.h"
#include "engine/cache_identity.h"
#include "engine/kv_budget.h"
#include "engine/sequence.h"

namespace kvik {
namespace {

constexpr uint32_t kStepRows = 256;  // rows of prompts and of pending tokens in one step

// The layout has no sliding windows: after a rejected draft token, attention must reach back as far
// as before. Open pages reach back far enough, too, because a draft is shorter than a page.
KvLayout layout_of(const Decoder& decoder, const DraftModel::Options& options) {
  static_assert(kMaxDraftTokens < kPageTokens);
  KvLayout layout(decoder.page_bytes(), std::vector<GroupRule>(decoder.groups().n_groups()));
  layout.open_page_bytes = decoder.open_page_bytes();
  return with_slots(layout, n_slots(layout, options.kv_budget_bytes, options.max_running));
}

uint64_t page_budget(const Decoder& decoder, const DraftModel::Options& options) {
  const KvLayout layout = layout_of(decoder, options);
  return options.kv_budget_bytes - layout.n_open_slots * layout.open_slot_bytes();
}

}  // namespace

DraftModel::DraftModel(std::unique_ptr<Model> model, Backend& backend, const Options& options,
                       const Clock& clock)
    : model_(std::move(model)),
      clock_(clock),
      options_(options),
      decoder_(*model_, backend, options.kv_type, kStepRows + options.max_running),
      kv_(backend.memory(), page_budget(decoder_, options), layout_of(decoder_, options), clock),
      sampler_(model_->config().n_vocab),
      identity_("draft " + identity_of(*model_, options.kv_type).text()) {
  options_.n_ctx_max = model_->config().n_ctx_within(options.n_ctx_max);
  kv_.pages().set_sharing(options.sharing);
  drafting_.reserve(options.max_running);
  batch_.reserve(options.max_running);
  page_tables_.reserve(size_t{options.max_running} * kv_.layout().n_groups());
}

uint64_t DraftModel::buffer_bytes(const ModelConfig& config, KvType kv_type, uint32_t max_running,
                                  const Backend& backend) {
  return Decoder::buffer_bytes(config, kv_type, kStepRows + max_running, backend) +
         Sampler::buffer_bytes(config.n_vocab);
}

void DraftModel::begin_step(std::span<Sequence* const> sequences, uint32_t n_max) {
  drafting_.clear();
  batch_.clear();
  page_tables_.clear();
  page_tables_.reserve(sequences.size() * kv_.layout().n_groups());  // batch_ has spans of it
  uint32_t n_rows_left = kStepRows;
  for (Sequence* sequence : sequences) {
    sequence->speculation.drafts->model.draft.clear();
    if (prepare(*sequence, n_max, n_rows_left)) drafting_.push_back(sequence);
  }
  if (batch_.empty()) return;
  forward();
  size_t row = 0;
  std::erase_if(drafting_, [&](Sequence* sequence) { return !sample(*sequence, row++); });
  for (uint32_t n = 1; n < n_max && !drafting_.empty(); ++n) {
    const TimePoint begin = clock_.now();
    batch_.clear();
    page_tables_.clear();
    for (Sequence* sequence : drafting_) {
      const Draft& draft = sequence->speculation.drafts->model.draft;
      add_row(*sequence, std::span(&draft.back().token, 1), OutputRows::kLast);
    }
    forward();
    row = 0;
    std::erase_if(drafting_, [&](Sequence* sequence) { return !sample(*sequence, row++); });
    time_.observe(to_ms(clock_.now() - begin));
  }
}

// Adds the tokens that the model has not computed yet to the batch. Returns true if these are all,
// so that the last row is sampled.
bool DraftModel::prepare(Sequence& sequence, uint32_t n_max, uint32_t& n_rows_left) {
  DraftModelState& lane = sequence.speculation.drafts->model;
  const std::span<const TokenId> tokens = sequence.tokens;
  if (tokens.size() + n_max > options_.n_ctx_max || n_rows_left == 0) return false;
  // Nothing after the first rejected token is valid.
  uint32_t n_right = lane.n_then;
  while (n_right < tokens.size() && n_right - lane.n_then < lane.drafted.size() &&
         lane.drafted[n_right - lane.n_then] == tokens[n_right]) {
    ++n_right;
  }
  lane.n_cached = std::min({lane.n_cached, n_right, sequence.n_tokens() - 1});
  if (!lane.is_open && !open(sequence)) return false;
  if (!kv_.grow(lane.table, tokens.size() + n_max)) {
    release(sequence);
    return false;
  }
  kv_.seal(lane.table, tokens.first(lane.n_cached));
  lane.drafted.clear();
  lane.n_then = sequence.n_tokens();
  const auto n_new = std::min(n_rows_left, lane.n_then - lane.n_cached);
  const bool is_all = lane.n_cached + n_new == lane.n_then;
  n_rows_left -= n_new;
  // Rows without logits do not occupy a row of logits, so the sampled sequences have consecutive
  // rows.
  add_row(sequence, tokens.subspan(lane.n_cached, n_new),
          is_all ? OutputRows::kLast : OutputRows::kNone);
  return is_all;
}

bool DraftModel::open(Sequence& sequence) {
  DraftModelState& lane = sequence.speculation.drafts->model;
  lane.table = kv_.make_table(root_key(identity_, sequence.request.cache_salt));
  lane.table.owner.tenant = sequence.table.owner.tenant;
  const PrefixQuery query{.root = lane.table.root(),
                          .tokens = std::span(sequence.tokens).first(sequence.n_tokens() - 1),
                          .tenant = lane.table.owner.tenant};
  FoundPrefix found;
  if (!kv_.open(lane.table, query, found, sequence.n_tokens())) return false;
  lane.n_cached = found.n_tokens();
  lane.is_open = true;
  return true;
}

void DraftModel::add_row(const Sequence& sequence, std::span<const TokenId> tokens,
                         OutputRows want) {
  DraftModelState& lane = sequence.speculation.drafts->model;
  const uint32_t n_groups = kv_.layout().n_groups();
  const size_t begin = page_tables_.size();
  for (uint32_t g = 0; g < n_groups; ++g) page_tables_.push_back(lane.table.addresses(g));
  batch_.push_back({.tokens = tokens,
                    .first_position = lane.n_cached,
                    .kv = {.groups = std::span(page_tables_).subspan(begin, n_groups),
                           .open = lane.table.open_pages()},
                    .want = want});
  lane.n_cached += static_cast<uint32_t>(tokens.size());
  n_rows_ += tokens.size();
}

void DraftModel::forward() { decoder_.forward(batch_); }

// Draws the next draft token. Returns false if no further token may follow it.
bool DraftModel::sample(Sequence& sequence, size_t row) {
  DraftModelState& lane = sequence.speculation.drafts->model;
  const auto drawn = draw_draft_token(sampler_, sequence, lane.draft, decoder_.logits(row));
  if (!drawn) return false;
  lane.draft.push_back(drawn->draft_token);
  lane.drafted.push_back(drawn->draft_token.token);
  return drawn->is_sure;
}

void DraftModel::propose(Sequence& sequence, uint32_t n_max, Draft& draft) {
  const Draft& model_draft = sequence.speculation.drafts->model.draft;
  draft.insert(draft.end(), model_draft.begin(),
               model_draft.begin() + std::min<ptrdiff_t>(n_max, std::ssize(model_draft)));
}

// Accepted draft tokens stay in the cache, as far as they are known to be accepted.
void DraftModel::release(Sequence& sequence) {
  if (!sequence.speculation.drafts || !sequence.speculation.drafts->model.is_open) return;
  DraftModelState& lane = sequence.speculation.drafts->model;
  const uint32_t n_known = std::min({lane.n_cached, lane.n_then, sequence.n_tokens()});
  kv_.close(lane.table, std::span<const TokenId>(sequence.tokens).first(n_known));
  lane = {};
}

}  // namespace kvik
