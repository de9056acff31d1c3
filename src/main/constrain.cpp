#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/process/streams.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"
#include "service/forms/answer_form.h"
#include "text/grammar/front/gbnf.h"
#include "text/grammar/front/lark.h"
#include "text/grammar/front/plain_forms.h"
#include "text/grammar/trial.h"

namespace kvik {
namespace {

using grammar::Grammar;
using grammar::SchemaOptions;
using grammar::Trial;

struct ConstrainOptions {
  std::string vocabulary;
  std::optional<std::string> schema, regex, grammar, text, batch;
  std::string formats = "keep";
  std::string whitespace = "compact";
};

// A file's bytes, or stdin's for "-".
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
  return made;
}

Result<Grammar> read_grammar(const ConstrainOptions& options) {
  if (options.schema) {
    TRY_ASSIGN(const std::string schema, read_all(*options.schema));
    TRY_ASSIGN(auto made, grammar::compile_json_schema(schema, schema_options(options)));
    return std::move(made.grammar);
  }
  if (options.regex) return grammar::regex_grammar(*options.regex, {});
  TRY_ASSIGN(const std::string text, read_all(*options.grammar));
  if (grammar_kind(text) == AnswerForm::Kind::kGbnf) return grammar::parse_gbnf(text, {});
  return grammar::parse_lark(text, schema_options(options));
}

// "a", "é" or \x1f: a byte as a person can read it.
std::string readable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    if (!text.empty()) text.push_back(' ');
    const auto byte = static_cast<uint8_t>(c);
    text += byte > 0x20 && byte < 0x7F ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return text;
}

Result<int> check_text(const ConstrainOptions& options, const Trial& trial) {
  auto grammar = read_grammar(options);
  // 1 is said of texts.
  if (!grammar) return fail(ErrorCode::kInvalidArgument, std::move(grammar.error().message));
  TRY_ASSIGN(const std::string text, read_all(*options.text));
  const auto constraint = trial.constraint(std::move(*grammar));
  TRY_ASSIGN(const auto outcome, trial.run(*constraint, text));
  if (outcome.accepted) return kExitOk;
  const std::string allowed = readable(outcome.allowed);
  const char* end = !outcome.could_end ? "" : allowed.empty() ? "the end" : "the end or one of ";
  streams::print("byte {}: {}{}\n", outcome.n_bytes, end, allowed);
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

Result<int> constrain(const ConstrainOptions& options) {
  const int n_forms = int{options.schema.has_value()} + int{options.regex.has_value()} +
                      int{options.grammar.has_value()};
  if (options.batch ? n_forms != 0 || options.text : n_forms != 1 || !options.text) {
    return fail(
        ErrorCode::kInvalidArgument,
        "expected one of --json-schema, --regex and --grammar with --text, or --batch alone");
  }
  TRY_ASSIGN(const auto source, open_model(options.vocabulary));
  TRY_ASSIGN(const auto tokenizer, Tokenizer::from_metadata(source->metadata()));
  Trial trial(*tokenizer, schema_options(options));
  return options.batch ? run_batch(options, trial) : check_text(options, trial);
}

}  // namespace

void add_constrain(CommandLine& line) {
  auto options = std::make_shared<ConstrainOptions>();
  Flags flags = line.add("constrain", "say whether texts keep to a form, and how fast masks are",
                         [options] { return finish(constrain(*options)); });
  flags.add({
      Flag("VOCAB", &options->vocabulary, "any model with a vocabulary").required(),
      {"--json-schema", &options->schema, "a file with a JSON Schema; - is stdin"},
      {"--regex", &options->regex, "a regular expression for the whole text"},
      {"--grammar", &options->grammar,
       "a file with a grammar, in llama.cpp's dialect or Lark's; - is stdin"},
      {"--text", &options->text, "a file with the text; - is stdin"},
      {"--batch", &options->batch,
       "a file of lines {\"id\", \"schema\", \"tests\": [{\"valid\", \"data\"}]}; - is stdin"},
      Flag("--formats", &options->formats, "whether \"format\" of a schema is kept")
          .one_of({"keep", "ignore"})
          .with_default(),
      Flag("--whitespace", &options->whitespace, "between the parts of JSON")
          .one_of({"compact", "flexible"})
          .with_default(),
  });
}

}  // namespace kvik
