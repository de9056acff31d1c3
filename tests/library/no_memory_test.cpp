#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "library/opened_model.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes

namespace {

constexpr size_t kMiB = size_t{1} << 20;

void set_memory_limit(rlim_t n_bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = n_bytes;
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::abort();
}

size_t mapped_bytes() {
  size_t n_pages = 0;
  std::ifstream("/proc/self/statm") >> n_pages;
  return n_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

kvik_code complete(kvik_model* model, const std::string& body, kvik_error* error) {
  kvik_request* started = nullptr;
  const kvik_code code = kvik_request_start(model, "POST", "/v1/completions", body.data(),
                                            body.size(), &started, error);
  const Request request(started);
  if (code != KVIK_OK) return code;
  const auto ignore = [](const char*, size_t, void*) { return 0; };
  return kvik_request_run(started, ignore, nullptr, error);
}

// Runs requests while this process may map 1 MiB more than it has, then without a limit, and closes
// the model. Ends the process with 0 if each request has ended, in whichever way, and the last one
// succeeded. Many requests at once, each with the log probabilities of its prompt, so that some of
// them or their steps find no memory.
[[noreturn]] void run_out_of_memory() {
  constexpr unsigned kLimitS = 60;  // SIGALRM ends a process that hangs
  constexpr int kRequests = 64;
  alarm(kLimitS);
  Model model = open_demo();
  std::string body = R"({"max_tokens": 40, "ignore_eos": true, "prompt_logprobs": 20, "prompt": ")";
  for (int i = 0; i < 100; ++i) body += "ROMEO: " + std::to_string(i);
  body += "\"}";
  set_memory_limit(mapped_bytes() + kMiB);
  int n_failed = 0;
  std::vector<Request> running;
  for (int i = 0; i < kRequests; ++i) {
    kvik_request* started = nullptr;
    const kvik_code code = kvik_request_start(model.get(), "POST", "/v1/completions", body.data(),
                                              body.size(), &started, nullptr);
    n_failed += code != KVIK_OK;
    running.emplace_back(started);
  }
  const auto ignore = [](const char*, size_t, void*) { return 0; };
  for (const Request& request : running) {
    if (request) n_failed += kvik_request_run(request.get(), ignore, nullptr, nullptr) != KVIK_OK;
  }
  running.clear();
  set_memory_limit(RLIM_INFINITY);
  kvik_error error{};
  const bool recovers = complete(model.get(), body, &error) == KVIK_OK;
  model.reset();
  std::fprintf(stderr, "%d of %d failed; then: %s\n", n_failed, kRequests,
               recovers ? "succeeded" : error.message);
  std::exit(recovers && n_failed > 0 ? 0 : 1);
}

}  // namespace

TEST(LibraryNoMemoryDeathTest, requests_fail_and_the_model_goes_on) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_out_of_memory(), testing::ExitedWithCode(0), "then: succeeded");
}

#endif
