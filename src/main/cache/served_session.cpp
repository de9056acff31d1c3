#include "main/cache/served_session.h"

#include <fmt/format.h>

#include <boost/json/value.hpp>
#include <chrono>
#include <limits>
#include <string_view>

#include "base/json/json_object.h"
#include "base/text/percent_encoding.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kUnescaped = "-._~";
constexpr std::chrono::seconds kAnswerTime{30};

Result<ServedSession> parse(std::string_view body) {
  constexpr std::string_view kRoute = "/kvik/sessions/ID";
  TRY_ASSIGN(const json::value value, parse_json_file(body, kRoute));
  TRY_ASSIGN(const JsonObject answer, JsonObject::of(value, std::string(kRoute)));
  ServedSession session;
  TRY_ASSIGN(session.weights_digest, answer.required_text("weights_digest"));
  TRY_ASSIGN(const std::string name, answer.required_text("kv_type"));
  const auto kv_type = kv_type_from_name(name);
  if (!kv_type) return answer.unexpected_value("kv_type", kKvTypeNames);
  session.kv_type = *kv_type;
  TRY_ASSIGN(const auto ids, answer.numbers("tokens"));
  for (const uint64_t id : ids) {
    if (id > std::numeric_limits<TokenId>::max())
      return answer.unexpected_value("tokens", "token ids");
    session.tokens.push_back(static_cast<TokenId>(id));
  }
  TRY_ASSIGN(session.prompt_tokens, answer.count("prompt_tokens", session.tokens.size()));
  return session;
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
  if (session) return session;
  return fail(ErrorCode::kCorrupt, fmt::format("{} is not a server that Kvik knows: {}",
                                               client.url().text(), session.error().message));
}

}  // namespace kvik
