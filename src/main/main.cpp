#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <string_view>

#include "base/log.h"
#include "base/process/interrupts.h"
#include "base/process/streams.h"
#include "host/build_info.h"
#include "main/commands.h"
#include "main/environment.h"
#include "main/exit_code.h"

namespace {

// Runs before the libraries are initialized, which takes most of the time until main(): a signal
// that arrives during that time ends the process with the documented exit code.
void handle_signals() { kvik::Interrupts::install(kvik::kExitInterrupted); }
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = handle_signals;

constexpr std::string_view kLogLevels[] = {"trace", "debug", "info", "warn", "error", "off"};

// Executes the command line and returns the exit code.
int run_command(std::vector<std::string> arguments) {
  using namespace kvik;
  try {
    CommandLine line("kvik",
                     "Kvik: an LLM inference engine and server with a shared, exact KV cache",
                     version_text(environment("KVIK_ISA")));
    for (const auto add : {add_run,        add_serve,    add_ps,       add_launch,  add_bench,
                           add_show,       add_logits,   add_tokenize, add_cache,   add_plan,
                           add_perplexity, add_quantize, add_adapter,  add_explain, add_verify,
                           add_constrain,  add_pull,     add_list,     add_rm,      add_cp}) {
      add(line);
    }
    return line.run(std::move(arguments));
  } catch (const std::bad_alloc&) {  // requests handle their own
    streams::print_error(
        "kvik: out of memory: lower --kv-memory or --ctx, choose a smaller model, or raise the "
        "process's limit (ulimit -v)");
    return kExitFailed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace kvik;
  streams::reserve_standard_descriptors();
  const bool has_events = Interrupts::open_events();
  const std::string level = environment("KVIK_LOG");
  const bool is_level = std::ranges::count(kLogLevels, level) > 0;
  log::init(is_level ? level : "info");
  if (!has_events) {
    log::error("the system lets this process open no files (ulimit -n)");
    return kExitFailed;
  }
  if (!is_level && !level.empty()) {
    return report({.code = ErrorCode::kInvalidArgument,
                   .message = fmt::format("KVIK_LOG is '{}', expected one of {}", level,
                                          fmt::join(kLogLevels, ", "))});
  }
  return streams::finish(run_command(std::vector<std::string>(argv + 1, argv + argc)), kExitFailed);
}
