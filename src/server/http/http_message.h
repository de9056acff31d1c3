#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "server/http/body_source.h"

namespace kvik {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// A request as the handlers see it, whatever library read it.
struct HttpRequest {
  std::string id;  // the client's x-request-id, or one of ours
  std::string method;
  std::string path;       // without query, percent-decoded
  std::string query;      // as it was sent, without its question mark
  int minor_version = 1;  // of HTTP/1
  bool keep_alive = true;
  bool has_body = false;
  bool expects_continue = false;
  HttpHeaders headers;  // names in lower case
  std::string body;

  // The first of that name, in lower case.
  std::optional<std::string_view> header(std::string_view name) const;
};

// Which clients an error is written for: every dialect has a shape of its own.
enum class ErrorShape { kOpenAi, kAnthropic };

// What went wrong, in no dialect yet.
struct HttpError {
  unsigned status = 500;
  std::string message;
  std::string param = {};      // the field that is to blame; empty: none
  std::string_view code = {};  // a literal that clients branch on; empty: the status says it all
};

struct HttpResponse {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers = {};
  std::optional<HttpError> error = {};      // the body is written when the dialect is known
  std::unique_ptr<BodySource> source = {};  // where present, in the place of `body`
};

// How a response travels: what the connection knows and the handler does not.
struct HttpFraming {
  std::string request_id;
  ErrorShape error_shape = ErrorShape::kOpenAi;
  std::string allowed_origin = {};  // a page of elsewhere that may read it; empty: none
  int minor_version = 1;
  enum class After { kKeepAlive, kClose } after = After::kKeepAlive;
  enum class Body { kSent, kLeftOut, kStreamed } body = Body::kSent;  // kLeftOut: answers to HEAD
};

// The bytes of a response; for a streamed body those of its head.
std::string serialize(const HttpResponse& response, const HttpFraming& framing);

// A part of a streamed body: a chunk where the version knows chunks, else as it is.
std::string frame_part(std::string_view part, const HttpFraming& framing);
std::string frame_end(const HttpFraming& framing);

// "/v1/models/a%20b?x=1" → "/v1/models/a b"; the absolute form loses scheme and authority.
// Malformed escapes stay as they are.
std::string path_of_target(std::string_view target);

// "x=1&y=a%20b" of "/v1/models?x=1&y=a%20b".
std::string_view query_of_target(std::string_view target);

// The first value of that name in a query, percent-decoded; empty where there is none.
std::string query_value(std::string_view query, std::string_view name);

// The authority of a target in absolute form: "a:80" of "http://a:80/b". std::nullopt for any other
// form.
std::optional<std::string_view> authority_of_target(std::string_view target);

}  // namespace kvik
