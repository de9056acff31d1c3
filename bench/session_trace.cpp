// Counts the cached prompt tokens of agents' sessions, by where a cached prefix may end. Prints a
// Markdown table.
//
//     session_trace agent_sessions.jsonl [sessions]
//
// request_trace.h has the format. Each session has its own cache, which is large enough for
// everything.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "prompt_caches.h"
#include "request_trace.h"

namespace kvik {
namespace {

constexpr size_t kPageBytes = 64;

struct Request {
  Tokens prompt;
  Tokens answer;
};

std::vector<Request> requests_of(const Conversation& session) {
  std::vector<Request> requests;
  for (const ScriptedTurn& turn : session.script) {
    Tokens answer(turn.answer.n);
    std::iota(answer.begin(), answer.end(), turn.answer.first);
    requests.push_back({.prompt = turn.prompt_tokens(), .answer = std::move(answer)});
  }
  return requests;
}

// Positions at which a cached prefix may end.
enum class Reach { kToken, kPageOrLast, kPage };

KvLayout layout_of(Reach reach, uint32_t n_pages) {
  KvLayout layout(kPageBytes);
  if (reach == Reach::kToken) return layout;
  layout.n_open_slots = 1;
  layout.open_page_bytes = 4 * kPageBytes;
  // An open page that does not fit is not stored.
  if (reach == Reach::kPage) layout.open_page_bytes = uint64_t{n_pages + 1} * kPageBytes;
  return layout;
}

struct Result {
  uint64_t n_prompt = 0;
  uint64_t n_found = 0;
  uint64_t n_pages = 0;  // at the end of the session
};

Result play(const std::vector<Request>& requests, Reach reach) {
  uint64_t n_pages = 0;
  for (const Request& r : requests) n_pages += pages_for(r.prompt.size() + r.answer.size()) + 5;
  Pages cache(n_pages, layout_of(reach, static_cast<uint32_t>(n_pages)));
  Result result;
  for (const Request& request : requests) {
    result.n_prompt += request.prompt.size();
    result.n_found += cache.run(request.prompt, request.answer);
  }
  result.n_pages = cache.n_cached();
  return result;
}

void print(const std::vector<Conversation>& sessions) {
  constexpr std::array<std::pair<Reach, const char*>, 3> kReaches = {
      {{Reach::kToken, "to the token (f32, bf16)"},
       {Reach::kPageOrLast,
        "whole pages, and inside those where prompts and answers end (int8, int8/int4, int4)"},
       {Reach::kPage, "whole pages"}}};
  std::array<Result, kReaches.size()> sums;
  uint64_t n_requests = 0;
  for (const Conversation& session : sessions) {
    const auto requests = requests_of(session);
    n_requests += requests.size();
    for (size_t k = 0; k < kReaches.size(); ++k) {
      const Result r = play(requests, kReaches[k].first);
      sums[k].n_prompt += r.n_prompt;
      sums[k].n_found += r.n_found;
      sums[k].n_pages += r.n_pages;
    }
  }
  fmt::print("{} requests, {} prompt tokens\n\n", n_requests, sums[0].n_prompt);
  fmt::print(
      "| found | prompt tokens found | computed for a request | pages at the end "
      "|\n|---|---|---|---|\n");
  for (size_t k = 0; k < kReaches.size(); ++k) {
    const Result& r = sums[k];
    fmt::print("| {} | {:.3f}% | {:.1f} | {} |\n", kReaches[k].second,
               100.0 * r.n_found / r.n_prompt,
               static_cast<double>(r.n_prompt - r.n_found) / n_requests, r.n_pages);
  }
}

}  // namespace
}  // namespace kvik

int main(int argc, char** argv) {
  kvik::TraceScale scale{.divide_tokens = 1};
  if (argc > 2) scale.n_max = static_cast<uint32_t>(std::atoi(argv[2]));
  const auto sessions =
      argc > 1 ? kvik::read_sessions(argv[1], scale) : std::vector<kvik::Conversation>();
  if (sessions.empty()) {
    fmt::print(stderr, "usage: session_trace agent_sessions.jsonl [sessions]\n");
    return 2;
  }
  kvik::print(sessions);
}
