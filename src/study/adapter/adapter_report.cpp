#include "study/adapter/adapter_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/printable.h"
#include "base/quantity.h"
#include "format/adapter/adapter_source.h"
#include "format/source_config.h"
#include "host/load_model.h"
#include "model/adapter.h"

namespace kvik {
namespace {

// A summary of the changed tensors with one role.
struct Changed {
  std::set<uint32_t> layers;
  uint32_t min_rank = UINT32_MAX, max_rank = 0;
  float min_scale = 0, max_scale = 0;
  uint64_t n_pairs = 0, n_values = 0;

  void add(const AdapterPair& pair) {
    min_scale = n_pairs == 0 ? pair.scale : std::min(min_scale, pair.scale);
    max_scale = n_pairs == 0 ? pair.scale : std::max(max_scale, pair.scale);
    min_rank = std::min(min_rank, pair.rank);
    max_rank = std::max(max_rank, pair.rank);
    layers.insert(pair.tensor.layer);
    n_values += pair.rank * (pair.n_rows + pair.n_cols);
    ++n_pairs;
  }
};

// Returns the role in a tensor's name: "attn_q" for "blk.3.attn_q.weight".
std::string role_name(TensorId tensor) {
  std::string name = name_of(tensor);
  if (is_of_layer(tensor.role)) name = name.substr(name.find('.', 4) + 1);
  return name.substr(0, name.rfind('.'));
}

template <class T>
std::string range(T least, T most) {
  return least == most ? fmt::format("{}", least) : fmt::format("{}–{}", least, most);
}

}  // namespace

Result<std::string> adapter_report(const std::string& model, const std::string& adapter) {
  TRY_ASSIGN(const auto base, open_model(model));
  TRY_ASSIGN(const ModelConfig config, config_of(*base));
  TRY_ASSIGN(const AdapterSpec spec, parse_adapter_spec(adapter));
  TRY_ASSIGN(const auto source, open_adapter(spec.path, config, spec.scale));
  TRY_ASSIGN(const auto backend, make_backend({.model = model}));
  std::string saved;
  for (const SavedTensor& whole : source->saved()) {
    saved += fmt::format("{} is saved whole: the adapter can be merged, not served\n",
                         name_of(whole.tensor));
  }
  std::map<TensorRole, Changed> by_role;
  Changed all;
  bool leaves_kv = true;
  for (const AdapterPair& pair : source->pairs()) {
    by_role[pair.tensor.role].add(pair);
    all.add(pair);
    leaves_kv = leaves_kv && keeps_kv_unchanged(pair.tensor, config);
  }
  std::string out = fmt::format(
      "adapter {} of {}\nmade for {}\n{} pairs of rank {}, {} parameters, {} in memory\n",
      printable(spec.path), printable(model),
      source->base_name().empty() ? "a model that it does not name"
                                  : printable(source->base_name()),
      all.n_pairs, all.n_pairs == 0 ? "0" : range(all.min_rank, all.max_rank), all.n_values,
      format_bytes(Adapter::bytes_of(*source, config, *backend)));
  out += saved;
  out +=
      fmt::format("{:<16}{:>8}{:>8}{:>10}{:>12}\n", "tensor", "layers", "pairs", "rank", "scale");
  for (const auto& [role, changed] : by_role) {
    out += fmt::format("{:<16}{:>8}{:>8}{:>10}{:>12}\n", role_name({role, 0}),
                       is_of_layer(role) ? fmt::format("{}", changed.layers.size()) : "-",
                       changed.n_pairs, range(changed.min_rank, changed.max_rank),
                       range(changed.min_scale, changed.max_scale));
  }
  const bool has_state = config.has_state();
  if (leaves_kv) {
    out += fmt::format("it leaves K and V{} as they are: its pages are the model's\n",
                       has_state ? " and the states" : "");
  } else {
    out += fmt::format("it changes K or V{}: its pages are its own\n",
                       has_state ? " or the states" : "");
  }
  return out;
}

}  // namespace kvik
