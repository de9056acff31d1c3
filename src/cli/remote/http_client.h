#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cli/remote/server_url.h"

namespace kvik {

// A whole answer of a server.
struct HttpAnswer {
  unsigned status = 0;
  std::string body;
};

// Returns the sentence of an error answer: that of OpenAI's {"error": {"message": …}}, else one
// that names the status. Its code: kInvalidArgument, kContextLength, kNotFound, kExhausted,
// kUnavailable or kIo.
Error error_of(const HttpAnswer& answer);

// An answer that arrives in pieces: its status first, then server-sent events or a body. One
// thread reads; stop() may be called by another.
class HttpStream {
 public:
  ~HttpStream();
  HttpStream(const HttpStream&) = delete;
  HttpStream& operator=(const HttpStream&) = delete;

  // Waits for the status. Errors: kIo.
  Result<unsigned> status();
  // Returns the data of the next server-sent event; std::nullopt at the end of the answer. Errors:
  // kIo if the connection ends before, kCorrupt for an event of more than 16 MiB.
  Result<std::optional<std::string>> next_event();
  // Returns the rest of the body. Errors: kIo; kCorrupt if it has more than 64 MiB.
  Result<std::string> body();
  // Ends the connection: a read in progress and all later ones return kIo.
  void stop();

 private:
  friend class HttpClient;
  class Impl;
  explicit HttpStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Sends requests to a server over plain HTTP/1.1, each over a connection of its own. Any thread.
class HttpClient {
 public:
  // api_key: sent as a bearer token; empty: none.
  HttpClient(ServerUrl url, std::string api_key)
      : url_(std::move(url)), api_key_(std::move(api_key)) {}

  const ServerUrl& url() const { return url_; }
  const std::string& api_key() const { return api_key_; }

  // Return the whole answer, whatever its status. Errors: kNotFound if no server listens, kIo if
  // it does not answer in time.
  Result<HttpAnswer> get(std::string_view path, Duration timeout) const;
  Result<HttpAnswer> post(std::string_view path, std::string_view json, Duration timeout) const;
  // Sends a request whose answer is read from the stream, without a time limit. Errors:
  // kNotFound, kIo.
  Result<std::unique_ptr<HttpStream>> open(std::string_view path, std::string_view json) const;

 private:
  struct Call;
  Result<std::unique_ptr<HttpStream>> send(const Call& call) const;
  Result<HttpAnswer> answer_to(const Call& call) const;

  ServerUrl url_;
  std::string api_key_;
};

}  // namespace kvik
