// The functions of kvik.h: they check pointers, translate types and catch what memory that has run
// out throws. Everything else is in the classes of this folder.
#include <fmt/format.h>
#include <kvik/kvik.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"
#include "host/build_info.h"
#include "library/library_model.h"
#include "library/library_request.h"
#include "library/library_session.h"
#include "library/logits_sinks.h"
#include "library/model_options.h"
#include "service/check_request.h"

struct kvik_model {
  std::shared_ptr<kvik::LibraryModel> model;
};
struct kvik_request {
  std::unique_ptr<kvik::LibraryRequest> request;
};
struct kvik_session {
  std::shared_ptr<kvik::LibrarySession> session;
};

namespace kvik {
namespace {

static_assert(sizeof(kvik_token) == sizeof(TokenId));

kvik_code code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return KVIK_INVALID_ARGUMENT;
    case ErrorCode::kContextLength:
      return KVIK_CONTEXT_LENGTH;
    case ErrorCode::kNotFound:
      return KVIK_NOT_FOUND;
    case ErrorCode::kUnsupported:
      return KVIK_UNSUPPORTED;
    case ErrorCode::kCorrupt:
      return KVIK_CORRUPT;
    case ErrorCode::kExhausted:
      return KVIK_EXHAUSTED;
    case ErrorCode::kUnavailable:
      return KVIK_UNAVAILABLE;
    case ErrorCode::kIo:
      break;
  }
  return KVIK_FAILED;
}

// Writes the error, if the caller wants it, and returns its code.
kvik_code report(kvik_error* error, kvik_code code, std::string_view message) {
  if (!error) return code;
  error->code = code;
  size_t n = std::min(message.size(), sizeof error->message - 1);
  // Not cut inside a character.
  while (n > 0 && n < message.size() && (static_cast<uint8_t>(message[n]) & 0xC0) == 0x80) --n;
  std::memcpy(error->message, message.data(), n);
  error->message[n] = '\0';
  return code;
}

kvik_code missing(kvik_error* error, const char* name) {
  return report(error, KVIK_INVALID_ARGUMENT, std::string(name) + " is NULL");
}

// Calls a function that returns a Result<void>, and reports its error.
template <class Function>
kvik_code guarded(kvik_error* error, const Function& function) {
  try {
    const Result<void> result = function();
    if (result) return KVIK_OK;
    return report(error, code_of(result.error().code), in_library_terms(result.error().message));
  } catch (const std::bad_alloc&) {
    return report(error, KVIK_EXHAUSTED, "out of memory");
  } catch (const std::exception& exception) {  // of a library that Kvik uses
    return report(error, KVIK_FAILED, exception.what());
  }
}

// Sets `to` to a copy that kvik_free() releases, with a zero at its end.
template <class T>
Result<void> copy_to(T** to, std::span<const T> values) {
  auto* copy = static_cast<T*>(std::malloc((values.size() + 1) * sizeof(T)));
  if (!copy) return fail(ErrorCode::kExhausted, "out of memory");
  std::ranges::copy(values, copy);  // memcpy() must not get the null pointer of an empty span
  copy[values.size()] = T{};
  *to = copy;
  return {};
}

std::string_view text_or_empty(const char* text) { return text ? text : std::string_view(); }

Result<void> check_size(size_t n, size_t expected) {
  if (n == expected) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("there is room for {} floats, expected {}", n, expected));
}

// Runs a request for the logits after each token from the one at `first` on.
Result<void> compute(const LibraryModel& model, std::span<const TokenId> tokens, uint32_t first,
                     const std::shared_ptr<EventSink>& sink) {
  Request request;
  request.prompt.assign(tokens.begin(), tokens.end());
  request.max_tokens = 0;
  request.logits = Request::Logits::kAll;
  request.first_logits = first;
  TRY(model.compute(std::move(request), sink));
  return {};
}

// Receives a message of the log.
log::Receiver receiver_of(kvik_log_callback callback, void* user) {
  if (!callback) return {};
  return [callback, user](log::Level level, std::string_view message) {
    callback(static_cast<int>(level), in_library_terms(message).c_str(), user);
  };
}

// Without a call of kvik_set_log(), messages are dropped.
void silence_log() {
  static const bool is_silent = [] {
    log::send_to(log::Level::kError, {});
    return true;
  }();
  static_cast<void>(is_silent);
}

LibraryModel::Progress progress_of(kvik_progress_callback callback, void* user) {
  if (!callback) return {};
  return [callback, user](uint64_t n_done, uint64_t n_all) { callback(n_done, n_all, user); };
}

}  // namespace
}  // namespace kvik

using namespace kvik;  // of this unit alone, for the functions below

