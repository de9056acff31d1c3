#pragma once

#include "server/handlers.h"

namespace kvik {

// Answers about models. Those of a router need `context.options.router`.

// Returns the list of models, with their states, and what the requester may do with them.
Reply router_models(const HandlerContext& context, const HttpRequest& request);
// Returns one of them.
Reply router_model(const HandlerContext& context, std::string_view name);

// Returns the model of a server that is no router, or one of its adapters. Defined in models.cpp.
HttpResponse served_model(const HandlerContext& context, std::string_view id);

// Returns the metrics of the router and of all loaded models. A model's server shows the requester
// what its key may see.
Reply router_metrics(const HandlerContext& context, const HttpRequest& request);

}  // namespace kvik
