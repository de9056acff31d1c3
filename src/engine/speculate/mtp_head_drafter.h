#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/sample/sampler.h"
#include "engine/speculate/drafter.h"
#include "engine/speculate/drawn_draft_token.h"
#include "model/decoder.h"

namespace kvik {

// Drafts with the model's MTP head (MtpHeadBlock), one token after the other, each from the hidden
// state of the one before. It uses the random draws that the tokens themselves will have. Its K and
// V are in the sequences' own pages, so it needs no other memory and shares their cached prefixes.
class MtpHeadDrafter final : public Drafter {
 public:
  // Borrows the decoder and the clock. The decoder's model must have an MTP head.
  MtpHeadDrafter(Decoder& decoder, uint32_t n_vocab, const Clock& clock);

  // Drafts for sequences with exactly one pending token, as far as their pages have room.
  void begin_step(std::span<Sequence* const> sequences, uint32_t n_max) override;
  void propose(Sequence& sequence, uint32_t n_max, Draft& draft) override;
  double token_ms() const override { return time_.ms(); }

 private:
  // A sequence that is being drafted.
  struct Lane {
    Sequence* sequence = nullptr;
    uint32_t row = 0;  // row in the last pass
  };
  void pass(uint32_t n_drafted);
  bool sample(Lane& lane, uint32_t row);

  Decoder& decoder_;
  const Clock& clock_;
  Sampler sampler_;
  DraftTime time_;

  // Scratch of the current step, kept so that a step allocates nothing.
  std::vector<Lane> lanes_;
  std::vector<MtpHeadRow> rows_;
  std::vector<std::span<std::byte* const>> page_tables_;
};

}  // namespace kvik
