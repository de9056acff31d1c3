#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/dialects/json_fields.h"
#include "server/dialects/messages/messages_request.h"
#include "server/dialects/messages/messages_writer.h"
#include "server/dialects/start_completion.h"
#include "server/http/status.h"
#include "service/check_request.h"

namespace kvik {
namespace {

namespace json = boost::json;

Result<size_t> count_tokens(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const CompletionCall call, parse_count_call(service, body));
  TRY(check_model(call.requests.front().model, service.card(), service.adapters()));
  return std::get<std::vector<TokenId>>(call.requests.front().prompt).size();
}

}  // namespace

Reply handle_messages(const HandlerContext& context, const HttpRequest& request,
                      const RequestBody& body) {
  return start_completion(context, request, parse_messages_call(context.service, body),
                          {"msg_", {{"prompt", "messages"}}, make_messages_writer});
}

Reply handle_count_tokens(const HandlerContext& context, const HttpRequest&,
                          const RequestBody& body) {
  const auto n_tokens = count_tokens(context.service, body);
  if (!n_tokens) return error_response(n_tokens.error());
  const json::object out{{"input_tokens", *n_tokens}};
  return HttpResponse{.status = 200, .body = json::serialize(out)};
}

}  // namespace kvik
