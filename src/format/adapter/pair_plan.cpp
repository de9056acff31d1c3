#include "format/adapter/pair_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/quantity.h"
#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

using Shape = std::vector<uint64_t>;

bool is_float(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16;
}

// A selection of rows or columns of a matrix.
struct Choice {
  uint64_t first = 0, n = 0, step = 1;
  std::vector<uint32_t> list = {};  // used instead if not empty

  uint64_t size() const { return list.empty() ? n : list.size(); }
  uint64_t operator[](uint64_t i) const { return list.empty() ? first + i * step : list[i]; }
  bool is_contiguous() const { return list.empty() && step == 1; }
};

// Returns the selection of `order`, or of all n if it is empty.
Choice all_of(uint64_t n, std::vector<uint32_t> order = {}) {
  return {.n = n, .list = std::move(order)};
}

// Part of a tensor that becomes a factor.
struct FactorPart {
  size_t tensor = 0;
  uint64_t n_cols = 0;  // columns of the tensor when it is treated as rows
  Choice rows, columns;
  bool is_transposed = false;
};

// Returns rows of a tensor.
FactorPart rows_of(size_t tensor, uint64_t first, uint64_t n_rows, uint64_t n_cols) {
  return {.tensor = tensor,
          .n_cols = n_cols,
          .rows = {.first = first, .n = n_rows},
          .columns = all_of(n_cols)};
}

std::vector<std::byte> chosen_bytes(std::span<const std::byte> all, const FactorPart& part,
                                    size_t element_bytes) {
  std::vector<std::byte> out(part.rows.size() * part.columns.size() * element_bytes);
  std::byte* to = out.data();
  for (uint64_t r = 0; r < part.rows.size(); ++r) {
    const uint64_t row = part.rows[r] * part.n_cols;
    const uint64_t n_contiguous = part.columns.is_contiguous() ? part.columns.size() : 1;
    for (uint64_t c = 0; c < part.columns.size(); c += n_contiguous) {
      const uint64_t at = (row + part.columns[c]) * element_bytes;
      CHECK(at + n_contiguous * element_bytes <= all.size());
      std::memcpy(to, all.data() + at, n_contiguous * element_bytes);
      to += n_contiguous * element_bytes;
    }
  }
  return out;
}

std::vector<float> transposed(const std::vector<float>& values, uint64_t n_cols) {
  const uint64_t n_rows = values.size() / n_cols;
  std::vector<float> out(values.size());
  for (uint64_t r = 0; r < n_rows; ++r) {
    for (uint64_t c = 0; c < n_cols; ++c) out[c * n_rows + r] = values[r * n_cols + c];
  }
  return out;
}

}  // namespace

struct PairPlan::Planned {
  AdapterPair pair;
  FactorPart a, b;
  std::optional<FactorPart> magnitudes = {};
};

// Keeps in memory the two tensors that were read last, because consecutive pairs of a stack are
// parts of the same tensors.
class PairPlan::Source final : public AdapterSource {
 public:
  Source(std::unique_ptr<ModelSource> file, std::string label, std::string base_name,
         std::vector<Planned> planned, std::vector<Saved> saved)
      : file_(std::move(file)),
        label_(std::move(label)),
        base_name_(std::move(base_name)),
        planned_(std::move(planned)) {
    for (const Planned& planned_pair : planned_) pairs_.push_back(planned_pair.pair);
    for (const Saved& whole : saved) {
      saved_.push_back(whole.tensor);
      saved_in_file_.push_back(whole.in_file);
    }
  }

  const std::string& label() const override { return label_; }
  const std::string& base_name() const override { return base_name_; }
  std::span<const AdapterPair> pairs() const override { return pairs_; }

  std::span<const SavedTensor> saved() const override { return saved_; }
  Result<std::span<const std::byte>> read_saved(size_t index) override {
    CHECK(index < saved_.size());
    return file_->read(saved_in_file_[index]);
  }

  Result<LowRankFactors> read(size_t index) override {
    CHECK(index < planned_.size());
    const Planned& planned = planned_[index];
    for (const size_t held : held_) {
      if (held != planned.a.tensor && held != planned.b.tensor) file_->release(held);
    }
    held_ = {planned.a.tensor, planned.b.tensor};
    LowRankFactors factors;
    TRY_ASSIGN(factors.a, read_part(planned.a));
    TRY_ASSIGN(factors.b, read_part(planned.b));
    if (planned.magnitudes) {
      TRY_ASSIGN(factors.magnitudes, read_part(*planned.magnitudes));
    }
    return factors;
  }

