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

// A request as seen by handlers, independent of the parsing library.
struct HttpRequest {
  std::string id;  // the client's x-request-id, or a generated one
  std::string method;
  std::string path;       // without query, percent-decoded
  std::string query;      // as sent, without the question mark
  int minor_version = 1;  // minor version of HTTP/1
  bool keep_alive = true;
  bool has_body = false;
  bool expects_continue = false;
  HttpHeaders headers;  // names in lowercase
  std::string body;

  // Returns the first header of that lowercase name.
  std::optional<std::string_view> header(std::string_view name) const;
};

// Format of errors, which depends on the dialect.
enum class ErrorShape { kOpenAi, kAnthropic, kOllama };

// An error, independent of the dialect.
struct HttpError {
  unsigned status = 500;
  std::string message;
  std::string param = {};      // the field that is wrong; empty: none
  std::string_view code = {};  // a literal for clients; empty: the status suffices
};

// A response as made by handlers.
struct HttpResponse {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers = {};
  std::optional<HttpError> error = {};      // the body is written when the dialect is known
  std::unique_ptr<BodySource> source = {};  // replaces `body` if present
};

// Framing of a response: what the connection knows and the handler does not.
struct HttpFraming {
  std::string request_id;
  ErrorShape error_shape = ErrorShape::kOpenAi;
  std::string allowed_origin = {};  // origin that may read it; empty: none
  int minor_version = 1;
  enum class After { kKeepAlive, kClose } after = After::kKeepAlive;
  enum class Body { kSent, kLeftOut, kStreamed } body = Body::kSent;  // kLeftOut: answers to HEAD
};

// Returns the bytes of a response; for a streamed body those of its head.
std::string serialize(const HttpResponse& response, const HttpFraming& framing);

// Returns a part of a streamed body: as a chunk if the HTTP version supports it, else unchanged.
std::string frame_part(std::string_view part, const HttpFraming& framing);
std::string frame_end(const HttpFraming& framing);

// "/v1/models/a%20b?x=1" → "/v1/models/a b"; scheme and authority of the absolute form are removed.
// Malformed escapes are unchanged.
std::string path_of_target(std::string_view target);

// "/v1/models?x=1&y=a%20b" → "x=1&y=a%20b".
std::string_view query_of_target(std::string_view target);

// Returns the first value of that name in a query, percent-decoded; empty if there is none.
std::string query_value(std::string_view query, std::string_view name);

// Returns the authority of a target in absolute form: "a:80" for "http://a:80/b". std::nullopt for
// any other form.
std::optional<std::string_view> authority_of_target(std::string_view target);

}  // namespace kvik
