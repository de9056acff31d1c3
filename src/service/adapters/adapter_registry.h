#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "service/service_api.h"

namespace kvik {

class Adapter;

// The description of an adapter that clients receive.
struct AdapterCard {
  std::string name;
  std::string path;
  float scale = 1.0f;
  uint64_t created_s = 0;  // Unix time at which the name was added
  struct Loaded {
    uint64_t bytes = 0;
    uint32_t rank = 0;  // largest rank of its pairs
    uint32_t n_pairs = 0;
    std::string digest;
  };
  std::optional<Loaded> loaded;  // absent: not in memory
};

// The origin of a request to add an adapter. The operator's command line may name any path.
enum class AdapterOrigin : uint8_t { kOperator, kClient };

// The adapters of a model, by name. An adapter is read at its first use. If another one needs the
// memory, the least recently used adapters are unloaded; their names remain. Any thread.
class AdapterRegistry {
 public:
  virtual ~AdapterRegistry() = default;

  virtual std::vector<AdapterCard> list() const = 0;  // sorted by name
  virtual bool has(std::string_view name) const = 0;
  virtual bool is_loaded(std::string_view name) const = 0;

  // Returns the adapter, which stays in memory while a reference to it exists. May read from disk.
  // Errors: kNotFound for an unknown name, kExhausted if the adapters in use leave no memory for
  // it, and those of the file.
  virtual Result<std::shared_ptr<const Adapter>> take(std::string_view name) = 0;

  // Adds the adapter "PATH[:SCALE]" under a name and loads it. Errors: kInvalidArgument for a name
  // that is invalid or in use, or for a path that clients may not name; those of take().
  virtual Result<AdapterCard> add(const std::string& name, const std::string& spec,
                                  AdapterOrigin origin) = 0;
  // Removes a name. Existing references to the adapter stay valid. Errors: kNotFound.
  virtual Result<void> remove(std::string_view name) = 0;
};

// Returns the name of the adapter that `model` means, as "NAME" or "MODEL:NAME", if the book has
// it. Returns nullopt for a name of the model itself, and if `book` is null.
std::optional<std::string> adapter_name(const AdapterRegistry* book, const ModelCard& card,
                                        std::string_view model);

}  // namespace kvik
