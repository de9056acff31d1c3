#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "host/models/model_manager.h"
#include "main/flags.h"

namespace kvik {

// The flags of `kvik serve` for several models, or for one that is unloaded while it is idle.
struct RouterOptions {
  std::vector<std::string> more_models;  // further MODEL arguments
  std::string folder;                    // --models; empty: none
  std::optional<uint64_t> memory_bytes;  // --memory; absent: nine tenths of what is available
  // Time after its last use until a model is unloaded; std::nullopt: until memory is needed.
  std::optional<Duration> keep_alive = std::chrono::minutes(5);
  bool has_keep_alive = false;  // the flag was given
  std::string warm_cache = "on";

  void add_to(Flags& flags);

  // Returns whether the options name models. If neither they nor MODEL do, all stored models are
  // served.
  bool name_models(const std::vector<ModelSection>& sections) const;

  // Returns whether models are served by processes of their own.
  bool is_wanted(const std::vector<ModelSection>& sections) const {
    return !more_models.empty() || !folder.empty() || has_keep_alive || !sections.empty();
  }
};

// A model of the router, and the flags that differ from those of the others.
struct RouterModel {
  ModelSpec spec;
  std::vector<GivenFlag> flags;  // names as Flags::long_name()
};

// A model of the command line, or a stored one.
struct NamedModel {
  std::string path;
  std::string name;  // for clients; empty: model_id(path)
};

// Selects what a section without a path is if no other model has its name.
enum class UnmatchedSection { kError, kIgnored };

// Returns the models of the command line (`first`, and those of the options), of --models and of
// the config file. A section extends the model of its name, or adds the one of its `path`. Stored
// names are resolved. Errors: kInvalidArgument (a name occurs twice, an unknown flag, or a section
// or no models where they are errors), kNotFound.
Result<std::vector<RouterModel>> router_models(std::vector<NamedModel> first,
                                               const RouterOptions& options,
                                               const std::vector<ModelSection>& sections,
                                               const Flags& flags, UnmatchedSection unmatched);

// Returns the arguments of a model's server: the flags given for all models, without those of the
// router itself, and those of this model instead of the same ones.
std::vector<std::string> server_arguments(const std::vector<GivenFlag>& for_all,
                                          const RouterModel& model);

}  // namespace kvik
