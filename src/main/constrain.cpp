#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/blanks.h"
#include "base/log.h"
#include "base/process/streams.h"
#include "constrain/front/gbnf.h"
#include "constrain/front/lark.h"
#include "constrain/front/plain_forms.h"
#include "constrain/trial.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"
#include "service/structured_output/structured_output.h"

namespace kvik {
namespace {

using constrain::Grammar;
using constrain::SchemaOptions;
using constrain::Trial;

struct ConstrainOptions {
  std::string vocabulary;
  std::optional<std::string> schema, regex, grammar, text, text_file, batch;
  std::string formats = "keep";
  std::string whitespace = "compact";
  std::string schema_language = "full";
};

// Returns the bytes of a file, or of stdin for "-".
Result<std::string> read_all(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kIo, fmt::format("{}: cannot be read", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

SchemaOptions schema_options(const ConstrainOptions& options) {
  SchemaOptions made;
  if (options.formats == "ignore") made.formats = SchemaOptions::Formats::kRemarks;
  if (options.whitespace == "flexible") made.whitespace.max_run = 64;
  if (options.whitespace == "spaced") made.whitespace = constrain::Whitespace::spaced();
  if (options.schema_language == "canonical") made.language = SchemaOptions::Language::kCanonical;
  return made;
}

Result<Grammar> read_grammar(const ConstrainOptions& options) {
  if (options.schema) {
    TRY_ASSIGN(const std::string schema, read_all(*options.schema));
    TRY_ASSIGN(auto made, constrain::compile_json_schema(schema, schema_options(options)));
    return std::move(made.grammar);
  }
  if (options.regex) return constrain::regex_grammar(*options.regex, {});
  TRY_ASSIGN(const std::string text, read_all(*options.grammar));
  if (grammar_kind(text) == StructuredOutput::Kind::kGbnf) return constrain::parse_gbnf(text, {});
  return constrain::parse_lark(text, schema_options(options));
}

// Returns 'a', or \x1f for a byte that is not printable ASCII.
std::string quoted_byte(uint8_t byte) {
  return byte >= 0x20 && byte < 0x7F ? fmt::format("'{}'", static_cast<char>(byte))
                                     : fmt::format("\\x{:02x}", byte);
}

// Returns a text such as "'0' to '9'" for each run of three bytes or more; shorter runs are listed
// byte by byte.
std::vector<std::string> readable_runs(std::string_view ascending) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < ascending.size();) {
    const auto first = static_cast<uint8_t>(ascending[i]);
    size_t n = 1;
    while (i + n < ascending.size() && static_cast<uint8_t>(ascending[i + n]) == first + n) ++n;
    if (n < 3) n = 1;
    const auto last = static_cast<uint8_t>(first + n - 1);
    runs.push_back(n == 1 ? quoted_byte(first)
                          : fmt::format("{} to {}", quoted_byte(first), quoted_byte(last)));
    i += n;
  }
  return runs;
}

// Returns the expected input, such as "only '0'", "only ',' or '}'", "only '0' to '9' or the end of
// the text".
std::string expected(const Trial::Outcome& outcome) {
  constexpr size_t kMaxRuns = 12;
  std::vector<std::string> choices = readable_runs(outcome.allowed);
  if (choices.size() > kMaxRuns) {
    choices.resize(kMaxRuns);
    choices.emplace_back("other bytes");
  }
  if (outcome.could_end) choices.emplace_back("the end of the text");
  if (choices.empty()) return "nothing";
  const std::string last = std::move(choices.back());
  choices.pop_back();
  if (choices.empty()) return "only " + last;
  return fmt::format("only {} or {}", fmt::join(choices, ", "), last);
}

Result<std::string> read_text(const ConstrainOptions& options) {
  if (options.text_file) return read_all(*options.text_file);
  return *options.text;
}

Result<int> check_text(const ConstrainOptions& options, const Trial& trial) {
  auto grammar = read_grammar(options);
  // Exit code 1 is reserved for text that does not match.
  if (!grammar) return fail(ErrorCode::kInvalidArgument, std::move(grammar.error().message));
  TRY_ASSIGN(const std::string text, read_text(options));
  const auto compiled = trial.compile(std::move(*grammar));
  TRY_ASSIGN(const auto outcome, trial.run(*compiled, text));
  if (outcome.accepted) {
    streams::print("OK\n");
    return kExitOk;
  }
  streams::print("at byte {} {} may follow\n", outcome.n_bytes, expected(outcome));
  const bool is_at_blank =
      outcome.n_bytes < text.size() && kBlanks.find(text[outcome.n_bytes]) != kBlanks.npos;
  if (options.schema && options.whitespace == "compact" && is_at_blank) {
    streams::print_error(
        "--whitespace compact, the default here, allows no blanks; spaced, the default of kvik run "
        "and kvik serve, allows one after ':' and ',', and flexible allows them anywhere");
  }
  return kExitFailed;
}

Result<int> run_batch(const ConstrainOptions& options, Trial& trial) {
  std::ifstream file(*options.batch);
  if (!file && *options.batch != "-") {
    return fail(ErrorCode::kIo, fmt::format("{}: cannot be read", *options.batch));
  }
  std::istream& lines = *options.batch == "-" ? std::cin : file;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    TRY_ASSIGN(const std::string outcome, trial.run_line(line));
    streams::write(outcome + "\n");
  }
  log::info("{}", trial.times());
  return kExitOk;
}

Result<int> run_constrain(const ConstrainOptions& options) {
  const int n_forms = int{options.schema.has_value()} + int{options.regex.has_value()} +
                      int{options.grammar.has_value()};
  const bool has_text = options.text || options.text_file;
  if (options.batch ? n_forms != 0 || has_text : n_forms != 1 || !has_text) {
    return fail(ErrorCode::kInvalidArgument,
                "expected one of --json-schema, --regex and --grammar with --text or --text-file, "
                "or --batch alone");
  }
  TRY_ASSIGN(const auto source, open_model(options.vocabulary));
  TRY_ASSIGN(const auto tokenizer, Tokenizer::from_metadata(source->metadata()));
  Trial trial(*tokenizer, schema_options(options));
  return options.batch ? run_batch(options, trial) : check_text(options, trial);
}

}  // namespace

void add_constrain(CommandLine& line) {
  auto options = std::make_shared<ConstrainOptions>();
  Flags flags =
      line.add("constrain", "Check a text against a JSON schema, a regular expression or a grammar",
               [options] { return finish(run_constrain(*options)); });
  flags.add({
      Flag("VOCAB", &options->vocabulary, "any model with a tokenizer").is_model().required(),
      {"--json-schema", &options->schema, "file with a JSON schema; -: stdin"},
      {"--regex", &options->regex, "regular expression that the whole text must match"},
      {"--grammar", &options->grammar, "file with a GBNF or Lark grammar; -: stdin"},
      Flag("--text", as_text(options->text), "the text to check").called("TEXT"),
      Flag("--text-file", &options->text_file, "file with the text to check; -: stdin")
          .called("FILE"),
      {"--batch", &options->batch,
       "check a file of lines {\"id\", \"schema\", \"tests\": [{\"valid\", \"data\"}]} and measure "
       "the time of token bitmasks; -: stdin"},
      Flag("--formats", &options->formats, "obey the schema's \"format\" keyword, or ignore it")
          .one_of({"keep", "ignore"})
          .with_default(),
      Flag("--whitespace", &options->whitespace,
           "whitespace in JSON. spaced: at most one space after ':' and ','; compact: none; "
           "flexible: up to 64 characters anywhere")
          .one_of({"spaced", "compact", "flexible"})
          .with_default(),
      Flag("--schema-language", &options->schema_language,
           "JSON that the schema allows. canonical, as answers are generated: closed objects, keys "
           "in the schema's order, plain numbers; full: all of JSON Schema")
          .one_of({"canonical", "full"})
          .with_default(),
  });
  flags.exclude("--text", {"--text-file"});
  flags.examples({
      "kvik constrain model.gguf --json-schema person.json --text '{\"name\":\"Bob\"}'",
      "kvik constrain model.gguf --regex '[0-9]{4}' --text 2026",
  });
}

}  // namespace kvik