 private:
  Result<std::vector<float>> read_part(const FactorPart& part) {
    const ElementType type = file_->tensors()[part.tensor].type;
    auto bytes = file_->read(part.tensor);
    if (!bytes) {
      return fail(bytes.error().code, fmt::format("'{}': {}", label_, bytes.error().message));
    }
    const auto chosen = chosen_bytes(*bytes, part, traits(type).block_bytes);
    std::vector<float> values(part.rows.size() * part.columns.size());
    dequantize_row(type, chosen.data(), values);
    const auto is_finite = [](float value) { return std::isfinite(value); };
    const auto wrong = std::ranges::find_if_not(values, is_finite);
    if (wrong != values.end()) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}': tensor {} holds {}, expected finite numbers", label_,
                              quoted(file_->name_in_file(part.tensor)), *wrong));
    }
    return part.is_transposed ? transposed(values, part.columns.size()) : std::move(values);
  }

  std::unique_ptr<ModelSource> file_;
  std::string label_, base_name_;
  std::vector<Planned> planned_;
  std::vector<AdapterPair> pairs_;
  std::vector<SavedTensor> saved_;
  std::vector<size_t> saved_in_file_;
  std::vector<size_t> held_;
};

PairPlan::PairPlan(const ModelSource& file, const ModelConfig& model)
    : file_(file), model_(model), table_(model) {}

PairPlan::~PairPlan() = default;

Result<uint32_t> PairPlan::rank_of(const FilePair& pair) const {
  if (is_list(kind_of(pair.target.tensor.role))) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} is not a matrix, expected pairs of matrices", quoted(pair.name)));
  }
  const TensorInfo& a = file_.tensors()[pair.a];
  const TensorInfo& b = file_.tensors()[pair.b];
  for (const TensorInfo* tensor : {&a, &b}) {
    if (!is_float(tensor->type)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {} is of type {}, expected f32, f16 or bf16",
                              quoted(tensor->name), name_of(tensor->type)));
    }
    if (tensor->shape.size() == 2 || tensor->shape.size() == 3) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensor {} has the shape [{}], expected two axes, or three of a stack",
                            quoted(tensor->name), fmt::join(tensor->shape, ", ")));
  }
  const bool is_flipped =
      pair.target.tensor.role == TensorRole::kEmbedding && pair.embedding == EmbeddingPair::kGguf;
  uint64_t rank = is_flipped ? a.shape.back() : a.shape[a.shape.size() - 2];
  if (rank != b.shape.back()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tensors {} and {} have the ranks {} and {}, expected one rank",
                            quoted(a.name), quoted(b.name), rank, b.shape.back()));
  }
  if (pair.flat) {
    TRY_ASSIGN(rank, flat_rank_of(pair));
  }
  if (rank >= 1 && rank <= kMaxAdapterRank) return static_cast<uint32_t>(rank);
  return fail(ErrorCode::kUnsupported, fmt::format("tensor {} has the rank {}, expected 1 to {}",
                                                   quoted(a.name), rank, kMaxAdapterRank));
}

Result<uint64_t> PairPlan::flat_rank_of(const FilePair& pair) const {
  const TensorSpec* spec = table_.find(pair.target.tensor);
  CHECK(spec);
  const std::vector<uint64_t>& a = file_.tensors()[pair.a].shape;
  if (a.size() == 2 && a[0] % spec->shape[0] == 0) return a[0] / spec->shape[0];
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("tensor {} has the shape [{}], expected two axes and as many rows for "
                  "each of {} experts",
                  quoted(file_.tensors()[pair.a].name), fmt::join(a, ", "), spec->shape[0]));
}

Result<void> PairPlan::add(const FilePair& pair, uint32_t rank, float scale) {
  if (!std::isfinite(scale)) {
    return fail(ErrorCode::kCorrupt, fmt::format("the scale of {} is {}, expected a finite number",
                                                 quoted(pair.name), scale));
  }
  const ElementType a_type = file_.tensors()[pair.a].type;
  const ElementType b_type = file_.tensors()[pair.b].type;
  const AdapterPair made{.tensor = pair.target.tensor,
                         .rank = rank,
                         .scale = scale,
                         .type = a_type == b_type ? a_type : ElementType::kF32};
  if (pair.magnitudes && (pair.flat || pair.target.tensor.role == TensorRole::kKvUp ||
                          pair.target.tensor.role == TensorRole::kOutputDown ||
                          pair.target.tensor.role == TensorRole::kEmbedding)) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("{} has magnitudes ('use_dora'), which are read of matrices alone, not "
                    "of an embedding, of experts in one parameter, of kv_b_proj or of o_a_proj",
                    quoted(pair.name)));
  }
  if (pair.target.tensor.role == TensorRole::kKvUp) return add_latent(pair, made);
  const TensorSpec* spec = table_.find(pair.target.tensor);
  // Pairs of the MTP head are ignored.
  if (spec && is_of_layer(spec->id.role) && spec->id.layer >= model_.n_layers) return {};
  // Pairs of tensors that the model does not use are ignored, such as K of a layer that shares
  // another layer's.
  if (!spec && table_.may_be_unused(name_of(pair.target.tensor))) return {};
  if (!spec) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} is not a matrix of a model of architecture '{}' with {}: "
                    "the adapter was made for another model",
                    quoted(pair.name), model_.architecture, counted(model_.n_layers, "layer")));
  }
  if (pair.target.tensor.role == TensorRole::kEmbedding) return add_embedding(pair, *spec, made);
  if (pair.target.tensor.role == TensorRole::kPerLayerEmbedding) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} is an embedding table; pairs are supported for matrices only",
                            quoted(pair.name)));
  }
  const TensorKind kind = kind_of(pair.target.tensor.role);
  const bool is_stack = kind == TensorKind::kExperts || kind == TensorKind::kHeads;
  if (pair.flat) return add_flat_stack(pair, *spec, made);
  if (pair.target.tensor.role == TensorRole::kOutputDown) return add_groups(pair, *spec, made);
  const size_t n_planned = planned_.size();
  TRY(is_stack ? add_stack(pair, *spec, made) : add_whole(pair, *spec, made));
  return pair.magnitudes ? add_magnitudes(pair, n_planned) : Result<void>();
}

// Adds a magnitude for each row of b, in the order of the rows.
Result<void> PairPlan::add_magnitudes(const FilePair& pair, size_t first_planned) {
  const TensorInfo& info = file_.tensors()[*pair.magnitudes];
  const uint64_t n_rows = file_.tensors()[pair.b].shape[0];
  if (info.shape != Shape{n_rows} || !is_float(info.type) || planned_.size() != first_planned + 1) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("tensor {} is [{}] of {}, expected [{}] of f32, f16 or bf16", quoted(info.name),
                    fmt::join(info.shape, ", "), name_of(info.type), n_rows));
  }
  Planned& planned = planned_.back();
  planned.magnitudes = FactorPart{
      .tensor = *pair.magnitudes, .n_cols = 1, .rows = planned.b.rows, .columns = all_of(1)};
  planned.pair.has_magnitudes = true;
  planned.pair.type = ElementType::kF32;  // b will be scaled
  return {};
}

Result<void> PairPlan::check_shapes(const FilePair& pair, const Shape& a, const Shape& b) const {
  const TensorInfo& file_a = file_.tensors()[pair.a];
  const TensorInfo& file_b = file_.tensors()[pair.b];
  if (file_a.shape == a && file_b.shape == b) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the pair of {} has the shapes [{}] and [{}], but the model has [{}] "
                          "and [{}]: the adapter was made for another model",
                          quoted(pair.name), fmt::join(file_a.shape, ", "),
                          fmt::join(file_b.shape, ", "), fmt::join(a, ", "), fmt::join(b, ", ")));
}

Result<void> PairPlan::add_whole(const FilePair& pair, const TensorSpec& spec, AdapterPair made) {
  made.n_rows = spec.shape.size() == 1 ? 1 : spec.shape[0];
  made.n_cols = spec.shape.back();
  ModuleOrder order{.n_rows = made.n_rows};
  if (!pair.module.roles.empty()) {
    TRY_ASSIGN(order, module_order(model_, table_, pair.module, spec.id));
  }
  TRY(check_shapes(pair, {made.rank, made.n_cols}, {order.n_rows, made.rank}));
  planned_.push_back({made,
                      {.tensor = pair.a,
                       .n_cols = made.n_cols,
                       .rows = all_of(made.rank),
                       .columns = all_of(made.n_cols, std::move(order.columns))},
                      {.tensor = pair.b,
                       .n_cols = made.rank,
                       .rows = all_of(order.n_rows, std::move(order.rows)),
                       .columns = all_of(made.rank)}});
  return {};
}

Result<void> PairPlan::add_embedding(const FilePair& pair, const TensorSpec& spec,
                                     AdapterPair made) {
  made.n_rows = spec.shape[0];
  made.n_cols = spec.shape[1];
  const bool is_peft = pair.embedding == EmbeddingPair::kPeft;
  const Shape of_tokens =
      is_peft ? Shape{made.rank, made.n_rows} : Shape{made.n_rows, uint64_t{made.rank}};
  TRY(check_shapes(pair, of_tokens, {made.n_cols, made.rank}));
  planned_.push_back({made,
                      {.tensor = pair.b,
                       .n_cols = made.rank,
                       .rows = all_of(made.n_cols),
                       .columns = all_of(made.rank),
                       .is_transposed = true},
                      {.tensor = pair.a,
                       .n_cols = of_tokens[1],
                       .rows = all_of(of_tokens[0]),
                       .columns = all_of(of_tokens[1]),
                       .is_transposed = is_peft}});
  return {};
}

// Adds the pair of one matrix of a stack, or of all of them.
Result<void> PairPlan::add_stack(const FilePair& pair, const TensorSpec& spec, AdapterPair made) {
  const uint64_t n_parts = spec.shape[0];
  const uint64_t rank = made.rank;
  made.n_rows = spec.shape[1];
  made.n_cols = spec.shape[2];
  if (pair.target.part) {
    if (*pair.target.part >= n_parts) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is of part {}, but the model has {} of them", quoted(pair.name),
                              *pair.target.part, n_parts));
    }
    made.part = *pair.target.part;
    TRY(check_shapes(pair, {rank, made.n_cols}, {made.n_rows, rank}));
    planned_.push_back(
        {made, rows_of(pair.a, 0, rank, made.n_cols), rows_of(pair.b, 0, made.n_rows, rank)});
    return {};
  }
  TRY(check_shapes(pair, {n_parts, rank, made.n_cols}, {n_parts, made.n_rows, rank}));
  for (made.part = 0; made.part < n_parts; ++made.part) {
    planned_.push_back({made, rows_of(pair.a, made.part * rank, rank, made.n_cols),
                        rows_of(pair.b, made.part * made.n_rows, made.n_rows, rank)});
  }
  return {};
}

// Adds the pair of a matrix that is a part of its rows for each group of heads; all have the same
// A.
Result<void> PairPlan::add_groups(const FilePair& pair, const TensorSpec& spec, AdapterPair made) {
  const uint64_t n_parts = model_.layers[spec.id.layer].attention().joint.n_groups;
  made.n_rows = spec.shape[0] / n_parts;
  made.n_cols = spec.shape[1];
  TRY(check_shapes(pair, {made.rank, made.n_cols}, {spec.shape[0], made.rank}));
  for (made.part = 0; made.part < n_parts; ++made.part) {
    planned_.push_back({made, rows_of(pair.a, 0, made.rank, made.n_cols),
                        rows_of(pair.b, made.part * made.n_rows, made.n_rows, made.rank)});
  }
  return {};
}

Result<void> PairPlan::add_flat_stack(const FilePair& pair, const TensorSpec& spec,
                                      AdapterPair made) {
  const FlatStack& flat = *pair.flat;
  const uint64_t n_experts = spec.shape[0];
  const uint64_t n_all = n_experts * made.rank;
  made.n_rows = spec.shape[1];
  made.n_cols = spec.shape[2];
  const uint64_t n_outputs = flat.n_parts * made.n_rows;
  const bool fits_flipped = file_.tensors()[pair.a].shape == Shape{n_all, n_outputs} &&
                            file_.tensors()[pair.b].shape == Shape{made.n_cols, n_all};
  const bool is_flipped = fits_flipped && (n_outputs != made.n_cols || flat.is_flipped);
  if (!is_flipped) TRY(check_shapes(pair, {n_all, made.n_cols}, {n_outputs, n_all}));
  Choice outputs{.first = flat.part * made.n_rows, .n = made.n_rows};
  if (flat.is_alternating) outputs = {.first = flat.part, .n = made.n_rows, .step = flat.n_parts};
  const Choice inputs = all_of(made.n_cols);
  for (made.part = 0; made.part < n_experts; ++made.part) {
    const Choice of_a{.first = uint64_t{made.part} * made.rank, .n = made.rank};
    const Choice of_b{.first = made.part, .n = made.rank, .step = n_experts};
    if (is_flipped) {
      planned_.push_back(
          {made, {pair.b, n_all, inputs, of_b, true}, {pair.a, n_outputs, of_a, outputs, true}});
    } else {
      planned_.push_back({made,
                          {pair.a, made.n_cols, of_a, inputs, false},
                          {pair.b, n_all, outputs, of_b, false}});
    }
  }
  return {};
}

