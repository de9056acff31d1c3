#include "host/memory_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.h"
#include "engine/kv_budget.h"
#include "host/available_memory.h"

namespace kvik {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kContextStep = 1024;
constexpr uint64_t kMinContext = 4096;

// Computes what a model needs for a context and a KV budget.
class Need {
 public:
  Need(const Footprint& footprint, const EngineOptions& options, const MemoryRequest& requested,
       bool is_device)
      : footprint_(footprint),
        options_(options),
        requested_(requested),
        is_device_(is_device),
        kv_(footprint.kv(options.kv_type)) {}

  // Returns the smallest KV budget in which a sequence of n_ctx tokens fits alone.
  uint64_t context_budget(uint64_t n_ctx) const {
    return with_draft_pages(TierLink::budget_for(
        options_.tiers, kv_.layout.page_bytes,
        budget_with_slots(kv_.layout, kv_.bytes_at_once(n_ctx), 1, options_.max_running)));
  }
  // Returns the KV budget that keeps all pages of kContexts sequences of n_ctx tokens.
  uint64_t cache_budget(uint64_t n_ctx) const {
    return with_draft_pages(
        kv_.budget(n_ctx, MemoryRequest::kContexts, options_.tiers, options_.max_running));
  }

  // Returns the memory of everything.
  uint64_t total(uint64_t n_ctx, uint64_t kv_bytes) const {
    EngineOptions options = options_;
    options.n_ctx_max = static_cast<uint32_t>(n_ctx);
    options.kv_budget_bytes = kv_bytes;
    const MemoryPlan plan = footprint_.plan(options);
    return (is_device_ ? plan.backend_bytes() : plan.total_bytes()) + requested_.adapter_bytes +
           requested_.draft_bytes;
  }

 private:
  // divide_kv_budget() takes a page of the draft model for each page of the model.
  uint64_t with_draft_pages(uint64_t n_bytes) const {
    if (requested_.draft_page_bytes == 0) return n_bytes;
    const uint64_t n_pages = n_bytes / kv_.page_bytes() + 1;
    return n_pages * (kv_.page_bytes() + requested_.draft_page_bytes);
  }

  const Footprint& footprint_;
  const EngineOptions& options_;
  const MemoryRequest& requested_;
  const bool is_device_;
  const KvFootprint kv_;
};

// Returns the largest n in [least, most] for which `fits` is true, in steps from `most` down to a
// multiple of `step`; `least` if there is none.
template <class Fits>
uint64_t largest(uint64_t least, uint64_t most, uint64_t step, const Fits& fits) {
  if (most <= least || fits(most)) return std::max(least, most);
  uint64_t fitting = least / step;  // in steps
  uint64_t too_many = (most + step - 1) / step;
  while (too_many - fitting > 1) {
    const uint64_t middle = fitting + (too_many - fitting) / 2;
    (fits(middle * step) ? fitting : too_many) = middle;
  }
  return std::max(least, fitting * step);
}

uint64_t choose_context(const Need& need, uint64_t n_ctx_train, uint64_t usable_bytes) {
  return largest(std::min(n_ctx_train, kMinContext), n_ctx_train, kContextStep,
                 [&](uint64_t n) { return need.total(n, need.context_budget(n)) <= usable_bytes; });
}

}  // namespace

uint64_t MemoryState::reserve_bytes() const {
  return is_device ? all_bytes / 16 : std::min(all_bytes / 4, 8 * kGiB);
}

MemoryState memory_state(Backend& backend) {
  if (const auto left = backend.memory().free_bytes()) {
    return {.all_bytes = *left, .free_bytes = *left, .is_device = true};
  }
  const uint64_t all = machine_memory_bytes().value_or(0);
  return {.all_bytes = all, .free_bytes = available_memory_bytes().value_or(all)};
}

MemoryState idle_machine(uint64_t n_bytes) { return {.all_bytes = n_bytes, .free_bytes = n_bytes}; }

MemoryChoice choose_memory(const Footprint& footprint, const EngineOptions& options,
                           const MemoryRequest& requested, const MemoryState& memory) {
  const Need need(footprint, options, requested, memory.is_device);
  const uint64_t n_ctx_train = footprint.config().n_ctx_train;
  const uint64_t usable = memory.usable_bytes();
  if (requested.kv_bytes)
    return {.n_ctx = requested.n_ctx.value_or(n_ctx_train), .kv_bytes = *requested.kv_bytes};
  const uint64_t n_ctx =
      requested.n_ctx ? *requested.n_ctx : choose_context(need, n_ctx_train, usable);
  uint64_t least = need.context_budget(n_ctx);
  // A context that the user asked for may use the reserve, but not more than is free.
  if (requested.n_ctx && need.total(n_ctx, least) > memory.free_bytes) {
    least = need.context_budget(std::min(n_ctx, kMinContext));
  }
  const uint64_t most = std::max(need.cache_budget(n_ctx), MemoryRequest::kMinKvBytes);
  const uint64_t kv_bytes = largest(
      least, most, kMiB, [&](uint64_t n_bytes) { return need.total(n_ctx, n_bytes) <= usable; });
  return {.n_ctx = n_ctx, .kv_bytes = kv_bytes};
}

std::string describe(const MemoryChoice& choice, const MemoryRequest& requested,
                     const MemoryState& memory, uint64_t n_ctx_train) {
  const std::string place = memory.is_device ? "free on the device" : "free memory";
  std::string chosen = fmt::format("KV cache {}", format_bytes(choice.kv_bytes));
  if (!requested.n_ctx) {
    const std::string of =
        choice.n_ctx < n_ctx_train ? fmt::format(" of {}", n_ctx_train) : std::string();
    chosen = fmt::format("context {}{} and {}", choice.n_ctx, of, chosen);
  }
  return fmt::format("chosen: {}, from {} {} of which {} stay free for other programs; {} it",
                     chosen, format_bytes(memory.free_bytes), place,
                     format_bytes(std::min(memory.free_bytes, memory.reserve_bytes())),
                     requested.n_ctx ? "--kv-memory changes" : "--ctx and --kv-memory change");
}

}  // namespace kvik
