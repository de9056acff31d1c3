#include "constrain/schema/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace kvik::constrain {
namespace {

struct Dialect {
  std::string_view address;  // a part of the schema's URI
  Draft draft;
};
constexpr std::array kDialects = std::to_array<Dialect>({
    {"json-schema.org/draft-04/", Draft::k4},
    {"json-schema.org/draft-06/", Draft::k6},
    {"json-schema.org/draft-07/", Draft::k7},
    {"json-schema.org/draft/2019-09/", Draft::k2019},
    {"json-schema.org/draft/2020-12/", Draft::k2020},
    {"json-schema.org/schema", Draft::k2020},  // the newest draft
    {"spec.openapis.org/oas/3.1/",
     Draft::k2020},  // its additional keywords do not constrain values
});

// A parsed URI: scheme://authority, and path. A query is part of the path.
struct Address {
  std::string origin;
  std::string path;
};

Address split_address(std::string_view text) {
  const size_t colon = text.find_first_of(":/?#");
  if (colon == std::string_view::npos || text[colon] != ':') return {"", std::string(text)};
  if (text.substr(colon).starts_with("://")) {
    const size_t slash = std::min(text.find('/', colon + 3), text.size());
    return {std::string(text.substr(0, slash)), std::string(text.substr(slash))};
  }
  return {std::string(text.substr(0, colon + 1)), std::string(text.substr(colon + 1))};
}

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  size_t at = 0;
  while (at <= path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    const bool last = end == path.size();
    if (part == "..") {
      if (parts.size() > 1) parts.pop_back();
      if (last) parts.push_back("");
    } else if (part != "." || last) {
      parts.push_back(part == "." ? "" : part);
    }
    at = end + 1;
  }
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined.push_back('/');
    joined += parts[i];
  }
  return joined;
}

// Resolves a reference (RFC 3986, section 5.2) as far as schemas need it.
std::string join_address(const std::string& base, std::string_view reference) {
  if (reference.empty()) return base;
  const Address other = split_address(reference);
  if (!other.origin.empty()) return std::string(reference);
  const Address own = split_address(base);
  if (other.path.starts_with('/')) return fmt::format("{}{}", own.origin, without_dots(other.path));
  const bool is_name = own.origin.starts_with("urn:");
  const size_t slash = own.path.rfind('/');
  if (is_name || slash == std::string::npos) return fmt::format("{}{}", own.origin, other.path);
  const std::string folder = own.path.substr(0, slash + 1);
  return fmt::format("{}{}", own.origin, without_dots(fmt::format("{}{}", folder, other.path)));
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      const auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
      if (error == std::errc() && end == text.data() + i + 3) {
        decoded.push_back(static_cast<char>(byte));
        i += 2;
        continue;
      }
    }
    decoded.push_back(text[i]);
  }
  return decoded;
}

std::string pointer_part(std::string_view part) {
  std::string name;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size()) {
      name.push_back(part[++i] == '1' ? '/' : '~');
    } else {
      name.push_back(part[i]);
    }
  }
  return name;
}

const Json* follow_pointer(const Json& root, std::string_view pointer) {
  const Json* at = &root;
  while (at && !pointer.empty()) {
    pointer.remove_prefix(1);
    const size_t end = std::min(pointer.find('/'), pointer.size());
    const std::string name = pointer_part(pointer.substr(0, end));
    pointer.remove_prefix(end);
    if (at->is(Json::Kind::kArray)) {
      size_t i = 0;
      const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), i);
      const bool whole = error == std::errc() && stop == name.data() + name.size();
      at = whole && i < at->size() ? &(*at)[i] : nullptr;
    } else {
      at = at->find(name);
    }
  }
  return at;
}

const std::string* text_of(const Json& schema, std::string_view keyword) {
  const Json* found = schema.find(keyword);
  return found && found->is(Json::Kind::kString) ? &found->text() : nullptr;
}

bool holds_schemas_by_name(std::string_view keyword) {
  return keyword == "properties" || keyword == "patternProperties" || keyword == "definitions" ||
         keyword == "$defs" || keyword == "dependentSchemas" || keyword == "dependencies";
}

bool holds_data(std::string_view keyword) {
  return keyword == "enum" || keyword == "const" || keyword == "default" || keyword == "examples" ||
         keyword == "example";
}

}  // namespace

