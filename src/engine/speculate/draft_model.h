#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/sample/sampler.h"
#include "engine/speculate/drafter.h"
#include "engine/speculate/drawn_guess.h"
#include "kv/kv_cache.h"
#include "model/decoder.h"

namespace kvik {

// A small model with the vocabulary of the large one: says what it would go on with, drawn with
// the very draws that the large one's tokens will be drawn with, so that two models that agree
// agree at any temperature. Its pages are its own, of the same budget: prefixes are found and kept
// in them as the large model's are.
//
// Prompts are computed some rows a step; a sequence has no drafts before its own is. Where no pages
// are left, it has none either. Engine thread only.
class DraftModel final : public Drafter {
 public:
  struct Options {
    KvType kv_type = KvType::kInt8;
    uint64_t kv_budget_bytes = 0;
    uint32_t max_running = 1;
    uint32_t n_ctx_max = 0;
    Sharing sharing = Sharing::kAll;
  };
  // Backend and clock are borrowed.
  DraftModel(std::unique_ptr<Model> model, Backend& backend, const Options& options,
             const Clock& clock);

  // Returns the bytes that it takes besides weights and pages.
  static uint64_t buffer_bytes(const ModelConfig& config, KvType kv_type, uint32_t max_running,
                               const Backend& backend);

  void begin_step(std::span<Sequence* const> sequences, uint32_t n_most) override;
  void propose(Sequence& sequence, uint32_t n_most, Draft& draft) override;
  void let_go(Sequence& sequence) override;
  double token_ms() const override { return time_.ms(); }

  const PageCounts& pages() const { return kv_.counts(); }
  uint64_t n_rows() const { return n_rows_; }  // computed so far

 private:
  bool prepare(Sequence& sequence, uint32_t n_most, uint32_t& n_rows_left);
  bool open(Sequence& sequence);
  void add_row(const Sequence& sequence, std::span<const TokenId> tokens, WantLogits want);
  void forward();
  bool sample(Sequence& sequence, size_t row);

  std::unique_ptr<Model> model_;
  const Clock& clock_;
  Options options_;
  Decoder decoder_;
  KvCache kv_;
  Sampler sampler_;
  std::string identity_;
  GuessTime time_;
  uint64_t n_rows_ = 0;

  // Of the current step; kept so that a step allocates nothing.
  std::vector<Sequence*> drafting_;
  std::vector<BatchSequence> batch_;
  std::vector<std::span<std::byte* const>> page_tables_;
};

}  // namespace kvik
