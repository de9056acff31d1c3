#include "library/library_request.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <utility>
#include <variant>

#include "server/dialects/json_fields.h"
#include "server/http/random_id.h"

namespace kvik {
namespace {

namespace json = boost::json;

ErrorCode code_of(const HttpError& error) {
  if (error.code == "context_length_exceeded") return ErrorCode::kContextLength;
  if (error.code == "unsupported") return ErrorCode::kUnsupported;
  switch (error.status) {
    case 404:
      return ErrorCode::kNotFound;
    case 429:
      return ErrorCode::kExhausted;
    case 503:
      return ErrorCode::kUnavailable;
    default:
      return error.status < 500 ? ErrorCode::kInvalidArgument : ErrorCode::kIo;
  }
}

// Returns the data of a server-sent event, or a line of JSON as it is; empty for a comment and for
// the event "[DONE]" that ends OpenAI's streams.
std::string_view data_of(std::string_view event) {
  constexpr std::string_view kData = "data: ", kDone = "[DONE]";
  while (event.ends_with('\n')) event.remove_suffix(1);
  if (event.starts_with(':')) return {};
  const size_t at = event.starts_with(kData) ? 0 : event.find("\ndata: ");
  if (event.starts_with('{') || at == std::string_view::npos) return event;
  event.remove_prefix(event.find(kData, at) + kData.size());
  return event == kDone ? std::string_view() : event;
}

// Returns the error that a stream reports in place of its remaining events.
std::optional<Error> error_of(std::string_view data) {
  if (!data.starts_with(R"({"error":)") && !data.starts_with(R"({"type":"error")")) {
    return std::nullopt;
  }
  boost::system::error_code failed;
  const json::value value = json::parse(data, failed);
  const json::object* object = failed ? nullptr : value.if_object();
  if (!object) return std::nullopt;
  const json::value& error = at(*object, "error");
  const json::object* fields = error.if_object();
  const std::string_view message = fields ? text_at(*fields, "message") : text_at(*object, "error");
  return Error{ErrorCode::kIo, std::string(message)};
}

}  // namespace

Result<std::unique_ptr<LibraryRequest>> LibraryRequest::start(std::shared_ptr<LibraryModel> model,
                                                              HttpRequest request) {
  TRY(LibraryModel::check_memory());
  request.id = random_id("req-");
  request.headers = {{"host", "localhost"}};
  request.has_body = !request.body.empty();
  std::unique_ptr<LibraryRequest> started(new LibraryRequest(std::move(model), std::move(request)));
  TRY(started->begin());
  return started;
}

LibraryRequest::~LibraryRequest() { reply_.reset(); }  // no wake follows; the mutex still exists

Result<void> LibraryRequest::begin() {
  Reply reply = model_->server().handle(request_);
  if (auto* response = std::get_if<HttpResponse>(&reply)) {
    if (response->error) return fail(code_of(*response->error), response->error->message);
    response_ = std::move(*response);
    return {};
  }
  reply_ = std::move(std::get<std::unique_ptr<PendingReply>>(reply));
  reply_->set_wake([this] { signal(); });
  return {};
}

void LibraryRequest::signal() {
  const MutexLock lock(mutex_);
  has_news_ = true;
  changed_.notify_all();
  if (wake_) wake_();
}

void LibraryRequest::set_wake(std::function<void()> wake) {
  const MutexLock lock(mutex_);
  wake_ = std::move(wake);
  if (wake_) wake_();
}

void LibraryRequest::cancel() {
  const MutexLock lock(mutex_);
  is_cancelled_ = true;
  changed_.notify_all();
  if (wake_) wake_();
}

Result<LibraryRequest::Event> LibraryRequest::next(std::optional<TimePoint> end) {
  for (;;) {
    bool is_cancelled = false;
    {
      const MutexLock lock(mutex_);
      has_news_ = false;  // results that arrive from here on set it again
      is_cancelled = is_cancelled_;
    }
    if (is_cancelled) {
      reply_.reset();
      response_.reset();
      return Event::kEnd;
    }
    if (response_) return finish(*std::exchange(response_, std::nullopt));
    if (!reply_) return Event::kEnd;
    TRY_ASSIGN(const Event event, advance());
    if (event != Event::kNone || !reply_) return event;
    const MutexLock lock(mutex_);
    const auto has_changed = [this]() REQUIRES(mutex_) { return has_news_ || is_cancelled_; };
    if (!end) {
      changed_.wait(mutex_, has_changed);
    } else if (!changed_.wait_until(mutex_, *end, has_changed)) {
      return Event::kNone;
    }
  }
}

// Returns kNone if there is nothing new yet.
Result<LibraryRequest::Event> LibraryRequest::advance() {
  for (;;) {
    std::string out;
    const auto state = reply_->advance(out);
    const bool is_whole = reply_->kind() == PendingReply::Kind::kWhole;
    if (is_whole && state == PendingReply::State::kDone) {
      HttpResponse response = reply_->response();
      auto event = finish(std::move(response));
      reply_.reset();
      return event;
    }
    if (is_whole) return Event::kNone;
    if (reply_->has_overflowed()) {
      reply_.reset();
      return fail(ErrorCode::kExhausted, "there is no memory for events that were not read");
    }
    if (state == PendingReply::State::kDone) reply_.reset();
    const std::string_view data = data_of(out);
    if (const auto error = error_of(data)) {
      reply_.reset();
      return std::unexpected<Error>(*error);
    }
    if (!data.empty()) return deliver(std::string(data));
    if (!reply_) return Event::kEnd;
    if (out.empty()) return Event::kNone;
  }
}

Result<LibraryRequest::Event> LibraryRequest::finish(HttpResponse response) {
  if (response.error) return fail(code_of(*response.error), response.error->message);
  std::string text = std::move(response.body);
  if (response.source) {
    // A source adds no more than a piece to what it is given.
    std::string piece;
    for (bool has_more = true; has_more; piece.clear()) {
      has_more = response.source->next(piece);
      text += piece;
    }
  }
  return deliver(std::move(text));
}

Result<LibraryRequest::Event> LibraryRequest::deliver(std::string text) {
  data_ = std::move(text);
  if (observer_) observer_(data_);
  return Event::kData;
}

}  // namespace kvik
