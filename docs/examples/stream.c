/* Prints the events of an answer: stream MODEL '{"messages": [{"role": "user", "content":
 * "Hello"}]}'
 *
 * cc -std=c11 stream.c $(pkg-config --cflags --libs kvik) -o stream
 */
#include <kvik/kvik.h>
#include <stdio.h>
#include <string.h>

/* Receives an event, such as {"choices": [{"delta": {"content": "Hello"}}]}. With "stream": true in
 * the request there are many. */
static int print_event(const char* data, size_t n_bytes, void* user) {
  size_t* n_events = user;
  ++*n_events;
  return fwrite(data, 1, n_bytes, stdout) == n_bytes && fputc('\n', stdout) != EOF ? 0 : 1;
}

static void print_progress(uint64_t n_done, uint64_t n_all, void* user) {
  (void)user;
  if (n_done == n_all) fprintf(stderr, "%llu bytes loaded\n", (unsigned long long)n_all);
}

/* Answers the request and returns the exit code. */
static int answer(kvik_model* model, const char* body) {
  kvik_request* request = NULL;
  kvik_error error;
  size_t n_events = 0;
  kvik_code code = kvik_request_start(model, "POST", "/v1/chat/completions", body, strlen(body),
                                      &request, &error);
  if (code == KVIK_OK) code = kvik_request_run(request, print_event, &n_events, &error);
  if (code == KVIK_OK) {
    fprintf(stderr, "%zu events by Kvik %s\n", n_events, kvik_version());
  } else {
    fprintf(stderr, "stream: %s\n", error.message);
  }
  kvik_request_free(request);
  return code == KVIK_OK ? 0 : 1;
}

int main(int argc, char** argv) {
  kvik_model* model = NULL;
  kvik_error error;
  int exit_code;
  if (argc != 3) {
    fprintf(stderr, "usage: stream MODEL REQUEST\n");
    return 2;
  }
  if (kvik_model_open(argv[1], "{\"ctx\": 2048}", print_progress, NULL, &model, &error) !=
      KVIK_OK) {
    fprintf(stderr, "stream: %s\n", error.message);
    return 1;
  }
  exit_code = answer(model, argv[2]);
  kvik_model_close(model);
  return exit_code;
}
