#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "server/handlers.h"
#include "server/http/auth.h"
#include "server/http/status.h"

namespace kvik {
namespace {

namespace json = boost::json;

json::object session_json(std::string_view client, const SessionSummary& session) {
  json::object lost_to;
  for (const auto& [cause, n_tokens] : session.lost_to) lost_to[cause] = n_tokens;
  return {{"id", session.id},
          {"client", client},
          {"requests", session.n_requests},
          {"prompt_tokens", session.prompt_tokens},
          {"reused_tokens", session.reused_tokens},
          {"computed_tokens", session.prompt_tokens - session.reused_tokens},
          {"restored_tokens", session.restored_tokens},
          {"generated_tokens", session.generated_tokens},
          {"lost_tokens", session.lost_tokens},
          {"lost_to", std::move(lost_to)},
          {"first_used", session.first_s},
          {"last_used", session.last_s}};
}

}  // namespace

// A key sees its own sessions, an operator those of all keys.
Reply handle_sessions(const HandlerContext& context, const HttpRequest& request) {
  const ApiKey* key = find_key(request, context.options);
  const bool sees_all = is_operator(request, context.options);
  json::array sessions;
  for (const auto& [name, account] : context.accounts.all()) {
    if (!sees_all && (!key || name != key->name)) continue;
    for (const SessionSummary& session : account->sessions().all())
      sessions.push_back(session_json(name, session));
  }
  return HttpResponse{.status = 200,
                      .body = json::serialize(json::object{{"sessions", std::move(sessions)}})};
}

// The tokens belong to who sent them: an operator's key reads no other key's, and a salt that a
// request gave must be given again.
Reply handle_session_tokens(const HandlerContext& context, const HttpRequest& request) {
  constexpr std::string_view kPrefix = "/kvik/sessions/";
  const ApiKey* key = find_key(request, context.options);
  const std::string requested = query_value(request.query, "cache_salt");
  const std::string id = request.path.substr(kPrefix.size());
  const auto tokens =
      context.accounts.of(key)->sessions().tokens(id, key ? salt_of(*key, requested) : requested);
  if (!tokens) {
    return error_response(Error{
        ErrorCode::kNotFound,
        fmt::format("no tokens are kept of a session '{}' of this key and cache_salt: "
                    "/kvik/sessions lists the sessions, and requests with an adapter or several "
                    "choices are not kept",
                    printable(id))});
  }
  const ModelCard& card = context.service.card();
  return HttpResponse{.status = 200,
                      .body = json::serialize(json::object{
                          {"id", id},
                          {"model", card.id.text()},
                          {"weights_digest", card.weights.digest},
                          {"kv_type", card.kv_type},
                          {"prompt_tokens", tokens->prompt_tokens},
                          {"tokens", json::array(tokens->all.begin(), tokens->all.end())}})};
}

}  // namespace kvik
