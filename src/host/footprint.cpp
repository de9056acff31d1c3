#include "host/footprint.h"

#include <functional>
#include <utility>

#include "catalogue/kv_source.h"
#include "engine/kv_budget.h"
#include "engine/speculate/cached_ngram_index.h"
#include "engine/speculate/suffix_index.h"
#include "engine/work_limits.h"
#include "format/source_config.h"
#include "format/weight_mix.h"
#include "host/encoder_instance.h"
#include "model/encode/encoder.h"
#include "model/indexer/index_places.h"
#include "model/layer_groups.h"
#include "model/row_table.h"
#include "service/request_bounds.h"
#include "service/structured_output/grammar_compiler.h"

namespace kvik {
namespace {

// Bytes per page for the bookkeeping of pool, prefix index and page tables: measured and rounded
// up.
constexpr uint64_t kIndexBytes = 768;
// Bytes per thread for stack, allocator arena and queues.
constexpr uint64_t kThreadBytes = uint64_t{256} << 10;
// Threads for network, large bodies, engine and masks; the backend counts its workers.
constexpr uint64_t kServiceThreads = 7;
constexpr uint64_t kMaxContext = uint64_t{1} << 28;

// Memory of speculative decoding for the tokens in pages and for each sequence. The chain and
// suffix indexes double their tables as they grow, so twice their contents is the bound.
uint64_t speculation_bytes(const EngineOptions& options, uint64_t n_pages) {
  if (options.speculation.mode == SpeculationOptions::Mode::kOff) return 0;
  const uint64_t of_sequence = SuffixIndex::max_bytes(0);
  const uint64_t of_page =
      2 * CachedNgramIndex::n_bytes(1) + SuffixIndex::max_bytes(kPageTokens) - of_sequence;
  return n_pages * of_page + options.max_running * of_sequence;
}

// Memory of compiled grammars, the tokenizers' vocabularies as tries, the matchers of running
// sequences, and a grammar being compiled. A sequence that waits for its mask keeps a row of
// logits.
uint64_t grammar_bytes(const EngineOptions& options, uint32_t n_vocab) {
  const uint64_t of_sequence = constrain::GrammarMatcher::kSmallBytes + n_vocab * sizeof(float);
  return GrammarCompiler::kMaxBytes +
         GrammarCompiler::kMaxVocabularies * GrammarVocabulary::max_bytes(n_vocab) +
         options.max_running * of_sequence + constrain::Limits().max_matching_bytes;
}

TypeSize size_as(const ModelSource& source, std::string name,
                 const std::function<ElementType(const TensorInfo&)>& type_of) {
  TypeSize size{.type = std::move(name)};
  uint64_t n_values = 0;
  for (const TensorInfo& tensor : source.tensors()) {
    size.n_bytes += bytes_of(type_of(tensor), tensor.shape).value_or(0);
    n_values += tensor.n_elements();
  }
  if (n_values == 0) return size;
  size.bits_per_weight = 8.0 * static_cast<double>(size.n_bytes) / static_cast<double>(n_values);
  return size;
}

}  // namespace

KvFootprint::KvFootprint(const ModelConfig& config, const Backend& backend, KvType kv_type)
    : type(kv_type), layout(kv_layout(config, kv_type, backend)) {
  const LayerGroups groups = group_layers(config);
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    if (!layer.if_attention()) continue;
    uint64_t n_bytes = index_page_bytes(layer, kv_type) / kPageTokens;
    if (!kv_source_of(layer)) {
      KvGeometry geometry = kv_geometry(groups, groups.places[i].group, kv_type);
      geometry.n_layers = 1;
      n_bytes += backend.page_bytes(geometry) / kPageTokens;
    }
    bytes_per_token += n_bytes;
    if (layer.attention().window == 0) lasting_bytes_per_token += n_bytes;
    if (!layer.has_entries()) continue;
    KvGeometry geometry = kv_geometry(groups, groups.entry_places[i].place.group, kv_type);
    geometry.n_layers = 1;
    const uint64_t of_entries = backend.page_bytes(geometry) *
                                LayerGroups::n_slots(layer.attention().joint.entries) /
                                kPageTokens / kPageTokens;
    bytes_per_token += of_entries;
    lasting_bytes_per_token += of_entries + index_page_bytes(layer, kv_type) / kPageTokens;
  }
}

uint64_t KvFootprint::bytes_at_once(uint64_t n_tokens) const {
  return pages_at_once(layout, n_tokens) * layout.page_bytes;
}

uint64_t KvFootprint::budget(uint64_t n_tokens, uint64_t n_sequences,
                             std::span<const TierPlace> tiers, uint64_t max_running) const {
  const uint64_t all = pages_for(n_tokens) * n_sequences * page_bytes();
  return TierLink::budget_for(
      tiers, layout.page_bytes,
      budget_with_slots(layout, all, n_sequences, std::max(n_sequences, max_running)));
}

uint64_t MemoryPlan::buffers_bytes() const {
  uint64_t sum = 0;
  for (const Part& part : buffers) sum += part.n_bytes;
  return sum;
}

uint64_t MemoryPlan::backend_bytes() const {
  uint64_t sum = weights_bytes + kv_bytes;
  for (const Part& part : buffers) sum += part.is_in_backend_memory ? part.n_bytes : 0;
  return sum;
}

Result<Footprint> Footprint::of(const ModelSource& source, const Backend& backend) {
  TRY_ASSIGN(ModelConfig config, config_of(source));
  TRY_ASSIGN(WeightPlan weights, plan_weights(source, config, backend));
  return Footprint(std::move(config), std::move(weights), backend);
}

