#include "hub/http/http_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/printable.h"
#include "base/text/ascii_case.h"
#include "base/text/whole_number.h"
#include "hub/http/curl_library.h"

namespace kvik {
namespace {

constexpr int kMaxRedirects = 8;
constexpr int kMaxConnectAttempts = 3;
constexpr size_t kMaxHeaderLines = 200;
constexpr long kConnectTimeoutS = 20;
constexpr long kBufferBytes = 256 << 10;

std::string_view without_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Scheme, host and port of a URL.
struct Origin {
  std::string scheme, host, port;
  friend bool operator==(const Origin&, const Origin&) = default;
};

// Parses a URL as libcurl itself does.
std::optional<Origin> origin_of(const CurlLibrary& curl, const std::string& url) {
  CURLU* const parsed = curl.url();
  if (parsed == nullptr) return std::nullopt;
  Origin origin;
  const auto read = [&](CURLUPart part, std::string& out) {
    char* text = nullptr;
    if (curl.url_get(parsed, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return false;
    out = ascii_lower(text);
    curl.free(text);
    return true;
  };
  const bool is_valid = curl.url_set(parsed, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
                        read(CURLUPART_SCHEME, origin.scheme) &&
                        read(CURLUPART_HOST, origin.host) && read(CURLUPART_PORT, origin.port);
  curl.url_cleanup(parsed);
  return is_valid ? std::optional(origin) : std::nullopt;
}

// Settings of all transfers of a session.
struct ConnectionSettings {
  long stall_s;         // time without data after which a transfer fails
  std::string ca_file;  // HubOptions::ca_file
};

class CurlTransfer final : public HttpTransfer {
 public:
  CurlTransfer(const CurlLibrary& curl, CURLM* multi, HubRequest request, HttpSink sink,
               const ConnectionSettings& settings)
      : curl_(curl),
        multi_(multi),
        request_(std::move(request)),
        sink_(std::move(sink)),
        settings_(settings) {
    first_origin_ = origin_of(curl_, request_.url);
    begin(request_.url);
  }
  ~CurlTransfer() override { release(); }
  CurlTransfer(const CurlTransfer&) = delete;
  CurlTransfer& operator=(const CurlTransfer&) = delete;

  bool is_done() const override { return is_done_; }
  const std::string& failure() const override { return failure_; }
  int max_attempts() const override { return max_attempts_; }
  bool was_ended_by_sink() const override { return was_ended_by_sink_; }
  const HttpReply& reply() const override { return reply_; }

  // Called when libcurl has finished a request.
  void on_end(CURLcode code) {
    const bool is_redirect = redirects();
    char* next = nullptr;
    if (code == CURLE_OK && is_redirect) curl_.easy_getinfo(easy_, CURLINFO_REDIRECT_URL, &next);
    const std::string target = next != nullptr ? next : "";
    release();
    if (was_ended_by_sink_) return end("");
    const bool has_no_connection = code == CURLE_COULDNT_RESOLVE_PROXY ||
                                   code == CURLE_COULDNT_RESOLVE_HOST ||
                                   code == CURLE_COULDNT_CONNECT;
    if (has_no_connection) max_attempts_ = kMaxConnectAttempts;
    if (code != CURLE_OK) return end(error_[0] != 0 ? error_ : curl_.easy_strerror(code));
    if (!is_redirect) return end("");
    follow(target);
  }

 private:
  void end(std::string failure) {
    failure_ = std::move(failure);
    is_done_ = true;
  }

  void release() {
    if (easy_ != nullptr) {
      curl_.multi_remove_handle(multi_, easy_);
      curl_.easy_cleanup(easy_);
      easy_ = nullptr;
    }
    curl_.slist_free_all(header_list_);
    header_list_ = nullptr;
  }

  bool redirects() const {
    const int status = reply_.status;
    return (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) &&
           reply_.headers.contains("location");
  }

  void follow(const std::string& url) {
    max_attempts_ = 1;  // unless the redirect is followed
    const auto origin = origin_of(curl_, url);
    if (!origin || (origin->scheme != "https" && origin->scheme != "http")) {
      return end(
          fmt::format("a redirect to '{}', expected an http or https address", printable(url)));
    }
    if (first_origin_ && first_origin_->scheme == "https" && origin->scheme != "https") {
      return end(
          fmt::format("a redirect from https to '{}', which is not encrypted", printable(url)));
    }
    if (++n_redirects_ > kMaxRedirects)
      return end(fmt::format("more than {} redirects", kMaxRedirects));
    max_attempts_ = kMaxAttempts;
    begin(url);
  }

  void add_header(const std::string& line) {
    if (curl_slist* const longer = curl_.slist_append(header_list_, line.c_str()))
      header_list_ = longer;
  }

  void begin(const std::string& url) {
    reply_.status = 0;
    reply_.headers.clear();
    reply_.url = url;
    error_[0] = 0;
    easy_ = curl_.easy_init();
    if (easy_ == nullptr) return end("libcurl has no memory");
    const auto origin = origin_of(curl_, url);
    is_first_origin_ = origin && first_origin_ && *origin == *first_origin_;
    if (!request_.bearer.empty() && is_first_origin_)
      add_header("Authorization: Bearer " + request_.bearer);
    if (!request_.accept.empty()) add_header("Accept: " + request_.accept);
    const auto set = [&](CURLoption option, auto value) {
      curl_.easy_setopt(easy_, option, value);
    };
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    // With HTTP/2 all ranges would share one connection, and its window would bound their rate.
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_USERAGENT, "kvik");
    set(CURLOPT_HTTPHEADER, header_list_);
    set(CURLOPT_CONNECTTIMEOUT, kConnectTimeoutS);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, settings_.stall_s);
    if (!settings_.ca_file.empty()) set(CURLOPT_CAINFO, settings_.ca_file.c_str());
    set(CURLOPT_BUFFERSIZE, kBufferBytes);
    set(CURLOPT_ERRORBUFFER, error_);
    set(CURLOPT_PRIVATE, this);
    set(CURLOPT_HEADERFUNCTION, &CurlTransfer::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &CurlTransfer::on_body);
    set(CURLOPT_WRITEDATA, this);
    if (request_.range) {
      range_ = fmt::format("{}-{}", request_.range->first, request_.range->second);
      set(CURLOPT_RANGE, range_.c_str());
    }
    if (curl_.multi_add_handle(multi_, easy_) != CURLM_OK) end("libcurl refuses the transfer");
  }

  static size_t on_header(char* bytes, size_t size, size_t n, void* self) {
    static_cast<CurlTransfer*>(self)->read_header({bytes, size * n});
    return size * n;
  }

  void read_header(std::string_view line) {
    if (line.starts_with(
            "HTTP/")) {  // of a redirect of a proxy, or 100 Continue, before the answer
      reply_.headers.clear();
      const size_t blank = line.find(' ');
      reply_.status =
          blank == std::string_view::npos
              ? 0
              : static_cast<int>(parse_whole_number(line.substr(blank + 1, 3)).value_or(0));
      return;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || reply_.headers.size() >= kMaxHeaderLines) return;
    const std::string name = ascii_lower(without_blanks(line.substr(0, colon)));
    const std::string value(without_blanks(line.substr(colon + 1)));
    reply_.headers.emplace(name, value);
    if (is_first_origin_ && name.starts_with("x-") && reply_.hub_headers.size() < kMaxHeaderLines) {
      reply_.hub_headers.emplace(name, value);
    }
  }

  static size_t on_body(char* bytes, size_t size, size_t n, void* self) {
    return static_cast<CurlTransfer*>(self)->take_body(std::as_bytes(std::span(bytes, size * n)));
  }

  size_t take_body(std::span<const std::byte> bytes) {
    if (redirects()) return bytes.size();
    if (sink_(reply_, bytes)) return bytes.size();
    was_ended_by_sink_ = true;
    return 0;
  }

  const CurlLibrary& curl_;
  CURLM* const multi_;
  const HubRequest request_;
  const HttpSink sink_;
  const ConnectionSettings& settings_;
  std::optional<Origin> first_origin_;
  CURL* easy_ = nullptr;
  curl_slist* header_list_ = nullptr;
  std::string range_;
  char error_[CURL_ERROR_SIZE] = {};
  int n_redirects_ = 0;
  bool is_first_origin_ = false;  // the request in progress goes to the origin of the first one
  int max_attempts_ = kMaxAttempts;
  bool is_done_ = false, was_ended_by_sink_ = false;
  std::string failure_;
  HttpReply reply_;
};

class CurlSession final : public HttpSession {
 public:
  CurlSession(const CurlLibrary& curl, CURLM* multi, ConnectionSettings settings)
      : curl_(curl), multi_(multi), settings_(std::move(settings)) {}
  ~CurlSession() override { curl_.multi_cleanup(multi_); }

  std::unique_ptr<HttpTransfer> start(HubRequest request, HttpSink sink) override {
    return std::make_unique<CurlTransfer>(curl_, multi_, std::move(request), std::move(sink),
                                          settings_);
  }

  void run(Duration wait) override {
    int n_running = 0;
    curl_.multi_perform(multi_, &n_running);
    if (finish_ended()) return;
    const auto wait_ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
    curl_.multi_poll(multi_, nullptr, 0, static_cast<int>(wait_ms), nullptr);
    curl_.multi_perform(multi_, &n_running);
    finish_ended();
  }

 private:
  bool finish_ended() {
    bool has_ended = false;
    int n_left = 0;
    while (const CURLMsg* message = curl_.multi_info_read(multi_, &n_left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      void* transfer = nullptr;
      curl_.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      static_cast<CurlTransfer*>(transfer)->on_end(code);
      has_ended = true;
    }
    return has_ended;
  }

  const CurlLibrary& curl_;
  CURLM* const multi_;
  const ConnectionSettings settings_;
};

}  // namespace

std::string HttpReply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::string HttpReply::hub_header(const std::string& name) const {
  const auto found = hub_headers.find(name);
  return found == hub_headers.end() ? "" : found->second;
}

std::optional<std::pair<uint64_t, uint64_t>> HttpReply::content_range() const {
  const std::string text = header("content-range");
  const size_t dash = text.find('-'), slash = text.find('/');
  if (!text.starts_with("bytes ") || dash == std::string::npos || slash == std::string::npos ||
      dash > slash) {
    return std::nullopt;
  }
  const auto first = parse_whole_number(std::string_view(text).substr(6, dash - 6));
  const auto size = parse_whole_number(std::string_view(text).substr(slash + 1));
  if (!first || !size) return std::nullopt;
  return std::pair(*first, *size);
}

std::optional<Duration> HttpReply::retry_after() const {
  constexpr uint64_t kMaxSeconds = 600;
  const auto seconds = parse_whole_number(header("retry-after"));
  if (!seconds) return std::nullopt;
  return std::chrono::seconds(std::min(*seconds, kMaxSeconds));
}

Result<std::unique_ptr<HttpSession>> HttpSession::open(const HubOptions& options) {
  TRY_ASSIGN(const CurlLibrary* curl, CurlLibrary::get());
  CURLM* const multi = curl->multi_init();
  if (multi == nullptr) return fail(ErrorCode::kIo, "libcurl has no memory");
  const auto stall_s = std::chrono::ceil<std::chrono::seconds>(options.stall_timeout).count();
  return std::make_unique<CurlSession>(
      *curl, multi,
      ConnectionSettings{.stall_s = std::max<long>(1, stall_s), .ca_file = options.ca_file});
}

bool is_temporary(int status) {
  return status == 408 || status == 425 || status == 429 || (status >= 500 && status != 501);
}

Duration retry_delay(int n_failed, const HttpReply& reply) {
  if (const auto wanted = is_temporary(reply.status) ? reply.retry_after() : std::nullopt)
    return *wanted;
  const int doublings = std::clamp(n_failed - 1, 0, 4);
  return std::chrono::milliseconds(250) * (1 << doublings);
}

bool wait_for_retry(Duration time, const KeepGoing& keep_going) {
  const TimePoint end = std::chrono::steady_clock::now() + time;
  for (;;) {
    if (!keep_going()) return false;
    const Duration left = end - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) return true;
    std::this_thread::sleep_for(std::min<Duration>(left, std::chrono::milliseconds(100)));
  }
}

Result<HttpBody> http_get(HttpSession& session, const HubRequest& request, size_t max_bytes,
                          const KeepGoing& keep_going) {
  const auto stopped = [] { return fail(ErrorCode::kIo, "the download was stopped"); };
  for (int n_failed = 1;; ++n_failed) {
    HttpBody body;
    const auto transfer =
        session.start(request, [&](const HttpReply& reply, std::span<const std::byte> bytes) {
          if (reply.status / 100 != 2) return false;  // the text of an error is not needed
          body.bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return body.bytes.size() <= max_bytes;
        });
    while (!transfer->is_done()) {
      session.run(std::chrono::milliseconds(100));
      if (!keep_going()) return stopped();
    }
    body.reply = transfer->reply();
    if (transfer->was_ended_by_sink() && body.reply.status / 100 == 2) {
      return fail(ErrorCode::kIo, fmt::format("'{}' answers more than {} bytes",
                                              printable(request.url), max_bytes));
    }
    const bool is_failed = !transfer->failure().empty();
    if (!is_failed && !is_temporary(body.reply.status)) return body;
    if (n_failed >= transfer->max_attempts()) {
      if (!is_failed) return body;
      return fail(ErrorCode::kIo,
                  fmt::format("'{}': {}", printable(request.url), printable(transfer->failure())));
    }
    if (!wait_for_retry(retry_delay(n_failed, body.reply), keep_going)) return stopped();
  }
}

}  // namespace kvik
