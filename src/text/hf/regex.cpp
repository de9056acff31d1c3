#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/hf/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>

namespace kvik::hf {
namespace {

constexpr size_t kMaxPatternBytes = size_t{64} << 10;
constexpr uint32_t kMaxMatchSteps = 10'000'000;  // takes tens of milliseconds
constexpr uint32_t kMaxDepth = 100'000;
constexpr uint32_t kMaxHeapKiB = 64 << 10;
constexpr size_t kMaxStackBytes = size_t{1} << 20;

// Memory for matching, one per thread.
struct Workspace {
  Workspace()
      : context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(size_t{32} << 10, kMaxStackBytes, nullptr)),
        match(pcre2_match_data_create(1, nullptr)) {
    pcre2_set_match_limit(context, kMaxMatchSteps);
    pcre2_set_depth_limit(context, kMaxDepth);
    pcre2_set_heap_limit(context, kMaxHeapKiB);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  Workspace(const Workspace&) = delete;
  ~Workspace() {
    pcre2_match_data_free(match);
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
  }

  pcre2_match_context* context;
  pcre2_jit_stack* stack;
  pcre2_match_data* match;
};

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* code) : code(code) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  pcre2_code* code;
};

Result<Regex> Regex::compile(const Pattern& pattern) {
  const std::string text = pattern.is_regex ? to_pcre2(pattern.text) : pattern.text;
  if (text.size() > kMaxPatternBytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("tokenizer.json has a regex of {} bytes, expected at most {}",
                            text.size(), kMaxPatternBytes));
  }
  // ^ and $ match at line boundaries, as in Oniguruma.
  constexpr uint32_t kForRegex = PCRE2_UCP | PCRE2_MULTILINE;
  const uint32_t options =
      PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | (pattern.is_regex ? kForRegex : PCRE2_LITERAL);
  int error = 0;
  PCRE2_SIZE at = 0;
  auto* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options,
                                   &error, &at, context);
  pcre2_compile_context_free(context);
  if (!code) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("tokenizer.json has the regex '{}', expected one that can be read: {}",
                    pattern.text.substr(0, 200), reinterpret_cast<const char*>(message.data())));
  }
  // JIT compilation is optional: without it the results are the same, but slower.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Regex(std::make_shared<const Code>(code));
}

std::optional<Regex::Match> Regex::find(std::string_view text, size_t from, bool& gave_up) const {
  static thread_local Workspace workspace;
  const int n = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                            from, 0, workspace.match, workspace.context);
  gave_up |= n < 0 && n != PCRE2_ERROR_NOMATCH;
  if (n < 0) return std::nullopt;
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(workspace.match);
  return Match{std::max<size_t>(found[0], from), std::max<size_t>(found[1], from)};
}

std::string replace_all(const Regex& regex, std::string_view text, std::string_view content) {
  std::string out;
  size_t done = 0;
  bool gave_up = false;
  regex.each_match(text, gave_up, [&](const Regex::Match& match) {
    out.append(text.substr(done, match.begin - done)).append(content);
    done = match.end;
  });
  return out.append(text.substr(std::min(done, text.size())));
}

}  // namespace kvik::hf
