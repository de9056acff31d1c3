#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

#include "main/exit_code.h"

namespace kvik {

// What one subcommand does once its flags are parsed.
using Command = std::function<int()>;

// Each adds its subcommand with its flags to the app, and says what runs it. One file per
// subcommand.
Command add_run(CLI::App& app);
Command add_serve(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_show(CLI::App& app);
Command add_tokenize(CLI::App& app);
Command add_logits(CLI::App& app);
Command add_cache(CLI::App& app);
Command add_perplexity(CLI::App& app);
Command add_quantize(CLI::App& app);

}  // namespace kvik
