#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/sample/sampler.h"
#include "engine/speculate/drafter.h"
#include "engine/speculate/drawn_guess.h"
#include "model/decoder.h"

namespace kvik {

// Guesses with the model's own guesser (GuesserBlock), one token after the other: each from the
// hidden state of the one before. It draws with the draws that the tokens themselves will be drawn
// with, and has its K and V in the sequences' own pages, so it costs no memory of its own and finds
// what they find.
class HeadDrafter final : public Drafter {
 public:
  // Decoder, whose model has a guesser, and clock are borrowed.
  HeadDrafter(Decoder& decoder, uint32_t n_vocab, const Clock& clock);

  // Of sequences whose newest token alone is not computed yet, and whose pages have room.
  void begin_step(std::span<Sequence* const> sequences, uint32_t n_most) override;
  void propose(Sequence& sequence, uint32_t n_most, Draft& draft) override;
  double token_ms() const override { return time_.ms(); }

 private:
  // A sequence that a token is guessed of.
  struct Lane {
    Sequence* sequence = nullptr;
    uint32_t row = 0;  // of the last pass
  };
  void pass(uint32_t n_guessed);
  bool sample(Lane& lane, uint32_t row);

  Decoder& decoder_;
  const Clock& clock_;
  Sampler sampler_;
  GuessTime time_;

  // Of the current step; kept so that a step allocates nothing.
  std::vector<Lane> lanes_;
  std::vector<GuessRow> rows_;
  std::vector<std::span<std::byte* const>> page_tables_;
};

}  // namespace kvik
