#include "engine/speculate/mtp_head_drafter.h"

#include <algorithm>

#include "engine/sequence.h"

namespace kvik {

namespace {

// Returns the number of tokens that fit into the pages of every group.
uint64_t n_tokens_in_all_groups(const PageTable& table) {
  uint32_t n_pages = table.n_pages();
  for (uint32_t g = 1; g < table.n_groups(); ++g) n_pages = std::min(n_pages, table.n_pages(g));
  return uint64_t{n_pages} * kPageTokens;
}

}  // namespace

MtpHeadDrafter::MtpHeadDrafter(Decoder& decoder, uint32_t n_vocab, const Clock& clock)
    : decoder_(decoder), clock_(clock), sampler_(n_vocab) {
  lanes_.reserve(Decoder::kMaxMtpHeadRows);
  rows_.reserve(Decoder::kMaxMtpHeadRows);
  page_tables_.reserve(size_t{Decoder::kMaxMtpHeadRows} * decoder.groups().n_groups());
}

void MtpHeadDrafter::begin_step(std::span<Sequence* const> sequences, uint32_t n_max) {
  lanes_.clear();
  for (Sequence* sequence : sequences) {
    sequence->speculation.drafts->model.draft.clear();
    const bool is_ready = sequence->n_cached > 0 && sequence->n_cached + 1 == sequence->n_tokens();
    if (is_ready && lanes_.size() < Decoder::kMaxMtpHeadRows) lanes_.push_back({sequence});
  }
  for (uint32_t n = 0; n < n_max; ++n) {
    std::erase_if(lanes_, [&](const Lane& lane) {
      return lane.sequence->n_cached + uint64_t{n} >= n_tokens_in_all_groups(lane.sequence->table);
    });
    if (lanes_.empty()) return;
    const TimePoint begin = clock_.now();
    pass(n);
    uint32_t row = 0;
    std::erase_if(lanes_, [&](Lane& lane) { return !sample(lane, row++); });
    time_.observe(to_ms(clock_.now() - begin));
  }
}

// Runs the MTP head after the newest token of each lane, or after the n_drafted draft tokens that
// it has.
void MtpHeadDrafter::pass(uint32_t n_drafted) {
  rows_.clear();
  page_tables_.clear();
  const uint32_t n_groups = decoder_.groups().n_groups();
  for (const Lane& lane : lanes_) {
    const Sequence& sequence = *lane.sequence;
    const size_t begin = page_tables_.size();
    for (uint32_t g = 0; g < n_groups; ++g) {
      page_tables_.push_back(sequence.table.addresses(g));
    }
    MtpHeadRow row{.token = sequence.tokens.back(),
                   .position = sequence.n_cached + n_drafted,
                   .n_drafted = n_drafted,
                   .kv = {.groups = std::span(page_tables_).subspan(begin, n_groups),
                          .state = sequence.table.state(),
                          .open = sequence.table.open_pages()}};
    if (n_drafted > 0) {
      row.token = sequence.speculation.drafts->model.draft.back().token;
      row.previous_row = lane.row;
    }
    rows_.push_back(row);
  }
  decoder_.run_mtp_head(rows_);
}

// Draws the next draft token of a lane. Returns false if no further token may follow it.
bool MtpHeadDrafter::sample(Lane& lane, uint32_t row) {
  Sequence& sequence = *lane.sequence;
  Draft& draft = sequence.speculation.drafts->model.draft;
  const auto drawn = draw_draft_token(sampler_, sequence, draft, decoder_.mtp_head_logits(row));
  if (!drawn) return false;
  draft.push_back(drawn->draft_token);
  lane.row = row;
  return drawn->is_sure;
}

void MtpHeadDrafter::propose(Sequence& sequence, uint32_t n_max, Draft& draft) {
  const Draft& model_draft = sequence.speculation.drafts->model.draft;
  draft.insert(draft.end(), model_draft.begin(),
               model_draft.begin() + std::min<ptrdiff_t>(n_max, std::ssize(model_draft)));
}

}  // namespace kvik
