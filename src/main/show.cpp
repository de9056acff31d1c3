#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "base/printable.h"
#include "base/quantity.h"
#include "catalogue/kv_source.h"
#include "catalogue/model_config.h"
#include "format/source_config.h"
#include "host/load_model.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "model/indexer/index_places.h"
#include "model/open_pages.h"
#include "model/recurrent/state_layout.h"

namespace kvik {
namespace {

// Returns the value that all have, or the smallest and the largest: "2 to 4".
std::string range_of(const std::set<uint32_t>& values) {
  if (values.size() == 1) return fmt::format("{}", *values.begin());
  return fmt::format("{} to {}", *values.begin(), *values.rbegin());
}

// Returns the value of all layers with experts, or the smallest and the largest.
std::string range_of(const ModelConfig& c, uint32_t ExpertsConfig::*size) {
  std::set<uint32_t> values;
  for (const LayerConfig& layer : c.layers) {
    if (const ExpertsConfig* experts = layer.experts()) values.insert(experts->*size);
  }
  return range_of(values);
}

// Returns the number of query heads of all layers with attention, or the smallest and the largest.
std::string query_heads(const ModelConfig& c) {
  std::set<uint32_t> values;
  for (const LayerConfig& layer : std::span(c.layers).first(c.n_layers)) {
    if (layer.if_attention()) values.insert(layer.attention().n_heads);
  }
  return range_of(values);
}

void show_indexers(const ModelConfig& c) {
  uint32_t n_layers = 0;
  IndexerConfig indexer;
  for (const LayerConfig& layer : std::span(c.layers).first(c.n_layers)) {
    if (!layer.if_attention() || layer.attention().indexer.n_top == 0) continue;
    ++n_layers;
    indexer = layer.attention().indexer;
  }
  if (n_layers == 0) return;
  if (indexer.is_per_head()) {
    streams::print(
        "  attention to {} blocks of {} tokens in {} layers, selected for each KV head by one of "
        "{} heads of {}\n",
        indexer.n_top, indexer.block_tokens, n_layers, indexer.n_heads, indexer.head_dim);
    return;
  }
  const std::string blocks =
      indexer.has_block_keys() ? fmt::format(" in blocks of {}", indexer.key_tokens) : "";
  streams::print("  attention to {} tokens{}, selected by {} heads of {}\n", indexer.n_top, blocks,
                 indexer.n_heads, indexer.head_dim);
}

void show_geometry(const ModelConfig& c) {
  streams::print("geometry\n");
  streams::print("  layers {}, width {}, MLP {}, vocabulary {}, trained context {}\n", c.n_layers,
                 c.model_dim, c.ffn_dim, c.n_vocab, c.n_ctx_train);
  const LatentConfig& latent = c.attention().latent;
  if (latent.rank) {
    streams::print("  query heads {} of {}, {} of them turn; latent K and V of width {}\n",
                   query_heads(c), latent.q_dim(), latent.qk_rope_head_dim, latent.rank);
  } else {
    streams::print("  query heads {}, KV heads {}, head width {}{}\n", query_heads(c),
                   c.attention().n_kv_heads, c.attention().head_dim,
                   c.attention().joint.exists() ? "; one vector is K and V" : "");
  }
  show_indexers(c);
  const RopeConfig& rope = c.ropes.front();
  if (rope.n_dims > 0 && (!c.encoder || c.attention().has_rope)) {
    streams::print(
        "  rope base {}, {} dimensions, {}\n", rope.base, rope.n_dims,
        rope.pairing == RopePairing::kInterleaved ? "interleaved pairs" : "half-apart pairs");
  }
  if (std::ranges::any_of(c.layers, &LayerConfig::has_entries) && c.ropes.size() > 1)
    streams::print("  rope base {} in layers without entries\n", c.ropes.back().base);
  uint32_t n_windowed = 0;
  uint32_t window = 0;
  for (const LayerConfig& layer : std::span(c.layers).first(c.n_layers)) {
    if (!layer.if_attention() || layer.attention().window == 0) continue;
    ++n_windowed;
    window = layer.attention().window;
  }
  if (n_windowed > 0)
    streams::print("  sliding window {} in {} of {} layers\n", window, n_windowed, c.n_layers);
}

// Prints how many layers have no RoPE, and how many read the K and V of others.
void show_unlike_layers(const ModelConfig& c) {
  const auto layers = std::span(c.layers).first(c.n_layers);
  const auto n_unrotated = std::ranges::count_if(layers, [](const LayerConfig& layer) {
    return layer.if_attention() && !layer.attention().has_rope;
  });
  if (n_unrotated > 0 && n_unrotated < c.n_attention_layers()) {
    streams::print("  no RoPE in {} of {} layers\n", n_unrotated, c.n_layers);
  }
  const auto shares = [](const LayerConfig& layer) { return kv_source_of(layer).has_value(); };
  const auto n_sharing = std::ranges::count_if(layers, shares);
  if (n_sharing == 0) return;
  const bool are_last = std::ranges::all_of(layers.last(static_cast<size_t>(n_sharing)), shares);
  streams::print("  {} read the K and V of others\n",
                 are_last ? fmt::format("the last {} layers", n_sharing)
                          : fmt::format("{} of {} layers", n_sharing, c.n_layers));
}

// Prints the entries that rows attend to beside their window, for each number of tokens.
void show_entries(const ModelConfig& c) {
  std::map<uint32_t, uint32_t> n_layers;  // by tokens of an entry
  for (const LayerConfig& layer : c.layers) {
    if (layer.has_entries()) ++n_layers[layer.attention().joint.entries.n_tokens];
  }
  for (const auto& [n_tokens, n] : n_layers) {
    const auto with = std::ranges::find_if(c.layers, [&](const LayerConfig& layer) {
      return layer.has_entries() && layer.attention().joint.entries.n_tokens == n_tokens;
    });
    const EntriesConfig& entries = with->attention().joint.entries;
    const std::string how =
        entries.selects() ? fmt::format("{} of them, selected by {} heads of {}", entries.n_top,
                                        entries.n_index_heads, entries.index_dim)
                          : "all of them";
    streams::print("  entries of {} tokens in {} layers: attention to {}\n", n_tokens, n, how);
  }
}

// Prints the differences between layers other than their windows.
void show_kinds(const ModelConfig& c) {
  const AttentionConfig& first = c.attention();
  for (const LayerConfig& layer : c.layers) {
    const AttentionConfig* a = layer.if_attention();
    if (!a || a->latent_dim() > 0 ||
        (a->head_dim == first.head_dim && a->n_kv_heads == first.n_kv_heads))
      continue;
    streams::print("  in layers that see everything: KV heads {}, head width {}\n", a->n_kv_heads,
                   a->head_dim);
    break;
  }
  show_unlike_layers(c);
  show_entries(c);
  if (c.streams) {
    streams::print("  {} residual streams, of which the layers compute one (AltUp)\n",
                   c.streams->n);
  }
  if (c.hyper && c.hyper->sinkhorn) {
    streams::print(
        "  {} residual streams, mixed for each half of a layer by matrices whose rows and columns "
        "sum to 1 ({} iterations)\n",
        c.hyper->n, c.hyper->sinkhorn->n_iterations);
  } else if (c.hyper) {
    streams::print("  {} residual streams, mixed for each half of a layer by maps of rank {}\n",
                   c.hyper->n, c.hyper->rank);
  }
  if (c.ngrams) {
    streams::print("  embeddings of n-grams of 2 to {} tokens before layer {}: {} rows of {}\n",
                   c.ngrams->n_tokens, c.ngrams->layer, c.ngrams->n_rows, c.ngrams->row_dim);
  }
  if (c.per_layer_dim > 0) {
    streams::print("  embeddings of width {} for every layer\n", c.per_layer_dim);
  }
}

void show_features(const ModelConfig& c) {
  show_kinds(c);
  const RopeConfig& rope = c.ropes.front();
  if (rope.position_scale != 1) streams::print("  rope stretched by {}\n", 1 / rope.position_scale);
  if (rope.llama3_scaling.n_ctx_original > 0) {
    streams::print("  rope stretched by {} for long waves\n", rope.llama3_scaling.factor);
  }
  if (c.has_state()) {
    streams::print("  layers with a state {}, {} of it for each sequence\n", c.n_state_layers(),
                   format_bytes(state_layout(c).n_bytes()));
  }
  if (c.encoder) {
    streams::print("  an encoder: attention on both sides, no KV cache{}\n",
                   c.encoder->n_labels > 0
                       ? fmt::format(", a classifier of {}", counted(c.encoder->n_labels, "label"))
                       : "");
  }
  if (c.has_mtp_head) streams::print("  an MTP head, which drafts the tokens after the next one\n");
  const ExpertsConfig* e = c.experts();
  if (!e) return;
  streams::print(
      "  experts {}, {} of them for each token, width {}{}{}\n",
      range_of(c, &ExpertsConfig::n_experts), range_of(c, &ExpertsConfig::n_used),
      range_of(c, &ExpertsConfig::ffn_dim),
      e->latent_dim > 0
          ? fmt::format(", on a latent vector of {}", range_of(c, &ExpertsConfig::latent_dim))
          : "",
      e->shared_ffn_dim     ? fmt::format(", and a shared one of {}", e->shared_ffn_dim)
      : e->parallel_ffn_dim ? fmt::format(", in parallel with an MLP of {}", e->parallel_ffn_dim)
                            : "");
}

// Prints the LoRA adapters of a file and the tokens that choose them.
void show_adapters(const ModelConfig& c, const Tokenizer* tokenizer) {
  if (!c.adapter_switch) return;
  std::vector<std::string> tokens;
  for (const AdapterSwitch::Control& control : c.adapter_switch->controls) {
    const std::string text =
        tokenizer ? printable(tokenizer->piece(control.token, Tokenizer::Special::kShow))
                  : fmt::format("{}", control.token);
    tokens.push_back(control.adapter == 0 ? text + " (none)" : text);
  }
  streams::print("  {} of rank {}, chosen by the tokens {}\n",
                 counted(c.adapter_switch->n_adapters, "LoRA adapter"), c.adapter_switch->rank,
                 fmt::format("{}", fmt::join(tokens, ", ")));
}

void show_tensors(const ModelSource& source) {
  struct Sum {
    uint64_t tensors = 0, elements = 0, bytes = 0;
  };
  std::map<std::string, Sum> by_type;
  Sum all;
  for (const TensorInfo& tensor : source.tensors()) {
    for (Sum* sum : {&by_type[name_of(tensor.type)], &all}) {
      ++sum->tensors;
      sum->elements += tensor.n_elements();
      sum->bytes += tensor.n_bytes;
    }
  }
  streams::print("tensors: {}, {:.3f} G parameters, {}\n", all.tensors,
                 static_cast<double>(all.elements) * 1e-9, format_bytes(all.bytes));
  for (const auto& [type, sum] : by_type) {
    streams::print("  {:<8}{:>6} tensors {:>12} parameters  {}\n", type, sum.tensors, sum.elements,
                   format_bytes(sum.bytes));
  }
}

void show_kv(const ModelConfig& c) {
  if (c.encoder) return;
  streams::print("KV cache, bytes per token\n");
  for (const KvType type : kAllKvTypes) {
    const bool keys_by_channel = keeps_keys_by_channel(c, type);
    uint64_t per_token = 0;
    for (const LayerConfig& layer : c.layers) {
      if (!layer.if_attention()) continue;
      const AttentionConfig& a = layer.attention();
      per_token += index_page_bytes(layer, type) / kPageTokens;
      if (a.shared_kv) continue;
      if (a.joint.entries.exist()) {
        per_token += latent_row_bytes(type, a.latent_dim(), a.head_dim) / a.joint.entries.n_tokens;
      }
      per_token += a.latent_dim() > 0
                       ? latent_row_bytes(type, a.latent_dim(), a.head_dim)
                       : a.n_kv_heads * head_token_bytes(type, a.head_dim, keys_by_channel);
    }
    streams::print("  {:<10}{:>8}  ({} for the trained context)\n", name_of(type), per_token,
                   format_bytes(per_token * c.n_ctx_train));
  }
}

Result<int> show(const std::string& spec) {
  TRY_ASSIGN(const auto source, open_model(spec));
  const Metadata& metadata = source->metadata();
  TRY_ASSIGN(const auto architecture, metadata.get_string("general.architecture"));
  TRY_ASSIGN(const auto name, metadata.get_string("general.name"));
  streams::print("model {}: {}, architecture {}\n", spec, name.value_or("no name"),
                 architecture.value_or("not stated"));
  // Prints everything that can be read, and an error message for each part that cannot.
  const auto config = config_of(*source);
  const auto tokenizer = Tokenizer::from_metadata(metadata);
  if (config) {
    show_geometry(*config);
    show_features(*config);
    show_adapters(*config, tokenizer ? tokenizer->get() : nullptr);
  } else {
    streams::print("geometry: {}\n", config.error().message);
  }
  show_tensors(*source);
  streams::print("tokenizer: {}\n",
                 tokenizer ? (*tokenizer)->describe() : tokenizer.error().message);
  if (config) show_kv(*config);
  return kExitOk;
}

}  // namespace

void add_show(CommandLine& line) {
  auto model = std::make_shared<std::string>();
  Flags flags = line.add("show", "Print geometry, tensors, tokenizer and KV bytes per token",
                         [model] { return finish(show(*model)); });
  flags.add(Flag("MODEL", model.get(),
                 "a .gguf file, a Hugging Face folder, a stored model (kvik list), 'demo' or "
                 "synthetic:PRESET[:TYPE]")
                .is_model()
                .required());
  flags.examples({"kvik show model.gguf", "kvik show hf-folder/"});
}

}  // namespace kvik
