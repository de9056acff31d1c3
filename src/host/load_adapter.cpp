#include "host/load_adapter.h"

#include "format/adapter/adapter_source.h"
#include "host/load_model.h"

namespace kvik {

Result<std::unique_ptr<Adapter>> load_adapter(AdapterSource& source, const BaseModel& base) {
  std::unique_ptr<ModelSource> weights;
  if (needs_base(source)) {
    TRY_ASSIGN(weights, open_model(base.spec));
  }
  return Adapter::load(source, base.model, base.backend, weights.get());
}

Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& spec,
                                                    const BaseModel& base) {
  TRY_ASSIGN(const AdapterSpec parsed, parse_adapter_spec(spec));
  TRY_ASSIGN(const auto source, open_adapter(parsed.path, base.model.config(), parsed.scale));
  TRY_ASSIGN(auto adapter, load_adapter(*source, base));
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

}  // namespace kvik
