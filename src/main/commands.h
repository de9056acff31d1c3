#pragma once

#include "main/flags.h"

namespace kvik {

// Each function adds one subcommand with its flags and its handler. There is one file per
// subcommand.
void add_run(CommandLine& line);
void add_serve(CommandLine& line);
void add_ps(CommandLine& line);
void add_launch(CommandLine& line);
void add_bench(CommandLine& line);
void add_plan(CommandLine& line);
void add_explain(CommandLine& line);
void add_verify(CommandLine& line);
void add_show(CommandLine& line);
void add_tokenize(CommandLine& line);
void add_logits(CommandLine& line);
void add_cache(CommandLine& line);
void add_constrain(CommandLine& line);
void add_perplexity(CommandLine& line);
void add_quantize(CommandLine& line);
void add_adapter(CommandLine& line);
void add_pull(CommandLine& line);
void add_list(CommandLine& line);
void add_rm(CommandLine& line);
void add_cp(CommandLine& line);

}  // namespace kvik
