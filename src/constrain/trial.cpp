#include "constrain/trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "base/json/json.h"
#include "constrain/schema/compact_json.h"

namespace kvik::constrain {
namespace {

// Lines are trusted, so they may be larger than a client's input.
constexpr JsonLimits kLineLimits{
    .max_bytes = size_t{64} << 20, .max_values = 4'000'000, .max_depth = 1000};

// Measures the processor time of this thread.
class Stopwatch {
 public:
  double microseconds() const { return now() - begin_; }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
  }
  double begin_ = now();
};

double quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5)];
}

}  // namespace

Trial::Trial(const Tokenizer& tokenizer, SchemaOptions options)
    : tokenizer_(tokenizer),
      options_(options),
      vocabulary_(std::make_shared<VocabularyTrie>(tokenizer)) {}

template <class Time>
Result<Trial::Outcome> Trial::run(CompiledGrammar& compiled, std::string_view text,
                                  const Time& time) const {
  GrammarMatcher matcher = compiled.start();
  TokenBitmask mask(vocabulary_->n_vocab());
  Outcome outcome;
  for (const TokenId id : tokenizer_.tokenize(text, {.add_bos = false, .parse_special = false})) {
    const std::string_view rest = text.substr(outcome.n_bytes);
    const std::string& bytes = vocabulary_->bytes(id);
    const Stopwatch watch;
    TRY(matcher.mask(mask));
    time(watch.microseconds());
    ++outcome.n_tokens;
    if (rest.starts_with(bytes) && !bytes.empty()) {
      TRY_ASSIGN(const bool allowed, matcher.allows(id));
      if (mask.allows(id) != allowed) {
        return fail(ErrorCode::kCorrupt, fmt::format("the mask is wrong about token {}", id));
      }
    }
    // The token may begin with a space that the tokenizer added, or may spell the text differently.
    const std::string_view piece = rest.starts_with(bytes)  ? std::string_view(bytes)
                                   : bytes.starts_with(' ') ? rest.substr(0, bytes.size() - 1)
                                                            : rest.substr(0, bytes.size());
    TRY_ASSIGN(const size_t n_read, matcher.accept_bytes(piece));
    outcome.n_bytes += n_read;
    if (n_read < piece.size()) break;
  }
  if (outcome.n_bytes < text.size()) {
    TRY_ASSIGN(const size_t n_read, matcher.accept_bytes(text.substr(outcome.n_bytes)));
    outcome.n_bytes += n_read;
  }
  TRY_ASSIGN(outcome.could_end, matcher.is_complete());
  outcome.accepted = outcome.n_bytes == text.size() && outcome.could_end;
  if (!outcome.accepted) {
    TRY_ASSIGN(outcome.allowed, matcher.next_bytes());
  }
  return outcome;
}

Result<Trial::Outcome> Trial::run(CompiledGrammar& compiled, std::string_view text) const {
  return run(compiled, text, [](double) {});
}

Result<std::string> Trial::run_line(std::string_view line) {
  TRY_ASSIGN(const Json json, parse_json(line, kLineLimits));
  const Json* schema = json.find("schema");
  const Json* tests = json.find("tests");
  const Json* id = json.find("id");
  if (!schema || !tests || !id) {
    return fail(ErrorCode::kInvalidArgument, R"(expected {"id", "schema", "tests"} in each line)");
  }
  const std::string text = compact_json(*schema);
  const Stopwatch watch;
  auto grammar = compile_json_schema(text, options_);
  const double compile_us = watch.microseconds();
  compile_us_.push_back(compile_us);
  if (!grammar) {
    return fmt::format(R"({{"id":{},"compiled":false,"error":{},"compile_us":{:.1f},)"
                       R"("tests":[],"mask_us":[0,0,0],"tokens":0}})",
                       compact_json(*id), compact_json(grammar.error().message), compile_us);
  }
  const auto compiled = compile(std::move(grammar->grammar));
  std::vector<double> times;
  std::vector<bool> accepted;
  size_t n_tokens = 0;
  std::string error = "null";
  for (const Json& test : tests->list()) {
    const Json* data = test.find("data");
    if (!data) return fail(ErrorCode::kInvalidArgument, R"(expected "data" in each test)");
    const auto outcome =
        run(*compiled, compact_json(*data), [&](double us) { times.push_back(us); });
    accepted.push_back(outcome && outcome->accepted);
    if (!outcome) error = compact_json(outcome.error().message);
    n_tokens += outcome ? outcome->n_tokens : 0;
  }
  mask_us_.insert(mask_us_.end(), times.begin(), times.end());
  std::ranges::sort(times);
  return fmt::format(R"({{"id":{},"compiled":true,"error":{},"compile_us":{:.1f},"tests":[{}],)"
                     R"("mask_us":[{:.2f},{:.2f},{:.2f}],"tokens":{}}})",
                     compact_json(*id), error, compile_us, fmt::join(accepted, ","),
                     quantile(times, 0.5), quantile(times, 0.99), quantile(times, 1), n_tokens);
}

std::string Trial::times() {
  std::ranges::sort(compile_us_);
  std::ranges::sort(mask_us_);
  double sum = 0;
  for (const double us : mask_us_) sum += us;
  return fmt::format(
      "{} grammars compiled in p50 {:.0f}, p99 {:.0f}, at most {:.0f} µs; {} masks made in {:.1f} "
      "on "
      "average, p50 {:.2f}, p90 {:.1f}, p99 {:.1f}, at most {:.0f} µs",
      compile_us_.size(), quantile(compile_us_, 0.5), quantile(compile_us_, 0.99),
      quantile(compile_us_, 1), mask_us_.size(), sum / std::max<double>(1, mask_us_.size()),
      quantile(mask_us_, 0.5), quantile(mask_us_, 0.9), quantile(mask_us_, 0.99),
      quantile(mask_us_, 1));
}

}  // namespace kvik::constrain