// An encoder has no KV cache. Its results are larger than the requests of short texts.
MemoryPlan Footprint::encoder_plan(const EngineOptions& options) const {
  const EncoderOptions encoder = encoder_options(options);
  const Encoder::Limits limits{.n_rows = EncoderThread::n_rows(encoder, config_.n_ctx_train),
                               .n_texts = encoder.max_running};
  const WorkLimits work = Encoder::work_limits(config_, weights_.kinds, limits);
  return {.weights_bytes = weights_.n_bytes,
          .kv_bytes = 0,
          .buffers = {{"encoder", Encoder::buffer_bytes(config_, limits, backend_), true},
                      {"kernels", backend_.scratch_bytes(work), true},
                      {"requests", RequestBounds::memory_bytes(work.n_ctx)},
                      {"threads", (backend_.n_threads() + kServiceThreads) * kThreadBytes}}};
}

MemoryPlan Footprint::plan(const EngineOptions& options) const {
  if (config_.encoder) return encoder_plan(options);
  const KvLayout layout = kv(options.kv_type).layout;
  const uint64_t slots =
      layout.slot_bytes() * n_slots(layout, options.kv_budget_bytes, options.max_running);
  const uint64_t page_bytes = layout.page_bytes;
  const uint64_t n_pages = (options.kv_budget_bytes - slots) / page_bytes;
  const WorkLimits work = work_limits(config_, weights_.kinds, options);
  const uint64_t draft_sampler = config_.has_mtp_head ? Sampler::buffer_bytes(config_.n_vocab) : 0;
  MemoryPlan plan{
      .weights_bytes = weights_.n_bytes,
      .kv_bytes = slots + n_pages * page_bytes,
      .buffers = {
          {"decoder",
           Decoder::buffer_bytes(config_, options.kv_type, options.max_step_tokens, backend_),
           true},
          {"kernels", backend_.scratch_bytes(work), true},
          {"samplers", StepSampler::buffer_bytes(config_.n_vocab, backend_) + draft_sampler},
          {"grammars", grammar_bytes(options, config_.n_vocab)},
          {"page index", n_pages * kIndexBytes},
          {"speculation", speculation_bytes(options, n_pages)},
          {"requests", RequestBounds::memory_bytes(work.n_ctx)},
          {"kept responses", RequestBounds::kept_bytes(work.n_ctx)},
          {"threads", (backend_.n_threads() + kServiceThreads) * kThreadBytes}}};
  if (weights_.table_in_file) {
    const uint64_t n_rows = options.max_step_tokens;
    const uint64_t n_bytes =
        config_.ngrams
            ? RowTable::buffer_bytes(backend_, *weights_.table_in_file,
                                     n_rows * config_.ngrams->n_heads(), config_.ngrams->row_dim)
            : RowTable::buffer_bytes(backend_, *weights_.table_in_file, n_rows,
                                     uint64_t{config_.n_layers} * config_.per_layer_dim);
    plan.buffers.push_back({"rows of tables", n_bytes, true});
  }
  if (options.page_log) {
    plan.buffers.push_back({"KV events", options.page_log->bytes_for(n_pages)});
  }
  return plan;
}

MemoryPlan Footprint::plan(KvType type, uint64_t n_ctx, uint64_t n_users) const {
  const KvFootprint footprint = kv(type);
  const uint64_t n_page_bytes = footprint.bytes_at_once(n_ctx) * n_users;
  return plan(
      {.kv_budget_bytes = budget_with_slots(footprint.layout, n_page_bytes, n_users, n_users),
       .kv_type = type,
       .n_ctx_max = static_cast<uint32_t>(n_ctx)});
}

UserFit Footprint::users(KvType type, uint64_t n_ctx) const {
  const uint64_t fixed = plan(type, n_ctx, 0).total_bytes();
  return {fixed, plan(type, n_ctx, 1).total_bytes() - fixed};
}

uint64_t Footprint::users_in(KvType type, uint64_t n_ctx, uint64_t memory_bytes) const {
  const auto fit = [&](uint64_t n) { return plan(type, n_ctx, n).total_bytes() <= memory_bytes; };
  constexpr uint64_t kMost = uint64_t{1} << 40;
  uint64_t fitting = 0;
  uint64_t too_many = 1;
  while (too_many < kMost && fit(too_many)) {
    fitting = too_many;
    too_many *= 2;
  }
  while (too_many - fitting > 1) {
    const uint64_t middle = fitting + (too_many - fitting) / 2;
    (fit(middle) ? fitting : too_many) = middle;
  }
  return fitting;
}

uint64_t Footprint::longest_context(KvType type, uint64_t memory_bytes) const {
  uint64_t fits = 0;
  uint64_t too_much = kMaxContext / kPageTokens;
  while (too_much - fits > 1) {
    const uint64_t middle = fits + (too_much - fits) / 2;
    const uint64_t n_bytes = plan(type, middle * kPageTokens, 1).total_bytes();
    (n_bytes <= memory_bytes ? fits : too_much) = middle;
  }
  return fits * kPageTokens;
}

std::vector<TypeSize> type_sizes(const ModelSource& source) {
  std::vector<TypeSize> sizes = {
      size_as(source, "f32", [](const TensorInfo&) { return ElementType::kF32; })};
  for (const MixTarget& target : mix_targets()) {
    const WeightMix mix(target, WeightMix::Kind::kMixed, source.tensors());
    sizes.push_back(size_as(source, name_of(target.type),
                            [&](const TensorInfo& tensor) { return mix.choose(tensor).type; }));
  }
  std::ranges::stable_sort(sizes, std::ranges::greater(), &TypeSize::n_bytes);
  return sizes;
}

}  // namespace kvik
