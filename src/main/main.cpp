#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>

#include "base/log.h"
#include "main/commands.h"
#include "main/environment.h"
#include "main/interrupts.h"

namespace {

using namespace kvik;

int run_main(std::vector<std::string> arguments) {
  CLI::App app{"Kvik: an LLM inference engine whose heart is the KV cache", "kvik"};
  app.set_version_flag("--version", "kvik " KVIK_VERSION);
  app.set_config("--config", "", "read flags from this file; each command has a [section]");
  app.require_subcommand(1);
  app.fallthrough();

  std::map<std::string, Command> commands = {
      {"run", add_run(app)},
      {"serve", add_serve(app)},
      {"bench", add_bench(app)},
      {"show", add_show(app)},
      {"logits", add_logits(app)},
      {"tokenize", add_tokenize(app)},
      {"cache", add_cache(app)},
      {"plan", add_plan(app)},
      {"perplexity", add_perplexity(app)},
      {"quantize", add_quantize(app)},
      {"explain", add_explain(app)},
  };
  if (!arguments.empty() && !arguments[0].starts_with('-') && !commands.contains(arguments[0])) {
    return report(
        {.code = ErrorCode::kInvalidArgument,
         .message = fmt::format("'{}' is no command; kvik --help lists them", arguments[0])});
  }
  arguments = with_environment(app, std::move(arguments));
  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::Success& wanted) {  // --help, --version
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    return report({.code = ErrorCode::kInvalidArgument, .message = error.what()});
  }
  return commands.at(app.get_subcommands().front()->get_name())();
}

}  // namespace

int main(int argc, char** argv) {
  Interrupts::install();
  const std::string level = environment("KVIK_LOG");
  log::init(level.empty() ? "info" : level);
  return run_main(std::vector<std::string>(argv + 1, argv + argc));
}
