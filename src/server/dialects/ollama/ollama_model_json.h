#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string_view>

#include "server/server_options.h"
#include "service/model_library.h"
#include "service/model_servers.h"
#include "service/service_api.h"

namespace kvik {

// Models in the form of Ollama's API.

// Return an entry of /api/tags.
boost::json::object served_model_json(const ModelCard& card, std::string_view name);
boost::json::object stored_model_json(const StoredModel& model);

// Returns the entry of /api/ps. Its size is the planned memory.
boost::json::object running_model_json(const ModelCard& card, const ServerOptions& options);

// Return the entries of a router's model for /api/tags, and for /api/ps while it is loaded.
boost::json::object router_model_json(const ModelStatus& status);
boost::json::object loaded_model_json(const ModelStatus& status);

// Returns what the served model can do, in Ollama's words ("completion", "tools", "embedding", …)
// and one of Kvik's own, "rerank".
boost::json::array capabilities_json(const ServiceApi& service);

// Return the answer of /api/show.
boost::json::object served_details_json(const ServiceApi& service);
boost::json::object stored_details_json(const StoredModel& model);

}  // namespace kvik
