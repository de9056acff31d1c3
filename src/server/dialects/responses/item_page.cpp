#include "server/dialects/responses/item_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "server/dialects/json_fields.h"
#include "server/http/http_message.h"

namespace kvik {
namespace {

namespace json = boost::json;

Result<size_t> read_limit(std::string_view query) {
  constexpr size_t kDefault = 20, kMost = 100;
  const std::string text = query_value(query, "limit");
  if (text.empty()) return kDefault;
  size_t limit = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), limit);
  const bool is_number = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (is_number && limit >= 1 && limit <= kMost) return limit;
  return refuse("limit", fmt::format("limit must be an integer from 1 to {}", kMost));
}

// Returns an item as shown to clients: the parts of a message are expanded.
json::object shown(const json::value& item, size_t place) {
  json::object out = item.is_object() ? item.get_object() : json::object();
  if (text_at(out, "id").empty()) out["id"] = fmt::format("item_{}", place);
  if (text_at(out, "type").empty()) out["type"] = "message";
  const json::value* content = out.if_contains("content");
  if (content && content->is_string()) {
    const bool is_answer = text_at(out, "role") == "assistant";
    const json::object part{{"type", is_answer ? "output_text" : "input_text"}, {"text", *content}};
    out["content"] = json::array{part};
  }
  return out;
}

}  // namespace

Result<json::object> item_page(const json::array& items, std::string_view query) {
  TRY_ASSIGN(const size_t limit, read_limit(query));
  std::string order = query_value(query, "order");
  if (order.empty()) order = "desc";
  if (order != "asc" && order != "desc") return refuse("order", "order must be asc or desc");
  std::vector<json::object> all;
  for (const json::value& item : items) all.push_back(shown(item, all.size()));
  if (order == "desc") std::ranges::reverse(all);
  size_t begin = 0;
  if (const std::string after = query_value(query, "after"); !after.empty()) {
    const auto found = std::ranges::find_if(
        all, [&](const json::object& item) { return text_at(item, "id") == after; });
    if (found == all.end())
      return refuse("after", "after is not the id of an item of this response");
    begin = static_cast<size_t>(found - all.begin()) + 1;
  }
  const size_t end = std::min(begin + limit, all.size());
  json::array data;
  for (size_t i = begin; i < end; ++i) data.emplace_back(all[i]);
  json::object out{{"object", "list"}, {"has_more", end < all.size()}};
  out["first_id"] = data.empty() ? json::value(nullptr) : data.front().at("id");
  out["last_id"] = data.empty() ? json::value(nullptr) : data.back().at("id");
  out["data"] = std::move(data);
  return out;
}

}  // namespace kvik
