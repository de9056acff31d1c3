// Counts the cached prompt tokens of agents' sessions, by where a cached prefix may end. Prints a
// Markdown table.
//
//     session_trace agent_sessions.jsonl [sessions]
//
// Each line is a session: {"r": [[t, n_prompt, n_answer, n_blocks, parent, shared, …], …]}. The
// prompt of a request shares its first `shared` blocks of 64 tokens with the prompt of request
// `parent` (-1: no parent). If these are all of the parent's blocks, it contains the parent's
// answer as well. Each session has its own cache, which is large enough for everything.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "prompt_caches.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kPageBytes = 64;
constexpr uint32_t kBlockTokens = 64;

struct Request {
  Tokens prompt;
  Tokens answer;
};

std::vector<Request> requests_of(const json::value& session) {
  std::vector<Request> requests;
  TokenId fresh = 0;
  for (const json::value& row : session.at("r").as_array()) {
    const auto field = [&](size_t i) { return row.at(i).to_number<int64_t>(); };
    Request request;
    request.prompt.reserve(field(1));
    if (const int64_t parent = field(4); parent >= 0) {
      const Request& before = requests[parent];
      request.prompt = before.prompt;
      if (field(5) >= static_cast<int64_t>(before.prompt.size() / kBlockTokens)) {
        request.prompt.insert(request.prompt.end(), before.answer.begin(), before.answer.end());
      } else {
        request.prompt.resize(field(5) * kBlockTokens);
      }
    }
    request.prompt.resize(std::min<size_t>(request.prompt.size(), field(1)));
    while (std::ssize(request.prompt) < field(1)) request.prompt.push_back(fresh++);
    for (int64_t i = 0; i < field(2); ++i) request.answer.push_back(fresh++);
    requests.push_back(std::move(request));
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
    if (request.prompt.empty() || request.answer.empty()) continue;
    result.n_prompt += request.prompt.size();
    result.n_found += cache.run(request.prompt, request.answer);
  }
  result.n_pages = cache.n_cached();
  return result;
}

void print(std::istream& sessions, int n_most) {
  constexpr std::array<std::pair<Reach, const char*>, 3> kReaches = {
      {{Reach::kToken, "to the token (f32, bf16)"},
       {Reach::kPageOrLast,
        "whole pages, and inside those where prompts and answers end (int8, int8/int4, int4)"},
       {Reach::kPage, "whole pages"}}};
  std::array<Result, kReaches.size()> sums;
  uint64_t n_requests = 0;
  std::string line;
  for (int i = 0; i < n_most && std::getline(sessions, line); ++i) {
    const auto requests = requests_of(json::parse(line));
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
  std::ifstream sessions(argc > 1 ? argv[1] : "");
  if (!sessions) {
    fmt::print(stderr, "usage: session_trace agent_sessions.jsonl [sessions]\n");
    return 2;
  }
  kvik::print(sessions, argc > 2 ? std::atoi(argv[2]) : 1 << 30);
}
