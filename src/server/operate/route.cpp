#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <span>
#include <string_view>
#include <variant>

#include "base/hash.h"
#include "server/dialects/chat/chat_request.h"
#include "server/dialects/completions/completions_request.h"
#include "server/dialects/messages/messages_request.h"
#include "server/dialects/responses/responses_request.h"
#include "server/handlers.h"
#include "server/http/auth.h"
#include "server/http/status.h"

namespace kvik {
namespace {

constexpr std::string_view kPath = "/kvik/route";
constexpr size_t kRouteTokens = 256;

Result<CompletionCall> parse(const HandlerContext& context, const HttpRequest& request,
                             const RequestBody& body) {
  const std::string_view to = std::string_view(request.path).substr(kPath.size());
  if (to == "/v1/completions") return parse_completions_call(context.service, body);
  if (to == "/v1/chat/completions") return parse_chat_call(context.service, body);
  if (to == "/v1/messages") return parse_count_call(context.service, body);
  if (to == "/v1/responses") {
    TRY_ASSIGN(auto responses, parse_responses_call(context.service, body));
    return std::move(responses.call);
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("{} is not a route with a prompt, expected {}/v1/completions, "
                          "…/v1/chat/completions, …/v1/messages or …/v1/responses",
                          printable(request.path), kPath));
}

// Returns a hash of salt and first tokens: requests with equal beginnings get the same route. It is
// not a page key, because it only selects a server.
std::string route_of(std::string_view salt, std::span<const TokenId> tokens) {
  Sha256 hash;
  hash.add_text(salt);
  for (const TokenId token : tokens) hash.add_number(token);
  const Sha256Digest digest = hash.finish();
  return to_hex(std::span(digest).first(8));
}

}  // namespace

Reply handle_route(const HandlerContext& context, const HttpRequest& request,
                   const RequestBody& body) {
  const auto call = parse(context, request, body);
  if (!call) return error_response(call.error());
  const CompletionRequest& first = call->requests.front();
  const auto* ids = std::get_if<std::vector<TokenId>>(&first.prompt);
  const std::vector<TokenId> tokens =
      ids ? *ids
          : context.service.tokenize(std::get<std::string>(first.prompt),
                                     {.add_bos = true, .parse_special = true});
  const ApiKey* key = find_key(request, context.options);
  const std::string salt = key ? salt_of(*key, first.engine.cache_salt) : first.engine.cache_salt;
  const size_t n = std::min(tokens.size(), kRouteTokens);
  const boost::json::object out{{"route", route_of(salt, std::span(tokens).first(n))},
                                {"tokens", n},
                                {"prompt_tokens", tokens.size()}};
  return HttpResponse{.status = 200, .body = boost::json::serialize(out)};
}

}  // namespace kvik