// Adds the pairs of a matrix that computes K and V of all heads (latent_up.h). The model stores K's
// part transposed per head, so there the transposed b of the file becomes a, and the transposed a
// becomes b.
Result<void> PairPlan::add_latent(const FilePair& pair, AdapterPair made) {
  const uint32_t layer = pair.target.tensor.layer;
  if (!table_.find({TensorRole::kKUp, layer})) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} is not a matrix of a model of architecture '{}' with {}: "
                    "the adapter was made for another model",
                    quoted(pair.name), model_.architecture, counted(model_.n_layers, "layer")));
  }
  const AttentionConfig& attention = model_.layers[layer].attention();
  const LatentConfig& latent = attention.latent;
  const uint64_t rank = made.rank;
  const uint64_t head_rows = latent.qk_nope_head_dim + latent.value_dim;
  TRY(check_shapes(pair, {rank, latent.rank}, {attention.n_heads * head_rows, rank}));
  const FactorPart whole_a = rows_of(pair.a, 0, rank, latent.rank);
  for (uint32_t head = 0; head < attention.n_heads; ++head) {
    made.part = head;
    made.tensor.role = TensorRole::kKUp;
    made.n_rows = latent.rank;
    made.n_cols = latent.qk_nope_head_dim;
    FactorPart as_b = whole_a;
    FactorPart as_a = rows_of(pair.b, head * head_rows, latent.qk_nope_head_dim, rank);
    as_a.is_transposed = as_b.is_transposed = true;
    planned_.push_back({made, as_a, as_b});
    made.tensor.role = TensorRole::kVUp;
    made.n_rows = latent.value_dim;
    made.n_cols = latent.rank;
    const uint64_t first = head * head_rows + latent.qk_nope_head_dim;
    planned_.push_back({made, whole_a, rows_of(pair.b, first, latent.value_dim, rank)});
  }
  return {};
}

Result<void> PairPlan::add_saved(TensorId target, size_t tensor) {
  const TensorInfo& info = file_.tensors()[tensor];
  if (info.shape != Shape{model_.n_vocab, model_.model_dim}) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("tensor {} has the shape [{}], but the model has [{}, {}]: the adapter "
                            "was made for another model",
                            quoted(info.name), fmt::join(info.shape, ", "), model_.n_vocab,
                            model_.model_dim));
  }
  if (!is_float(info.type)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor {} is of type {}, expected f32, f16 or bf16", quoted(info.name),
                            name_of(info.type)));
  }
  saved_.push_back({.tensor = {.tensor = target, .type = info.type}, .in_file = tensor});
  return {};
}

// A saved tensor is the whole change of its matrix. PEFT never adds a pair to a saved module.
Result<void> PairPlan::check_saved() const {
  for (const Saved& saved : saved_) {
    const TensorId id = saved.tensor.tensor;
    const auto is_of_id = [&](const Planned& planned) { return planned.pair.tensor == id; };
    if (std::ranges::any_of(planned_, is_of_id)) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("tensor {} replaces '{}', which a pair changes too, expected only one "
                      "of them",
                      quoted(file_.tensors()[saved.in_file].name), name_of(id)));
    }
    const auto of_id = [&](const Saved& other) { return other.tensor.tensor == id; };
    if (std::ranges::count_if(saved_, of_id) > 1) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("two tensors replace '{}', expected one", name_of(id)));
    }
  }
  return {};
}

Result<std::unique_ptr<AdapterSource>> PairPlan::finish(std::unique_ptr<ModelSource> file,
                                                        std::string label, std::string base_name) {
  if (planned_.empty() && saved_.empty()) {
    return fail(ErrorCode::kCorrupt, "there is no pair of matrices, expected at least one");
  }
  const auto place = [](const Planned& planned) {
    return std::pair(planned.pair.tensor, planned.pair.part);
  };
  std::ranges::sort(planned_, {}, place);
  const auto twice = std::ranges::adjacent_find(planned_, {}, place);
  if (twice != planned_.end()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("two pairs change '{}', expected one", name_of(twice->pair.tensor)));
  }
  TRY(check_saved());
  return std::make_unique<Source>(std::move(file), std::move(label), std::move(base_name),
                                  std::move(planned_), std::move(saved_));
}

}  // namespace kvik
