#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"

namespace kvik {
namespace {

struct TokenizeCommandOptions {
  std::string model;
  std::string text;
  bool no_bos = false;
  bool parse_special = false;
};

Result<int> tokenize(const TokenizeCommandOptions& options) {
  TRY_ASSIGN(const auto source, open_model(options.model));
  auto tokenizer = Tokenizer::from_metadata(source->metadata());
  if (!tokenizer) {
    return fail(tokenizer.error().code,
                fmt::format("{}: {}", options.model, tokenizer.error().message));
  }
  std::string text = options.text;
  if (text == "-") text = std::string(std::istreambuf_iterator<char>(std::cin), {});
  const auto ids =
      (*tokenizer)
          ->tokenize(text, {.add_bos = !options.no_bos, .parse_special = options.parse_special});
  streams::write(fmt::format("{}\n", fmt::join(ids, " ")));
  return kExitOk;
}

}  // namespace

void add_tokenize(CommandLine& line) {
  auto options = std::make_shared<TokenizeCommandOptions>();
  Flags flags = line.add("tokenize", "Print the token ids of a text",
                         [options] { return finish(tokenize(*options)); });
  flags.add({
      Flag("MODEL", &options->model, "any model with a tokenizer").is_model().required(),
      Flag("TEXT", &options->text, "the text; - reads it from stdin").required(),
      {"--no-bos", &options->no_bos, "omit the beginning-of-sequence token"},
      {"--parse-special", &options->parse_special,
       "read the text of special tokens as special tokens"},
  });
  flags.examples(
      {"kvik tokenize model.gguf \"Hello, world\"", "kvik tokenize model.gguf - < text.txt"});
}

}  // namespace kvik
