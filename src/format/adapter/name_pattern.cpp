#define PCRE2_CODE_UNIT_WIDTH 8
#include "format/adapter/name_pattern.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "format/quoted.h"

namespace kvik {
namespace {

constexpr size_t kMaxPatternBytes = size_t{16} << 10;
// Names have about a hundred bytes, so a pattern that needs more steps was not written for names.
constexpr uint32_t kMaxMatchSteps = 20'000;
constexpr uint32_t kMaxHeapKiB = 1 << 10;

// Returns whether dots are the only characters of the text with a special meaning.
bool is_plain(std::string_view text) {
  constexpr std::string_view kSpecial = "\\^$*+?()[]{}|\n";
  return text.find_first_of(kSpecial) == std::string_view::npos;
}

bool ends_in(std::string_view name, std::string_view plain) {
  if (name.size() < plain.size()) return false;
  const std::string_view end = name.substr(name.size() - plain.size());
  const auto matches = [](char of_name, char of_pattern) {
    return of_pattern == of_name || (of_pattern == '.' && of_name != '\n');
  };
  if (!std::ranges::equal(end, plain, matches)) return false;
  return end.size() == name.size() || name[name.size() - end.size() - 1] == '.';
}

}  // namespace

struct NamePattern::Code {
  explicit Code(pcre2_code* code)
      : code(code),
        context(pcre2_match_context_create(nullptr)),
        match(pcre2_match_data_create(1, nullptr)) {
    pcre2_set_match_limit(context, kMaxMatchSteps);
    pcre2_set_heap_limit(context, kMaxHeapKiB);
  }
  ~Code() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* code;
  pcre2_match_context* context;
  pcre2_match_data* match;
};

Result<NamePattern> NamePattern::compile(std::string_view text) {
  if (text.size() > kMaxPatternBytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} bytes, expected at most {}", text.size(), kMaxPatternBytes));
  }
  if (is_plain(text)) return NamePattern(std::string(text), nullptr);
  const std::string whole = fmt::format("(.*\\.)?({})$", text);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(),
                                   PCRE2_ANCHORED | PCRE2_NEVER_UTF | PCRE2_NEVER_BACKSLASH_C,
                                   &error, &at, nullptr);
  if (!code) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}, expected a name or a regular expression: {}", quoted(text),
                            reinterpret_cast<const char*>(message.data())));
  }
  return NamePattern(std::string(text), std::make_shared<const Code>(code));
}

Result<bool> NamePattern::matches(std::string_view name) const {
  if (!code_) return ends_in(name, text_);
  const int n = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0,
                            0, code_->match, code_->context);
  if (n >= 0) return true;
  if (n == PCRE2_ERROR_NOMATCH) return false;
  return fail(ErrorCode::kUnsupported,
              fmt::format("the expression {} takes more than {} steps for module {}, expected one "
                          "for names",
                          quoted(text_), kMaxMatchSteps, quoted(name)));
}

}  // namespace kvik