const char* kvik_version(void) { return build_info().version.data(); }
int kvik_version_number(void) { return KVIK_VERSION; }

void kvik_free(void* memory) { std::free(memory); }

void kvik_set_log(kvik_log_level least, kvik_log_callback callback, void* user) {
  static_cast<void>(guarded(nullptr, [&]() -> Result<void> {
    silence_log();
    log::send_to(static_cast<log::Level>(least), receiver_of(callback, user));
    return {};
  }));
}

kvik_code kvik_model_open(const char* path, const char* options, kvik_progress_callback progress,
                          void* user, kvik_model** model, kvik_error* error) {
  if (!path) return missing(error, "path");
  if (!model) return missing(error, "model");
  return guarded(error, [&]() -> Result<void> {
    silence_log();
    TRY_ASSIGN(auto opened,
               LibraryModel::open(path, text_or_empty(options), progress_of(progress, user)));
    *model = new kvik_model{std::move(opened)};
    return {};
  });
}

void kvik_model_close(kvik_model* model) { delete model; }

kvik_code kvik_model_info(const kvik_model* model, char** json, kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!json) return missing(error, "json");
  return guarded(error, [&] { return copy_to(json, std::span<const char>(model->model->info())); });
}

kvik_code kvik_model_statistics(const kvik_model* model, char** json, kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!json) return missing(error, "json");
  return guarded(error,
                 [&] { return copy_to(json, std::span<const char>(model->model->statistics())); });
}

uint32_t kvik_model_context(const kvik_model* model) {
  return model ? model->model->card().n_ctx_max : 0;
}
uint32_t kvik_model_vocabulary(const kvik_model* model) {
  return model ? model->model->card().n_vocab : 0;
}
uint32_t kvik_model_dimension(const kvik_model* model) {
  return model ? model->model->card().model_dim : 0;
}

kvik_code kvik_tokenize(const kvik_model* model, const char* text, size_t n_bytes, unsigned flags,
                        kvik_token** tokens, size_t* n_tokens, kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!text && n_bytes > 0) return missing(error, "text");
  if (!tokens || !n_tokens) return missing(error, tokens ? "n_tokens" : "tokens");
  return guarded(error, [&]() -> Result<void> {
    const auto ids = model->model->service().tokenize(
        n_bytes > 0 ? std::string_view(text, n_bytes) : std::string_view(),
        {.add_bos = (flags & KVIK_ADD_SPECIAL) != 0,
         .parse_special = (flags & KVIK_PARSE_SPECIAL) != 0});
    TRY(copy_to(tokens, std::span<const kvik_token>(ids)));
    *n_tokens = ids.size();
    return {};
  });
}

kvik_code kvik_detokenize(const kvik_model* model, const kvik_token* tokens, size_t n_tokens,
                          char** text, size_t* n_bytes, kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!tokens && n_tokens > 0) return missing(error, "tokens");
  if (!text) return missing(error, "text");
  return guarded(error, [&]() -> Result<void> {
    TRY_ASSIGN(const std::string found,
               model->model->service().detokenize(std::span(tokens, n_tokens)));
    TRY(copy_to(text, std::span<const char>(found)));
    if (n_bytes) *n_bytes = found.size();
    return {};
  });
}

kvik_code kvik_logits(kvik_model* model, const kvik_token* tokens, size_t n_tokens, float* logits,
                      size_t n_floats, kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!tokens) return missing(error, "tokens");
  if (!logits) return missing(error, "logits");
  return guarded(error, [&]() -> Result<void> {
    TRY(model->model->check_room(0, n_tokens));
    TRY(check_size(n_floats, kvik_model_vocabulary(model)));
    return compute(*model->model, std::span(tokens, n_tokens), UINT32_MAX,
                   std::make_shared<LastLogits>(std::span(logits, n_floats)));
  });
}

kvik_code kvik_all_logits(kvik_model* model, const kvik_token* tokens, size_t n_tokens,
                          float* logits, size_t n_floats, kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!tokens) return missing(error, "tokens");
  if (!logits) return missing(error, "logits");
  return guarded(error, [&]() -> Result<void> {
    TRY(model->model->check_room(0, n_tokens));
    TRY(check_size(n_floats, n_tokens * kvik_model_vocabulary(model)));
    return compute(*model->model, std::span(tokens, n_tokens), 0,
                   std::make_shared<AllLogits>(std::span(logits, n_floats)));
  });
}

kvik_code kvik_score(kvik_model* model, const kvik_token* tokens, size_t n_tokens, float* logprobs,
                     size_t n_floats, kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!tokens) return missing(error, "tokens");
  if (!logprobs) return missing(error, "logprobs");
  return guarded(error, [&]() -> Result<void> {
    TRY(model->model->check_room(0, n_tokens));
    TRY(check_size(n_floats, n_tokens));
    const std::span ids(tokens, n_tokens);
    const std::span<float> scores(logprobs, n_floats);
    if (!scores.empty()) scores[0] = 0;
    return compute(*model->model, ids, 0,
                   std::make_shared<TokenScores>(
                       ids, 1, TokenScores::Rows{scores.subspan(std::min<size_t>(n_floats, 1))}));
  });
}

kvik_code kvik_score_after(kvik_model* model, const kvik_token* tokens, size_t n_tokens,
                           size_t n_context, float* logprobs, kvik_token* likeliest,
                           kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!tokens) return missing(error, "tokens");
  if (!logprobs) return missing(error, "logprobs");
  return guarded(error, [&]() -> Result<void> {
    if (n_context == 0 || n_context >= n_tokens) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("n_context is {}, expected at least 1 and less than the {} tokens",
                              n_context, n_tokens));
    }
    TRY(model->model->check_room(0, n_tokens - 1));  // the last token is only looked up
    const std::span ids(tokens, n_tokens);
    TRY(check_tokens(ids.last(1), model->model->card().n_vocab));
    const size_t n_scores = n_tokens - n_context;
    const TokenScores::Rows rows{std::span(logprobs, n_scores),
                                 std::span(likeliest, likeliest ? n_scores : 0)};
    return compute(*model->model, ids.first(n_tokens - 1), static_cast<uint32_t>(n_context - 1),
                   std::make_shared<TokenScores>(ids, n_context, rows));
  });
}

kvik_code kvik_embed(kvik_model* model, const kvik_token* tokens, size_t n_tokens,
                     kvik_pooling pooling, float* embedding, size_t n_floats, kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!tokens) return missing(error, "tokens");
  if (!embedding) return missing(error, "embedding");
  return guarded(error, [&]() -> Result<void> {
    TRY(model->model->check_room(0, n_tokens));
    TRY(check_size(n_floats, kvik_model_dimension(model)));
    if (pooling != KVIK_POOLING_MEAN && pooling != KVIK_POOLING_LAST) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("pooling is {}, expected KVIK_POOLING_MEAN or KVIK_POOLING_LAST",
                              static_cast<int>(pooling)));
    }
    EmbeddingRequest request;
    request.engine.prompt.assign(tokens, tokens + n_tokens);
    using enum EmbeddingRequest::Pooling;
    request.pooling = pooling == KVIK_POOLING_LAST ? kLast : kMean;
    TRY_ASSIGN(const auto values, model->model->embed(std::move(request)));
    std::ranges::copy(values, embedding);
    return {};
  });
}

kvik_code kvik_request_start(kvik_model* model, const char* method, const char* path,
                             const char* body, size_t n_bytes, kvik_request** request,
                             kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!method || !path) return missing(error, method ? "path" : "method");
  if (!body && n_bytes > 0) return missing(error, "body");
  if (!request) return missing(error, "request");
  return guarded(error, [&]() -> Result<void> {
    HttpRequest http;
    http.method = method;
    http.path = path_of_target(path);
    http.query = query_of_target(path);
    if (n_bytes > 0) http.body.assign(body, n_bytes);
    TRY_ASSIGN(auto started, LibraryRequest::start(model->model, std::move(http)));
    *request = new kvik_request{std::move(started)};
    return {};
  });
}

kvik_code kvik_request_next(kvik_request* request, int timeout_ms, kvik_event* event,
                            const char** data, size_t* n_bytes, kvik_error* error) {
  if (!request) return missing(error, "request");
  if (!event || !data) return missing(error, event ? "data" : "event");
  return guarded(error, [&]() -> Result<void> {
    std::optional<TimePoint> end;
    if (timeout_ms >= 0) {
      end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    }
    TRY_ASSIGN(const auto found, request->request->next(end));
    *event = static_cast<kvik_event>(found);
    const bool has_data = found == LibraryRequest::Event::kData;
    *data = has_data ? request->request->data().c_str() : nullptr;
    if (n_bytes) *n_bytes = has_data ? request->request->data().size() : 0;
    return {};
  });
}

kvik_code kvik_request_run(kvik_request* request, kvik_data_callback callback, void* user,
                           kvik_error* error) {
  if (!request) return missing(error, "request");
  if (!callback) return missing(error, "callback");
  return guarded(error, [&]() -> Result<void> {
    for (;;) {
      TRY_ASSIGN(const auto event, request->request->next(std::nullopt));
      if (event == LibraryRequest::Event::kEnd) return {};
      const std::string& data = request->request->data();
      if (callback(data.c_str(), data.size(), user) != 0) request->request->cancel();
    }
  });
}

