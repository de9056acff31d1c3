#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/mutex.h"
#include "format/adapter/adapter_source.h"
#include "host/load_adapter.h"
#include "model/model.h"
#include "service/adapters/adapter_registry.h"

namespace kvik {

struct AdapterOptions {
  std::vector<std::string> named = {};  // "NAME=PATH[:SCALE]"
  uint64_t budget_bytes = uint64_t{1} << 30;
  std::string folder = {};  // folder of the adapters that clients may load; empty: none
};

// The adapters of one model, on disk and in memory. Any thread may call it. The memory of all
// adapters never exceeds the budget; it includes adapters that were removed while requests still
// use them.
class LocalAdapterRegistry final : public AdapterRegistry {
 public:
  // Borrows model and backend; the backend outlives all users of an adapter.
  LocalAdapterRegistry(const BaseModel& base, const AdapterOptions& options)
      : model_(base.model), backend_(base.backend), model_spec_(base.spec), options_(options) {}

  // Adds the adapters of the options. Errors: those of add(), and kInvalidArgument for text that is
  // not NAME=PATH.
  Result<void> add_named();

  std::vector<AdapterCard> list() const override;
  bool has(std::string_view name) const override;
  bool is_loaded(std::string_view name) const override;
  Result<std::shared_ptr<const Adapter>> take(std::string_view name) override;
  Result<AdapterCard> add(const std::string& name, const std::string& spec,
                          AdapterOrigin origin) override;
  Result<void> remove(std::string_view name) override;

  uint64_t held_bytes() const { return held_bytes_->load(); }

 private:
  struct Entry {
    AdapterSpec spec;
    uint64_t created_s = 0;
    uint64_t number = 0;  // distinguishes this entry from earlier ones of the same name
    uint64_t last_used = 0;
    std::shared_ptr<const Adapter> adapter;  // null if the adapter is not in memory
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  Result<std::string> allowed_path(const std::string& path, AdapterOrigin origin) const;
  Result<std::shared_ptr<const Adapter>> load(const std::string& name, const AdapterSpec& spec);
  std::optional<Entry> look_up(std::string_view name);
  Result<void> make_room(const std::string& name, uint64_t n_bytes);
  static AdapterCard card_of(const std::string& name, const Entry& entry);

  const Model& model_;
  Backend& backend_;
  const std::string model_spec_;
  const AdapterOptions options_;
  // Bytes of all adapters in use. Outlives the registry, as adapters may.
  const std::shared_ptr<std::atomic<uint64_t>> held_bytes_ =
      std::make_shared<std::atomic<uint64_t>>(0);

  // Held while an adapter is loaded, so that no other load uses the memory that was freed for it.
  Mutex loading_ ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  Entries entries_ GUARDED_BY(mutex_);
  uint64_t uses_ GUARDED_BY(mutex_) = 0;
  uint64_t n_names_added_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvik
