// C++17 classes over kvik.h: handles that release themselves, strings and vectors, and exceptions
// for errors. Everything is inline, so that the shared library exports C functions alone. See
// kvik.h for the meaning of each function, for threads and for lifetimes.
#ifndef KVIK_KVIK_HPP
#define KVIK_KVIK_HPP

#include <kvik/kvik.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik {

using Token = kvik_token;
using Tokens = std::vector<Token>;

class Error : public std::runtime_error {
 public:
  explicit Error(const kvik_error& error)
      : std::runtime_error(error.message), code_(static_cast<kvik_code>(error.code)) {}
  kvik_code code() const noexcept { return code_; }

 private:
  kvik_code code_;
};

namespace detail {

// Calls a function whose last parameter is a kvik_error.
template <class Function, class... Arguments>
void call(Function function, Arguments... arguments) {
  kvik_error error{};
  if (function(arguments..., &error) != KVIK_OK) throw Error(error);
}

struct Release {
  void operator()(void* memory) const { kvik_free(memory); }
  void operator()(kvik_model* model) const { kvik_model_close(model); }
  void operator()(kvik_request* request) const { kvik_request_free(request); }
  void operator()(kvik_session* session) const { kvik_session_free(session); }
};
template <class T>
using Handle = std::unique_ptr<T, Release>;

}  // namespace detail

inline std::string version() { return kvik_version(); }

// The events of an answer: JSON texts.
class Request {
 public:
  explicit Request(kvik_request* request) : request_(request) {}

  // Waits for the next event; std::nullopt at the end.
  std::optional<std::string> next() {
    kvik_event event = KVIK_EVENT_NONE;
    const char* data = nullptr;
    size_t n_bytes = 0;
    detail::call(kvik_request_next, get(), -1, &event, &data, &n_bytes);
    if (event != KVIK_EVENT_DATA) return std::nullopt;
    return std::string(data, n_bytes);
  }
  // Waits for the whole answer, which must not be a stream.
  std::string answer() { return next().value_or(std::string()); }
  void cancel() { kvik_request_cancel(get()); }
  kvik_request* get() const { return request_.get(); }

 private:
  detail::Handle<kvik_request> request_;
};

// A sequence of tokens whose K and V are cached.
class Session {
 public:
  explicit Session(kvik_session* session) : session_(session) {}

  Session fork() const {
    kvik_session* copy = nullptr;
    detail::call(kvik_session_fork, static_cast<const kvik_session*>(get()), &copy);
    return Session(copy);
  }
  void append(const Tokens& tokens) {
    detail::call(kvik_session_append, get(), tokens.data(), tokens.size());
  }
  void truncate(size_t n_tokens) { detail::call(kvik_session_truncate, get(), n_tokens); }
  Tokens tokens() const {
    size_t n = 0;
    const Token* first = kvik_session_tokens(get(), &n);
    return Tokens(first, first + n);
  }
  void prefill() { detail::call(kvik_session_prefill, get()); }
  // `options`: fields of /v1/completions, in JSON; empty: none.
  Request generate(const std::string& options = {}) {
    kvik_request* request = nullptr;
    detail::call(kvik_session_generate, get(), options.c_str(), &request);
    return Request(request);
  }
  void save(const std::string& path) const {
    detail::call(kvik_session_save, static_cast<const kvik_session*>(get()), path.c_str());
  }
  void export_pages(const std::string& path) {
    detail::call(kvik_session_export, get(), path.c_str());
  }
  kvik_session* get() const { return session_.get(); }

 private:
  detail::Handle<kvik_session> session_;
};

class Model {
 public:
  // `options`: a JSON object; empty: none.
  explicit Model(const std::string& path, const std::string& options = {}) {
    kvik_model* model = nullptr;
    detail::call(kvik_model_open, path.c_str(), options.c_str(),
                 static_cast<kvik_progress_callback>(nullptr), static_cast<void*>(nullptr), &model);
    model_.reset(model);
  }

