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
#include "service/adapters/adapter_book.h"

namespace kvik {

struct AdapterOptions {
  std::vector<std::string> named = {};  // "NAME=PATH[:SCALE]"
  uint64_t budget_bytes = uint64_t{1} << 30;
  std::string folder = {};  // what clients may load lies below it; empty: nothing
};

// The adapters of one model on disks and in memory. What is in memory, or still held by a request
// though its name is gone, never comes to more than the budget.
class AdapterShelf final : public AdapterBook {
 public:
  // Model and backend are borrowed; the backend outlives whoever holds an adapter.
  AdapterShelf(const BaseModel& base, const AdapterOptions& options)
      : model_(base.model), backend_(base.backend), model_spec_(base.spec), options_(options) {}

  // Adds those that the options name. Errors: of add(), and kInvalidArgument for what is no
  // NAME=PATH.
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
    uint64_t number = 0;  // of the naming: a name may be given again
    uint64_t last_used = 0;
    std::shared_ptr<const Adapter> adapter;  // null: not in memory
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
  // Of all adapters that somebody holds. Outlives the shelf, as they may.
  const std::shared_ptr<std::atomic<uint64_t>> held_bytes_ =
      std::make_shared<std::atomic<uint64_t>>(0);

  Mutex loading_ ACQUIRED_BEFORE(mutex_);  // one is read at a time, so that the room stays made
  mutable Mutex mutex_;
  Entries entries_ GUARDED_BY(mutex_);
  uint64_t uses_ GUARDED_BY(mutex_) = 0;
  uint64_t namings_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvik
