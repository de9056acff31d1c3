#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/json/json.h"
#include "base/result.h"

namespace kvik::constrain {

// Drafts in which keywords have different meanings. Others are like the next one.
enum class Draft : uint8_t { k4, k6, k7, k2019, k2020 };

// A schema with everything that it can refer to. Immutable.
class SchemaDocument {
 public:
  // Errors: an unknown dialect.
  static Result<SchemaDocument> make(const Json& root);

  Draft draft() const { return draft_; }
  const Json& root() const { return *root_; }
  // Returns the target of `reference` in `from`. Errors: there is none, or it is in another
  // document.
  Result<const Json*> resolve(const Json& from, std::string_view reference) const;
  // Returns the schema with that $dynamicAnchor. Errors: there are several, because the right one
  // depends on the path.
  Result<const Json*> resolve_dynamic(const Json& from, std::string_view reference) const;
  // Returns whether the schema in `from` refers to itself through a $recursiveAnchor.
  bool has_recursive_anchor() const { return n_recursive_anchors_ > 0; }
  // Returns whether the document has such a keyword.
  bool mentions_unevaluated() const { return mentions_unevaluated_; }
  // Returns a JSON pointer after #, for messages.
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
