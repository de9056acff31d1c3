#include "library/library_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/file/input_file.h"
#include "base/file/new_file.h"
#include "base/file/private_files.h"
#include "base/json/json_object.h"
#include "library/logits_sinks.h"
#include "library/model_options.h"
#include "server/dialects/json_fields.h"
#include "service/check_request.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr std::string_view kFormat = "kvik session 1";
// Fields of /v1/completions that would make the answer more or less than what follows the session.
constexpr std::string_view kForbidden[] = {"prompt", "n", "best_of", "echo", "suffix"};

Result<std::string> read_text(const std::string& path, uint64_t max_bytes) {
  TRY_ASSIGN(const InputFile file, InputFile::open(path));
  if (file.size() > max_bytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' has {} bytes, expected a session of at most {}", path,
                            file.size(), max_bytes));
  }
  std::string text(file.size(), '\0');
  TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

Result<std::shared_ptr<LibrarySession>> LibrarySession::create(std::shared_ptr<LibraryModel> model,
                                                               std::chrono::seconds keep) {
  if (keep.count() > RequestBounds::kPinSeconds) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("keep_s is {}, expected at most {}",
                                                         keep.count(), RequestBounds::kPinSeconds));
  }
  return std::shared_ptr<LibrarySession>(
      new LibrarySession(std::move(model), keep, std::make_shared<Tokens>()));
}

std::shared_ptr<LibrarySession> LibrarySession::fork() const {
  return std::shared_ptr<LibrarySession>(new LibrarySession(model_, keep_, tokens_));
}

Result<std::shared_ptr<LibrarySession>> LibrarySession::load(std::shared_ptr<LibraryModel> model,
                                                             const std::string& path,
                                                             std::chrono::seconds keep) {
  constexpr uint64_t kTokenBytes = 11, kHeadBytes = 4096;
  const ModelCard& card = model->card();
  TRY_ASSIGN(const std::string text, read_text(path, kHeadBytes + kTokenBytes * card.n_ctx_max));
  TRY_ASSIGN(const json::value value, parse_json_file(text, path));
  TRY_ASSIGN(const JsonObject file, JsonObject::of(value, path));
  TRY_ASSIGN(const std::string format, file.required_text("format"));
  if (format != kFormat) return file.unexpected_value("format", kFormat);
  TRY_ASSIGN(const std::string digest, file.required_text("model"));
  if (digest != card.weights.digest) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is a session of the model {}, but this is the model {}", path,
                            printable(digest), card.weights.digest));
  }
  TRY_ASSIGN(const auto ids, file.numbers("tokens"));
  TRY_ASSIGN(auto session, create(std::move(model), keep));
  Tokens tokens;
  for (const uint64_t id : ids) {
    tokens.push_back(static_cast<TokenId>(std::min<uint64_t>(id, UINT32_MAX)));
  }
  TRY(session->append(tokens));
  return session;
}

// Copies the tokens first if a fork shares them.
LibrarySession::Tokens& LibrarySession::own_tokens() {
  if (tokens_.use_count() > 1) tokens_ = std::make_shared<Tokens>(*tokens_);
  std::atomic_thread_fence(std::memory_order_acquire);  // after the reads of a fork's thread
  return *tokens_;
}

Result<void> LibrarySession::append(std::span<const TokenId> tokens) {
  TRY(model_->check_room(tokens_->size(), tokens.size()));
  TRY(check_tokens(tokens, model_->card().n_vocab));
  Tokens& own = own_tokens();
  own.insert(own.end(), tokens.begin(), tokens.end());
  return {};
}

Result<void> LibrarySession::truncate(size_t n_tokens) {
  if (n_tokens > tokens_->size()) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("n_tokens is {}, but the session has {} tokens", n_tokens, tokens_->size()));
  }
  if (n_tokens < tokens_->size()) own_tokens().resize(n_tokens);
  return {};
}

Result<void> LibrarySession::prefill(std::span<float> logits) const {
  if (tokens_->empty()) return fail(ErrorCode::kInvalidArgument, "the session has no tokens");
  Request request;
  request.prompt = *tokens_;
  request.max_tokens = 0;
  request.logits = Request::Logits::kLast;
  if (keep_ > std::chrono::seconds(0)) {
    request.pins.push_back({static_cast<uint32_t>(tokens_->size()), keep_});
  }
  TRY(model_->compute(std::move(request), std::make_shared<LastLogits>(logits)));
  return {};
}

Result<std::string> LibrarySession::body_of(std::string_view options) const {
  if (tokens_->empty()) return fail(ErrorCode::kInvalidArgument, "the session has no tokens");
  TRY_ASSIGN(json::object fields, parse_options(options));
  for (const std::string_view name : kForbidden) {
    if (fields.contains(name)) return unsupported(name);
  }
  fields["prompt"] = json::array(tokens_->begin(), tokens_->end());
  fields["return_token_ids"] = true;
  if (keep_ > std::chrono::seconds(0)) {
    fields["cache_control"] = {{"type", "ephemeral"}, {"ttl", keep_.count()}};
  }
  return json::serialize(fields);
}

void LibrarySession::take_tokens_of(std::string_view answer) {
  boost::system::error_code failed;
  const json::value value = json::parse(answer, failed);
  const json::object* object = failed ? nullptr : value.if_object();
  const json::array* choices = object ? at(*object, "choices").if_array() : nullptr;
  const json::object* choice =
      choices && !choices->empty() ? choices->front().if_object() : nullptr;
  const json::array* ids = choice ? at(*choice, "token_ids").if_array() : nullptr;
  if (!ids) return;
  Tokens& own = own_tokens();
  for (const json::value& id : *ids) own.push_back(id.to_number<TokenId>());
}

Result<std::unique_ptr<LibraryRequest>> LibrarySession::generate(std::string_view options) {
  TRY_ASSIGN(std::string body, body_of(options));
  HttpRequest http;
  http.method = "POST";
  http.path = "/v1/completions";
  http.body = std::move(body);
  TRY_ASSIGN(auto request, LibraryRequest::start(model_, std::move(http)));
  request->set_observer(
      [self = shared_from_this()](std::string_view answer) { self->take_tokens_of(answer); });
  return request;
}

Result<void> LibrarySession::export_pages(const std::string& path) const {
  TRY(prefill({}));
  TRY(prefill({}));  // it runs after the pages of the first one were sealed and queued for writing
  return model_->export_pages(*tokens_, path);
}

Result<void> LibrarySession::save(const std::string& path) const {
  const std::string text =
      json::serialize(json::object{{"format", kFormat},
                                   {"model", model_->card().weights.digest},
                                   {"tokens", json::array(tokens_->begin(), tokens_->end())}});
  TRY_ASSIGN(NewFile out, NewFile::create(path, kPrivateFile));
  TRY(out.write(std::as_bytes(std::span(text))));
  return out.commit();
}

}  // namespace kvik