  std::string info() const { return text_of(kvik_model_info); }
  std::string statistics() const { return text_of(kvik_model_statistics); }
  uint32_t context() const { return kvik_model_context(get()); }
  uint32_t vocabulary() const { return kvik_model_vocabulary(get()); }
  uint32_t dimension() const { return kvik_model_dimension(get()); }

  Tokens tokenize(std::string_view text, unsigned flags = KVIK_ADD_SPECIAL) const {
    Token* first = nullptr;
    size_t n = 0;
    detail::call(kvik_tokenize, static_cast<const kvik_model*>(get()), text.data(), text.size(),
                 flags, &first, &n);
    const detail::Handle<Token> owner(first);
    return Tokens(first, first + n);
  }
  std::string detokenize(const Tokens& tokens) const {
    char* text = nullptr;
    size_t n = 0;
    detail::call(kvik_detokenize, static_cast<const kvik_model*>(get()), tokens.data(),
                 tokens.size(), &text, &n);
    const detail::Handle<char> owner(text);
    return std::string(text, n);
  }
  std::vector<float> logits(const Tokens& tokens) {
    return floats_of(kvik_logits, tokens, vocabulary());
  }
  // [tokens][vocabulary]
  std::vector<float> all_logits(const Tokens& tokens) {
    return floats_of(kvik_all_logits, tokens, tokens.size() * vocabulary());
  }
  std::vector<float> score(const Tokens& tokens) {
    return floats_of(kvik_score, tokens, tokens.size());
  }
  // Log probabilities of the tokens after the first n_context, and the most likely tokens.
  struct Scores {
    std::vector<float> logprobs;
    Tokens likeliest;
  };
  Scores score_after(const Tokens& tokens, size_t n_context) {
    const size_t n = n_context < tokens.size() ? tokens.size() - n_context : 1;
    Scores out{std::vector<float>(n), Tokens(n)};
    detail::call(kvik_score_after, get(), tokens.data(), tokens.size(), n_context,
                 out.logprobs.data(), out.likeliest.data());
    return out;
  }
  std::vector<float> embed(const Tokens& tokens, kvik_pooling pooling = KVIK_POOLING_MEAN) {
    std::vector<float> out(dimension());
    detail::call(kvik_embed, get(), tokens.data(), tokens.size(), pooling, out.data(), out.size());
    return out;
  }

  // A request of the HTTP API: request("/v1/chat/completions", body).
  Request request(const std::string& path, std::string_view body,
                  const std::string& method = "POST") {
    kvik_request* request = nullptr;
    detail::call(kvik_request_start, get(), method.c_str(), path.c_str(), body.data(), body.size(),
                 &request);
    return Request(request);
  }

  Session session(uint32_t keep_s = 0) {
    kvik_session* session = nullptr;
    detail::call(kvik_session_create, get(), keep_s, &session);
    return Session(session);
  }
  Session load_session(const std::string& path, uint32_t keep_s = 0) {
    kvik_session* session = nullptr;
    detail::call(kvik_session_load, get(), path.c_str(), keep_s, &session);
    return Session(session);
  }
  // Returns the number of tokens.
  size_t import_pages(const std::string& path) {
    size_t n_tokens = 0;
    detail::call(kvik_model_import, get(), path.c_str(), &n_tokens);
    return n_tokens;
  }
  kvik_model* get() const { return model_.get(); }

 private:
  template <class Function>
  std::string text_of(Function function) const {
    char* text = nullptr;
    detail::call(function, static_cast<const kvik_model*>(get()), &text);
    return detail::Handle<char>(text).get();
  }
  template <class Function>
  std::vector<float> floats_of(Function function, const Tokens& tokens, size_t n_floats) {
    std::vector<float> out(n_floats);
    detail::call(function, get(), tokens.data(), tokens.size(), out.data(), out.size());
    return out;
  }

  detail::Handle<kvik_model> model_;
};

}  // namespace kvik

#endif
