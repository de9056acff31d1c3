#include "main/cache/served_session.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <chrono>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/text/percent_encoding.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kUnescaped = "-._~";
constexpr std::chrono::seconds kAnswerTime{30};

std::optional<uint32_t> number(const json::value* value) {
  if (!value || !value->is_int64()) return std::nullopt;
  const int64_t n = value->get_int64();
  if (n < 0 || n > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(n);
}

std::string text(const json::value* value) {
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::optional<ServedSession> parse(std::string_view body) {
  std::error_code failed;
  const json::value parsed = json::parse(body, failed);
  const json::object* const object = failed ? nullptr : parsed.if_object();
  if (!object) return std::nullopt;
  const auto n_prompt = number(object->if_contains("prompt_tokens"));
  const auto kv_type = kv_type_from_name(text(object->if_contains("kv_type")));
  const json::value* const tokens = object->if_contains("tokens");
  if (!n_prompt || !kv_type || !tokens || !tokens->is_array()) return std::nullopt;
  ServedSession session{.weights_digest = text(object->if_contains("weights_digest")),
                        .kv_type = *kv_type,
                        .tokens = {},
                        .prompt_tokens = *n_prompt};
  for (const json::value& each : tokens->get_array()) {
    const auto id = number(&each);
    if (!id) return std::nullopt;
    session.tokens.push_back(*id);
  }
  const bool is_whole = *n_prompt > 0 && *n_prompt <= session.tokens.size();
  return is_whole ? std::optional(std::move(session)) : std::nullopt;
}

}  // namespace

Result<ServedSession> read_session(const HttpClient& client, const SessionQuery& query) {
  std::string path = fmt::format("/kvik/sessions/{}", percent_encoded(query.id, kUnescaped));
  char before = '?';
  const auto add = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    path += fmt::format("{}{}={}", before, name, percent_encoded(value, kUnescaped));
    before = '&';
  };
  add("cache_salt", query.cache_salt);
  add("model", query.model);
  TRY_ASSIGN(const HttpAnswer answer, client.get(path, kAnswerTime));
  if (answer.status != 200) return std::unexpected<Error>(error_of(answer));
  auto session = parse(answer.body);
  if (session) return std::move(*session);
  return fail(ErrorCode::kCorrupt,
              fmt::format("{} is not a server that Kvik knows: its /kvik/sessions/ID has no tokens",
                          client.url().text()));
}

}  // namespace kvik
