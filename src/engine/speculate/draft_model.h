#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/sample/sampler.h"
#include "engine/speculate/drafter.h"
#include "engine/speculate/drawn_draft_token.h"
#include "kv/kv_cache.h"
#include "model/decoder.h"

namespace kvik {

// A small model with the same vocabulary that proposes draft tokens. It samples with the same
// random draws as the main model will, so two models that agree do so at any temperature. It has
// its own pages in the same budget, with prefix caching as in the main model.
//
// A step computes only some prompt rows; a sequence has no drafts until its own prompt is done. It
// has none either if no pages are free. Engine thread only.
class DraftModel final : public Drafter {
 public:
  struct Options {
    KvType kv_type = KvType::kInt8;
    uint64_t kv_budget_bytes = 0;
    uint32_t max_running = 1;
    uint32_t n_ctx_max = 0;
    Sharing sharing = Sharing::kAll;
  };
  // Borrows the backend and the clock.
  DraftModel(std::unique_ptr<Model> model, Backend& backend, const Options& options,
             const Clock& clock);

  // Returns the bytes that it needs besides weights and pages.
  static uint64_t buffer_bytes(const ModelConfig& config, KvType kv_type, uint32_t max_running,
                               const Backend& backend);

  void begin_step(std::span<Sequence* const> sequences, uint32_t n_max) override;
  void propose(Sequence& sequence, uint32_t n_max, Draft& draft) override;
  void release(Sequence& sequence) override;
  double token_ms() const override { return time_.ms(); }

  const PageCounts& pages() const { return kv_.counts(); }
  uint64_t n_rows() const { return n_rows_; }  // computed so far

 private:
  bool prepare(Sequence& sequence, uint32_t n_max, uint32_t& n_rows_left);
  bool open(Sequence& sequence);
  void add_row(const Sequence& sequence, std::span<const TokenId> tokens, OutputRows want);
  void forward();
  bool sample(Sequence& sequence, size_t row);

  std::unique_ptr<Model> model_;
  const Clock& clock_;
  Options options_;
  Decoder decoder_;
  KvCache kv_;
  Sampler sampler_;
  std::string identity_;
  DraftTime time_;
  uint64_t n_rows_ = 0;

  // Scratch of the current step, kept so that a step allocates nothing.
  std::vector<Sequence*> drafting_;
  std::vector<BatchSequence> batch_;
  std::vector<std::span<std::byte* const>> page_tables_;
};

}  // namespace kvik
