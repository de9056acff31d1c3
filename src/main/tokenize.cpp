#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "main/commands.h"
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
  fmt::print("{}\n", fmt::join(ids, " "));
  return kExitOk;
}

}  // namespace

Command add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeCommandOptions>();
  CLI::App& command = *app.add_subcommand("tokenize", "print the token ids of a text");
  command.add_option("MODEL", options->model, "any model with a vocabulary")->required();
  command.add_option("TEXT", options->text, "the text; - reads stdin byte for byte")->required();
  command.add_flag("--no-bos", options->no_bos, "leave out the beginning-of-sequence token");
  command.add_flag("--parse-special", options->parse_special,
                   "special tokens in the text are meant");
  return [options] { return finish(tokenize(*options)); };
}

}  // namespace kvik
