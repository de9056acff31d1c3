#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "server/handlers.h"

namespace kvik {

Reply handle_health(const HandlerContext&, const HttpRequest&) {
  return HttpResponse{.status = 200, .body = R"({"status":"ok"})"};
}

Reply handle_version(const HandlerContext& context, const HttpRequest&) {
  const boost::json::object out{{"version", context.options.version}};
  return HttpResponse{.status = 200, .body = boost::json::serialize(out)};
}

}  // namespace kvik
