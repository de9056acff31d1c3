#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "server/handlers.h"

namespace kvik {

// A field of a request's body, for /openapi.json.
struct BodyField {
  std::string_view name, type;  // JSON Schema's; empty: any
  bool is_required = false;
};

// A method of a path. The rows of one path have the same handler and traits.
struct Route {
  enum class Access { kKeyed, kOpen };
  enum class Drain { kServes, kRefuses };  // what a draining server does
  // kLight: what a request takes grows with its body. kHeavy: a short one can refer to much.
  enum class Work { kLight, kHeavy };
  struct Traits {
    Access access = Access::kKeyed;
    Drain drain = Drain::kServes;
    ErrorShape errors = ErrorShape::kOpenAi;
    Work work = Work::kLight;
  };
  using PlainHandler = Reply (*)(const HandlerContext&, const HttpRequest&);
  using BodyHandler = Reply (*)(const HandlerContext&, const HttpRequest&, const RequestBody&);

  std::string_view path;  // a "{id}" takes all that follows, and nothing too
  std::string_view method;
  std::variant<PlainHandler, BodyHandler> handler;
  std::string_view summary;
  std::span<const BodyField> body = {};
  Traits traits = {};
  std::string_view answer = "application/json";

  // The path without "{id}".
  std::string_view prefix() const { return path.substr(0, path.find("{id}")); }
};

inline constexpr std::string_view kAlivePath = "/livez";

// All routes. A request belongs to the first row whose path takes its own.
std::span<const Route> routes();

}  // namespace kvik
