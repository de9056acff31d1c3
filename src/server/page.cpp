#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "server/handlers.h"

// The page, embedded by cmake/embed.cmake: uncompressed, compressed by gzip, and the policy that
// lists its scripts and styles by their hashes.
extern "C" const char kvik_page_begin[];
extern "C" const char kvik_page_end[];
extern "C" const char kvik_page_gzip_begin[];
extern "C" const char kvik_page_gzip_end[];
extern "C" const char kvik_page_policy_begin[];
extern "C" const char kvik_page_policy_end[];

namespace kvik {
namespace {

std::string etag_of(std::string_view page) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(page)));
  const Sha256Digest digest = hash.finish();
  return '"' + to_hex(std::span(digest).first(12)) + '"';
}

std::string_view policy() {
  std::string_view text(kvik_page_policy_begin, kvik_page_policy_end);
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

// Returns whether "gzip" is in the list of encodings and not excluded by "q=0".
bool takes_gzip(const HttpRequest& request) {
  const std::string_view list = request.header("accept-encoding").value_or("");
  const size_t at = list.find("gzip");
  if (at == list.npos) return false;
  const std::string_view rest = list.substr(at, list.find(',', at) - at);
  const size_t q = rest.find("q=0");
  return q == rest.npos || rest.find_first_of("123456789", q + 3) != rest.npos;
}

// Returns whether the client is one of Ollama's, which ask whether the server is running.
bool asks_for_status(const HttpRequest& request) {
  const std::string_view accepted = request.header("accept").value_or("");
  const bool takes_page = accepted.empty() || accepted.contains("*/*") ||
                          accepted.contains("text/*") || accepted.contains("text/html");
  return !takes_page || request.header("user-agent").value_or("").starts_with("ollama");
}

}  // namespace

Reply handle_page(const HandlerContext&, const HttpRequest& request) {
  if (asks_for_status(request)) {
    return HttpResponse{.status = 200,
                        .body = "Ollama is running",
                        .content_type = "text/plain; charset=utf-8",
                        .headers = {{"Vary", "Accept, User-Agent"}}};
  }
  static const std::string etag = etag_of({kvik_page_begin, kvik_page_end});
  HttpResponse response{.status = 200,
                        .body = "",
                        .content_type = "text/html; charset=utf-8",
                        .headers = {{"ETag", etag},
                                    {"Cache-Control", "no-cache"},
                                    {"Vary", "Accept, Accept-Encoding, User-Agent"},
                                    {"Content-Security-Policy", std::string(policy())},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"Referrer-Policy", "no-referrer"}}};
  // A substring match, since a proxy may have made the tag weak or added others.
  if (request.header("if-none-match").value_or("").find(etag) != std::string_view::npos) {
    response.status = 304;
  } else if (takes_gzip(request)) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body.assign(kvik_page_gzip_begin, kvik_page_gzip_end);
  } else {
    response.body.assign(kvik_page_begin, kvik_page_end);
  }
  return response;
}

}  // namespace kvik