Result<SchemaDocument> SchemaDocument::make(const Json& root) {
  SchemaDocument made(root);
  if (const std::string* dialect = text_of(root, "$schema")) {
    const auto found = std::ranges::find_if(
        kDialects, [&](const Dialect& known) { return dialect->contains(known.address); });
    if (found == kDialects.end()) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("#/$schema: {:.80} is not known; expected draft 4, 6, 7, 2019-09 or "
                              "2020-12",
                              *dialect));
    }
    made.draft_ = found->draft;
  }
  made.by_address_[""] = &root;
  made.index(root, "", true);
  return made;
}

void SchemaDocument::index(const Json& value, const std::string& base, bool is_schema) {
  std::string here = base;
  if (is_schema && value.is(Json::Kind::kObject)) {
    index_names(value, here);
    bases_[&value] = here;
  }
  for (const Json& item : value.list()) index(item, here, true);
  for (const auto& [name, member] : value.fields()) {
    if (is_schema && holds_data(name)) continue;
    const bool names_follow =
        is_schema && holds_schemas_by_name(name) && member.is(Json::Kind::kObject);
    index(member, here, !names_follow);
  }
}

void SchemaDocument::index_names(const Json& value, std::string& base) {
  const bool alone = draft_ <= Draft::k7 && value.find("$ref") != nullptr;
  const std::string* id = text_of(value, "$id");
  if (!id && draft_ <= Draft::k4) id = text_of(value, "id");
  if (id && !alone) {
    const size_t hash = std::min(id->find('#'), id->size());
    if (hash > 0) {
      base = join_address(base, std::string_view(*id).substr(0, hash));
      by_address_.try_emplace(base, &value);
    }
    if (hash + 1 < id->size()) {
      by_address_.try_emplace(fmt::format("{}#{}", base, id->substr(hash + 1)), &value);
    }
  }
  if (const std::string* anchor = text_of(value, "$anchor")) {
    by_address_.try_emplace(fmt::format("{}#{}", base, *anchor), &value);
  }
  if (const std::string* anchor = text_of(value, "$dynamicAnchor")) {
    by_address_.try_emplace(fmt::format("{}#{}", base, *anchor), &value);
    ++dynamic_anchors_[*anchor];
  }
  if (const Json* anchor = value.find("$recursiveAnchor")) {
    n_recursive_anchors_ += anchor->is(Json::Kind::kTrue) ? 1 : 0;
  }
  mentions_unevaluated_ |= value.find("unevaluatedProperties") || value.find("unevaluatedItems");
}

Result<const Json*> SchemaDocument::resolve(const Json& from, std::string_view reference) const {
  const size_t hash = std::min(reference.find('#'), reference.size());
  const auto base = bases_.find(&from);
  const std::string address =
      join_address(base == bases_.end() ? "" : base->second, reference.substr(0, hash));
  const std::string fragment =
      hash < reference.size() ? percent_decoded(reference.substr(hash + 1)) : "";
  const auto missing = [&] {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}/$ref: {} is not in this schema; expected a part of it",
                            path_of(from), reference));
  };
  if (!fragment.empty() && !fragment.starts_with('/')) {
    const auto anchored = by_address_.find(fmt::format("{}#{}", address, fragment));
    if (anchored == by_address_.end()) return missing();
    return anchored->second;
  }
  const auto found = by_address_.find(address);
  if (found == by_address_.end()) return missing();
  const Json* target = follow_pointer(*found->second, fragment);
  if (!target) return missing();
  return target;
}

Result<const Json*> SchemaDocument::resolve_dynamic(const Json& from,
                                                    std::string_view reference) const {
  const size_t hash = std::min(reference.find('#'), reference.size());
  const std::string name = hash < reference.size() ? std::string(reference.substr(hash + 1)) : "";
  const auto anchors = dynamic_anchors_.find(name);
  if (anchors != dynamic_anchors_.end() && anchors->second > 1) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}/$dynamicRef: several schemas have the $dynamicAnchor {}; expected "
                            "one",
                            path_of(from), name));
  }
  return resolve(from, reference);
}

std::string SchemaDocument::path_of(const Json& schema) const {
  struct Place {
    const Json* value;
    std::string path;
  };
  std::vector<Place> left = {{root_, "#"}};
  while (!left.empty()) {
    const Place at = std::move(left.back());
    left.pop_back();
    if (at.value == &schema) return at.path;
    for (size_t i = 0; i < at.value->list().size(); ++i) {
      left.push_back({&at.value->list()[i], fmt::format("{}/{}", at.path, i)});
    }
    for (const auto& [name, member] : at.value->fields()) {
      left.push_back({&member, fmt::format("{}/{}", at.path, name)});
    }
  }
  return "#";
}

}  // namespace kvik::constrain
