/* Kvik as a library: models, requests, sessions. See docs/guides/library.md.
 *
 * Errors. Functions that can fail return a kvik_code, and describe the error in `error`, which may
 * be NULL. No function throws, and none ends the process because of what it is given.
 *
 * Threads. A kvik_model may be used by any number of threads. A kvik_request or a kvik_session is
 * used by one thread at a time, except for kvik_request_cancel(). Callbacks must not throw.
 *
 * Lifetimes. A request or a session keeps its model: handles may be released in any order. Texts
 * and arrays that a function returns through `char **` or `kvik_token **` belong to the caller and
 * are released with kvik_free().
 *
 * Output. The library writes neither to stdout nor to stderr, and installs no signal handler.
 * Messages go to kvik_set_log().
 *
 * Compatibility. Functions, types and values of this header are only added within one major version
 * of the shared library (libkvik.so.0). Texts are UTF-8.
 */
#ifndef KVIK_KVIK_H
#define KVIK_KVIK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVIK_VERSION_MAJOR 0
#define KVIK_VERSION_MINOR 1
#define KVIK_VERSION_PATCH 0
/* One number that grows with each version. */
#define KVIK_VERSION (KVIK_VERSION_MAJOR * 1000000 + KVIK_VERSION_MINOR * 1000 + KVIK_VERSION_PATCH)

#if defined(__GNUC__)
#define KVIK_API __attribute__((visibility("default")))
#else
#define KVIK_API
#endif

/* Returns the version of the library at run time: "0.1.0". */
KVIK_API const char* kvik_version(void);
/* Returns KVIK_VERSION of the library at run time. */
KVIK_API int kvik_version_number(void);

typedef enum kvik_code {
  KVIK_OK = 0,
  KVIK_INVALID_ARGUMENT = 1, /* a value of the caller is wrong */
  KVIK_CONTEXT_LENGTH = 2,   /* the prompt is longer than the context */
  KVIK_NOT_FOUND = 3,        /* no such file, model, route */
  KVIK_UNSUPPORTED = 4,      /* well-formed, but not supported */
  KVIK_CORRUPT = 5,          /* a file violates its format */
  KVIK_EXHAUSTED = 6,        /* a queue, a budget or the memory is full */
  KVIK_UNAVAILABLE = 7,      /* used by another process, or ended */
  KVIK_FAILED = 8            /* the operating system refused, or the computation failed */
} kvik_code;

/* An error: its code and one sentence. The message ends with a NUL byte and is cut to the array. */
typedef struct kvik_error {
  int code; /* a kvik_code */
  char message[1020];
} kvik_error;

/* Releases a text or an array that this library returned; NULL is allowed. */
KVIK_API void kvik_free(void* memory);

typedef enum kvik_log_level {
  KVIK_LOG_DEBUG = 0,
  KVIK_LOG_INFO = 1,
  KVIK_LOG_WARN = 2,
  KVIK_LOG_ERROR = 3
} kvik_log_level;
/* Receives a message, on any thread, one at a time. Must not call this library. */
typedef void (*kvik_log_callback)(int level, const char* message, void* user);
/* Passes messages from `least` on to the callback, for the whole process; NULL: none, as at the
 * start. */
KVIK_API void kvik_set_log(kvik_log_level least, kvik_log_callback callback, void* user);

/* --- models --- */

typedef struct kvik_model kvik_model;
typedef uint32_t kvik_token;

/* Reports the progress of loading, on the caller's thread. */
typedef void (*kvik_progress_callback)(uint64_t n_done, uint64_t n_all, void* user);

/* Loads a model and starts its engine. `path`: a .gguf file, a folder in Hugging Face's format,
 * "demo" (a small embedded model), or "synthetic:PRESET". `options`: NULL, or a JSON object
 * (docs/guides/library.md lists its members): {"ctx": 8192, "threads": 4}. `progress` may be NULL.
 */
KVIK_API kvik_code kvik_model_open(const char* path, const char* options,
                                   kvik_progress_callback progress, void* user, kvik_model** model,
                                   kvik_error* error);
/* Releases the handle; NULL is allowed. The model itself is released with its last request and
 * session. */
KVIK_API void kvik_model_close(kvik_model* model);

/* Returns properties of the model as a JSON object: id, architecture, n_ctx, n_vocab, model_dim, …
 */
KVIK_API kvik_code kvik_model_info(const kvik_model* model, char** json, kvik_error* error);
/* Returns counters of the engine and of its KV cache as a JSON object. They are those after the
 * last step that has ended: the tokens that a request has just returned may not be counted yet. */
KVIK_API kvik_code kvik_model_statistics(const kvik_model* model, char** json, kvik_error* error);
KVIK_API uint32_t kvik_model_context(const kvik_model* model);    /* tokens */
KVIK_API uint32_t kvik_model_vocabulary(const kvik_model* model); /* tokens */
KVIK_API uint32_t kvik_model_dimension(const kvik_model* model);  /* floats of an embedding */

typedef enum kvik_tokenize_flags {
  KVIK_ADD_SPECIAL = 1,  /* add the tokens with which the model's texts begin and end */
  KVIK_PARSE_SPECIAL = 2 /* recognize the texts of special tokens */
} kvik_tokenize_flags;
/* `flags` is a sum of kvik_tokenize_flags. `tokens` may be set to NULL for an empty text. */
KVIK_API kvik_code kvik_tokenize(const kvik_model* model, const char* text, size_t n_bytes,
                                 unsigned flags, kvik_token** tokens, size_t* n_tokens,
                                 kvik_error* error);
/* The text ends with a NUL byte, which n_bytes does not count. It is not UTF-8 if the tokens end
 * within a character. */
KVIK_API kvik_code kvik_detokenize(const kvik_model* model, const kvik_token* tokens,
                                   size_t n_tokens, char** text, size_t* n_bytes,
                                   kvik_error* error);

/* Computes the raw logits after the last token: kvik_model_vocabulary() floats. Blocks. */
KVIK_API kvik_code kvik_logits(kvik_model* model, const kvik_token* tokens, size_t n_tokens,
                               float* logits, size_t n_floats, kvik_error* error);
/* Computes the raw logits after each token: [n_tokens][vocabulary]. Blocks. */
KVIK_API kvik_code kvik_all_logits(kvik_model* model, const kvik_token* tokens, size_t n_tokens,
                                   float* logits, size_t n_floats, kvik_error* error);
/* Computes the log probability of each token after those before it: n_tokens floats, of which the
 * first is 0. Blocks. */
KVIK_API kvik_code kvik_score(kvik_model* model, const kvik_token* tokens, size_t n_tokens,
                              float* logprobs, size_t n_floats, kvik_error* error);
/* Computes, for each token after the first n_context (at least 1), its log probability after those
 * before it and, if `likeliest` is not NULL, the most likely token in its place: n_tokens -
 * n_context values each. K and V of the context may come from the cache, so that several
 * continuations of one context cost little more than one. n_tokens may exceed the context of the
 * model by one. Blocks. */
KVIK_API kvik_code kvik_score_after(kvik_model* model, const kvik_token* tokens, size_t n_tokens,
                                    size_t n_context, float* logprobs, kvik_token* likeliest,
                                    kvik_error* error);
typedef enum kvik_pooling { KVIK_POOLING_MEAN = 0, KVIK_POOLING_LAST = 1 } kvik_pooling;
/* Computes an embedding of length 1: kvik_model_dimension() floats. Blocks. */
KVIK_API kvik_code kvik_embed(kvik_model* model, const kvik_token* tokens, size_t n_tokens,
                              kvik_pooling pooling, float* embedding, size_t n_floats,
                              kvik_error* error);

/* --- requests --- */

/* A request of Kvik's HTTP API, handled in this process without a network. */
typedef struct kvik_request kvik_request;

/* Starts a request: "POST", "/v1/chat/completions", and the body that docs/reference/http_api.md
 * describes. `body` may be NULL with n_bytes 0. Requests of one model are computed together, in
 * batches. Errors that concern the fields of the body name the field. */
KVIK_API kvik_code kvik_request_start(kvik_model* model, const char* method, const char* path,
                                      const char* body, size_t n_bytes, kvik_request** request,
                                      kvik_error* error);

typedef enum kvik_event {
  KVIK_EVENT_NONE = 0, /* nothing happened within the time */
  KVIK_EVENT_DATA =
      1, /* `data` is the whole answer or, with "stream": true, its next event, in JSON */
  KVIK_EVENT_END = 2 /* the request has ended: nothing follows */
} kvik_event;
/* Waits up to timeout_ms (0: not at all; negative: without a limit) for the next event. `data` ends
 * with a NUL byte, which n_bytes does not count, and is valid until the next call for this request.
 * After an error the request has ended. */
KVIK_API kvik_code kvik_request_next(kvik_request* request, int timeout_ms, kvik_event* event,
                                     const char** data, size_t* n_bytes, kvik_error* error);

/* Receives one event. Returns 0 to continue, any other value to cancel the request. */
typedef int (*kvik_data_callback)(const char* data, size_t n_bytes, void* user);
/* Calls the callback for each event, on this thread, and returns when the request has ended. */
KVIK_API kvik_code kvik_request_run(kvik_request* request, kvik_data_callback callback, void* user,
                                    kvik_error* error);

/* Called on a thread of the library when kvik_request_next() has something to return. Must not
 * block or call this library. */
typedef void (*kvik_wake_callback)(void* user);
/* Sets the callback; NULL: none. It is called once at once. After each call, kvik_request_next()
 * must be called until it returns KVIK_EVENT_NONE or KVIK_EVENT_END. After this returns, the
 * callback set before is not running and will not be called. */
KVIK_API kvik_code kvik_request_set_wake(kvik_request* request, kvik_wake_callback callback,
                                         void* user, kvik_error* error);

/* A kvik_wake_callback that writes eight bytes to the file descriptor whose number is `user`, an
 * eventfd or a pipe that does not block, for event loops: kvik_request_set_wake(request,
 * kvik_wake_fd, (void *)(intptr_t)fd, &error). */
KVIK_API void kvik_wake_fd(void* user);

/* Cancels the request: its next event is KVIK_EVENT_END. Any thread, also while another one waits
 * in kvik_request_next(). */
KVIK_API void kvik_request_cancel(kvik_request* request);
/* Cancels the request if it runs, and releases it; NULL is allowed. */
KVIK_API void kvik_request_free(kvik_request* request);

/* --- sessions --- */

/* A sequence of tokens whose K and V the cache holds. The pages belong to the model's cache:
 * sessions and requests with a common prefix share them. A page that was evicted is computed again,
 * with the same bits. */
typedef struct kvik_session kvik_session;

/* Creates an empty session. For keep_s seconds after each use, its pages are evicted only after all
 * others; 0: no preference. */
KVIK_API kvik_code kvik_session_create(kvik_model* model, uint32_t keep_s, kvik_session** session,
                                       kvik_error* error);
/* Creates a session with the same tokens. Shares their pages and copies nothing. */
KVIK_API kvik_code kvik_session_fork(const kvik_session* session, kvik_session** fork,
                                     kvik_error* error);
/* Releases the handle; NULL is allowed. A running request keeps the session. */
KVIK_API void kvik_session_free(kvik_session* session);

KVIK_API kvik_code kvik_session_append(kvik_session* session, const kvik_token* tokens,
                                       size_t n_tokens, kvik_error* error);
/* Removes all but the first n_tokens. */
KVIK_API kvik_code kvik_session_truncate(kvik_session* session, size_t n_tokens, kvik_error* error);
/* Returns the tokens, which are valid until the session is changed; NULL if there are none. */
KVIK_API const kvik_token* kvik_session_tokens(const kvik_session* session, size_t* n_tokens);

/* Computes the K and V of all tokens that the cache does not hold. Blocks. */
KVIK_API kvik_code kvik_session_prefill(kvik_session* session, kvik_error* error);
/* Computes the raw logits after the last token: kvik_model_vocabulary() floats. Blocks. */
KVIK_API kvik_code kvik_session_logits(kvik_session* session, float* logits, size_t n_floats,
                                       kvik_error* error);
/* Starts a completion of the session's tokens. `options`: NULL, or a JSON object with the fields of
 * /v1/completions without "prompt", "n" and "echo". kvik_request_next() appends the generated
 * tokens to the session as it returns them; until the request has ended, the session must not be
 * changed. */
KVIK_API kvik_code kvik_session_generate(kvik_session* session, const char* options,
                                         kvik_request** request, kvik_error* error);

/* Writes the tokens to a file. K and V are in the folder of the model's option "disk", if it has
 * one; otherwise they are computed again after loading. */
KVIK_API kvik_code kvik_session_save(const kvik_session* session, const char* path,
                                     kvik_error* error);
/* Creates a session from a file of kvik_session_save(). Errors: KVIK_INVALID_ARGUMENT for a file of
 * another model. */
KVIK_API kvik_code kvik_session_load(kvik_model* model, const char* path, uint32_t keep_s,
                                     kvik_session** session, kvik_error* error);

/* Computes the session and writes its pages to a file, as `kvik cache export` does. The model needs
 * the option "disk". Blocks. */
KVIK_API kvik_code kvik_session_export(kvik_session* session, const char* path, kvik_error* error);
/* Stores the pages of such a file in the folder of the model's option "disk", where all prompts
 * that begin alike find them. n_tokens, if it is not NULL, receives their number of tokens. The
 * file is not authenticated: its content decides what these prompts compute. Errors:
 * KVIK_INVALID_ARGUMENT for pages of another model, KV type or build. */
KVIK_API kvik_code kvik_model_import(kvik_model* model, const char* path, size_t* n_tokens,
                                     kvik_error* error);

#ifdef __cplusplus
}
#endif

#endif
