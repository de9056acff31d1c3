#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/json/json.h"
#include "base/result.h"

namespace kvik::constrain {

// The drafts in which keywords have different meanings. A draft that is not listed is treated like
// the next later one.
enum class Draft : uint8_t { k4, k6, k7, k2019, k2020 };

// A JSON Schema document with an index of everything in it that references can reach. Immutable;
// `root` is borrowed.
class SchemaDocument {
 public:
  // Indexes a schema. Error: the dialect is not known.
  static Result<SchemaDocument> make(const Json& root);

  Draft draft() const { return draft_; }
  const Json& root() const { return *root_; }
  // Returns the target of `reference`, which occurs in the schema `from`. Errors: the target does
  // not exist or is in another document.
  Result<const Json*> resolve(const Json& from, std::string_view reference) const;
  // Returns the schema with the $dynamicAnchor that `reference` names. Error: there are several,
  // and which one applies depends on the path of evaluation.
  Result<const Json*> resolve_dynamic(const Json& from, std::string_view reference) const;
  // Returns whether the document has a $recursiveAnchor.
  bool has_recursive_anchor() const { return n_recursive_anchors_ > 0; }
  // Returns whether the document has a keyword unevaluatedProperties or unevaluatedItems.
  bool mentions_unevaluated() const { return mentions_unevaluated_; }
  // Returns "#" and the JSON pointer of a schema, for messages.
  std::string path_of(const Json& schema) const;

 private:
  explicit SchemaDocument(const Json& root) : root_(&root) {}
  void index(const Json& value, const std::string& base, bool is_schema);
  void index_names(const Json& value, std::string& base);

  const Json* root_;
  Draft draft_ = Draft::k2020;
  std::unordered_map<const Json*, std::string> bases_;  // base URIs of the schemas
  std::unordered_map<std::string, const Json*>
      by_address_;  // schemas by URI, without a fragment or with an anchor
  std::unordered_map<std::string, int> dynamic_anchors_;
  int n_recursive_anchors_ = 0;
  bool mentions_unevaluated_ = false;
};

}  // namespace kvik::constrain
