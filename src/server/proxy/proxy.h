#pragma once

#include <string>
#include <string_view>

#include "server/handlers.h"

namespace kvik {

// Forwards a request to the server of the model that it names in its body, or in its query as
// ?model=NAME. Without a name, requests with a body go to the model that was used last, and others
// to the models that are loaded, one after the other while they answer 404: they load none.
Reply proxy_request(const HandlerContext& context, const HttpRequest& request,
                    const RequestBody& body);

// Forwards a request of Route::Scope::kState to the server of the model that ?model=NAME names, or
// of the first one that is loaded. Errors: kUnavailable if it is not loaded.
Reply proxy_state_request(const HandlerContext& context, const HttpRequest& request);

// Returns head and body of a request for the server of a model, which sees the same key and request
// id. The path is escaped.
std::string upstream_request(const HttpRequest& request, std::string_view body);

}  // namespace kvik