kvik_code kvik_request_set_wake(kvik_request* request, kvik_wake_callback callback, void* user,
                                kvik_error* error) {
  if (!request) return missing(error, "request");
  return guarded(error, [&]() -> Result<void> {
    std::function<void()> wake;
    if (callback) wake = [callback, user] { callback(user); };
    request->request->set_wake(std::move(wake));
    return {};
  });
}

void kvik_wake_fd(void* user) {
  const uint64_t one = 1;
  // If the descriptor is full, its reader has been woken already.
  static_cast<void>(::write(static_cast<int>(reinterpret_cast<intptr_t>(user)), &one, sizeof one) ==
                    sizeof one);
}

void kvik_request_cancel(kvik_request* request) {
  if (request) request->request->cancel();
}
void kvik_request_free(kvik_request* request) { delete request; }

kvik_code kvik_session_create(kvik_model* model, uint32_t keep_s, kvik_session** session,
                              kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!session) return missing(error, "session");
  return guarded(error, [&]() -> Result<void> {
    TRY_ASSIGN(auto created, LibrarySession::create(model->model, std::chrono::seconds(keep_s)));
    *session = new kvik_session{std::move(created)};
    return {};
  });
}

kvik_code kvik_session_fork(const kvik_session* session, kvik_session** fork, kvik_error* error) {
  if (!session) return missing(error, "session");
  if (!fork) return missing(error, "fork");
  return guarded(error, [&]() -> Result<void> {
    *fork = new kvik_session{session->session->fork()};
    return {};
  });
}

void kvik_session_free(kvik_session* session) { delete session; }

kvik_code kvik_session_append(kvik_session* session, const kvik_token* tokens, size_t n_tokens,
                              kvik_error* error) {
  if (!session) return missing(error, "session");
  if (!tokens && n_tokens > 0) return missing(error, "tokens");
  return guarded(error, [&] { return session->session->append(std::span(tokens, n_tokens)); });
}

kvik_code kvik_session_truncate(kvik_session* session, size_t n_tokens, kvik_error* error) {
  if (!session) return missing(error, "session");
  return guarded(error, [&] { return session->session->truncate(n_tokens); });
}

const kvik_token* kvik_session_tokens(const kvik_session* session, size_t* n_tokens) {
  const auto tokens = session ? session->session->tokens() : std::span<const kvik_token>();
  if (n_tokens) *n_tokens = tokens.size();
  return tokens.empty() ? nullptr : tokens.data();
}

kvik_code kvik_session_prefill(kvik_session* session, kvik_error* error) {
  if (!session) return missing(error, "session");
  return guarded(error, [&] { return session->session->prefill({}); });
}

kvik_code kvik_session_logits(kvik_session* session, float* logits, size_t n_floats,
                              kvik_error* error) {
  if (!session) return missing(error, "session");
  if (!logits) return missing(error, "logits");
  return guarded(error, [&]() -> Result<void> {
    TRY(check_size(n_floats, session->session->model().card().n_vocab));
    return session->session->prefill(std::span(logits, n_floats));
  });
}

kvik_code kvik_session_generate(kvik_session* session, const char* options, kvik_request** request,
                                kvik_error* error) {
  if (!session) return missing(error, "session");
  if (!request) return missing(error, "request");
  return guarded(error, [&]() -> Result<void> {
    TRY_ASSIGN(auto started, session->session->generate(text_or_empty(options)));
    *request = new kvik_request{std::move(started)};
    return {};
  });
}

kvik_code kvik_session_save(const kvik_session* session, const char* path, kvik_error* error) {
  if (!session) return missing(error, "session");
  if (!path) return missing(error, "path");
  return guarded(error, [&] { return session->session->save(path); });
}

kvik_code kvik_session_load(kvik_model* model, const char* path, uint32_t keep_s,
                            kvik_session** session, kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!path) return missing(error, "path");
  if (!session) return missing(error, "session");
  return guarded(error, [&]() -> Result<void> {
    TRY_ASSIGN(auto loaded, LibrarySession::load(model->model, path, std::chrono::seconds(keep_s)));
    *session = new kvik_session{std::move(loaded)};
    return {};
  });
}

kvik_code kvik_session_export(kvik_session* session, const char* path, kvik_error* error) {
  if (!session) return missing(error, "session");
  if (!path) return missing(error, "path");
  return guarded(error, [&] { return session->session->export_pages(path); });
}

kvik_code kvik_model_import(kvik_model* model, const char* path, size_t* n_tokens,
                            kvik_error* error) {
  if (!model) return missing(error, "model");
  if (!path) return missing(error, "path");
  return guarded(error, [&]() -> Result<void> {
    TRY_ASSIGN(const uint32_t n, model->model->import_pages(path));
    if (n_tokens) *n_tokens = n;
    return {};
  });
}
