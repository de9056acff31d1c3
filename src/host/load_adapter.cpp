#include "host/load_adapter.h"

#include "format/adapter/adapter_source.h"

namespace kvik {

Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& spec, const Model& model,
                                                    Backend& backend) {
  TRY_ASSIGN(const AdapterSpec parsed, parse_adapter_spec(spec));
  TRY_ASSIGN(const auto source, open_adapter(parsed.path, model.config(), parsed.scale));
  TRY_ASSIGN(auto adapter, Adapter::load(*source, model, backend));
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

}  // namespace kvik
