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

// What clients are told of an adapter.
struct AdapterCard {
  std::string name;
  std::string path;
  float scale = 1.0f;
  uint64_t created_s = 0;  // Unix time at which it got its name
  struct Loaded {
    uint64_t bytes = 0;
    uint32_t rank = 0;  // the highest
    uint32_t n_pairs = 0;
    std::string digest;
  };
  std::optional<Loaded> loaded;  // absent where it is on its disk alone
};

// Who asks for an adapter to be added: the operator's command line may name any path.
enum class AdapterOrigin : uint8_t { kOperator, kClient };

// The adapters that a model answers with besides itself, by name. They are read when they are first
// asked for, and leave memory, the least recently used first, where another one needs the room;
// their names stay. Any thread.
class AdapterBook {
 public:
  virtual ~AdapterBook() = default;

  virtual std::vector<AdapterCard> list() const = 0;  // by name
  virtual bool has(std::string_view name) const = 0;
  virtual bool is_loaded(std::string_view name) const = 0;

  // The adapter, which stays as long as somebody holds it. May read from a disk. Errors: kNotFound
  // for no such name, kExhausted where those in use leave no room, and those of the file.
  virtual Result<std::shared_ptr<const Adapter>> take(std::string_view name) = 0;

  // Gives a name to "PATH[:SCALE]" and reads it. Errors: kInvalidArgument for a name that cannot be
  // or is there already, a path that clients may not name; those of take().
  virtual Result<AdapterCard> add(const std::string& name, const std::string& spec,
                                  AdapterOrigin origin) = 0;
  // The name is free again; whoever holds the adapter keeps it. Error: kNotFound.
  virtual Result<void> remove(std::string_view name) = 0;
};

// The adapter that "NAME" or "MODEL:NAME" means, where the book has it; nothing for a name of the
// model itself, or where there is no book.
std::optional<std::string> adapter_name(const AdapterBook* book, const ModelCard& card,
                                        std::string_view model);

}  // namespace kvik
