#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "server/handlers.h"

namespace kvik {

// A field of a request's body, for /openapi.json.
struct BodyField {
  std::string_view name, type;  // JSON Schema type; empty: any
  bool is_required = false;
};

// A method of a path. The rows of one prefix have the same handler and traits.
struct Route {
  enum class Access { kKeyed, kOpen };
  enum class Drain { kServes, kRefuses };  // behavior of a draining server
  // kLight: the cost of a request grows with its body. kHeavy: a short body can refer to much data.
  enum class Work { kLight, kHeavy };
  // kModel: a router forwards the request to the server of a model. kState: only if that model is
  // loaded; the request shows its state, and neither loads the model nor keeps it loaded.
  enum class Scope { kModel, kState, kServer };
  struct Traits {
    Access access = Access::kKeyed;
    Drain drain = Drain::kServes;
    ErrorShape errors = ErrorShape::kOpenAi;
    Work work = Work::kLight;
    Scope scope = Scope::kModel;
  };
  using PlainHandler = Reply (*)(const HandlerContext&, const HttpRequest&);
  using BodyHandler = Reply (*)(const HandlerContext&, const HttpRequest&, const RequestBody&);

  std::string_view path;  // "{id}" matches everything that follows, including nothing
  std::string_view method;
  std::variant<PlainHandler, BodyHandler> handler;
  std::string_view summary;
  std::span<const BodyField> body = {};
  Traits traits = {};
  std::string_view answer = "application/json";

  // Returns the path without "{id}".
  std::string_view prefix() const { return path.substr(0, path.find("{id}")); }
};

inline constexpr std::string_view kAlivePath = "/livez";

// Returns all routes. A request is handled by the first row that matches its path.
std::span<const Route> routes();

}  // namespace kvik
