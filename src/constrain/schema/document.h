#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/json/json.h"
#include "base/result.h"

namespace kvik::constrain {

// Where keywords mean different things. Others are as in the next one.
enum class Draft : uint8_t { k4, k6, k7, k2019, k2020 };

// A schema with all that it can refer to. Immutable.
class SchemaDocument {
 public:
  // Errors: a dialect that is not known.
  static Result<SchemaDocument> make(const Json& root);

  Draft draft() const { return draft_; }
  const Json& root() const { return *root_; }
  // What `reference`, found in `from`, refers to. Errors: nothing is there, or it lies elsewhere.
  Result<const Json*> resolve(const Json& from, std::string_view reference) const;
  // The schema with that $dynamicAnchor; an error where there are several, as which one is meant
  // would hang on the way there.
  Result<const Json*> resolve_dynamic(const Json& from, std::string_view reference) const;
  // True where the schema in `from` refers to itself through a $recursiveAnchor.
  bool has_recursive_anchor() const { return n_recursive_anchors_ > 0; }
  // The whole document has such a keyword somewhere.
  bool mentions_unevaluated() const { return mentions_unevaluated_; }
  // As a JSON pointer behind #, for people.
  std::string path_of(const Json& schema) const;

 private:
  explicit SchemaDocument(const Json& root) : root_(&root) {}
  void index(const Json& value, const std::string& base, bool is_schema);
  void index_names(const Json& value, std::string& base);

  const Json* root_;
  Draft draft_ = Draft::k2020;
  std::unordered_map<const Json*, std::string> bases_;  // of schemas
  std::unordered_map<std::string, const Json*>
      by_address_;  // without a fragment, or with an anchor
  std::unordered_map<std::string, int> dynamic_anchors_;
  int n_recursive_anchors_ = 0;
  bool mentions_unevaluated_ = false;
};

}  // namespace kvik::constrain
