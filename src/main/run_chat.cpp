#include <string>

#include "base/printable.h"
#include "base/process/interrupts.h"
#include "cli/chat_session.h"
#include "main/environment.h"
#include "main/exit_code.h"
#include "main/run_options.h"
#include "main/terminal_console.h"
#include "service/check_request.h"

namespace kvik {
namespace {

// Returns the path of the chat history according to the XDG Base Directory Specification; empty if
// no home folder is known.
std::string history_file(const std::string& home) {
  const std::string state = environment("XDG_STATE_HOME");
  if (state.starts_with('/')) return state + "/kvik/chat_history";
  return home.empty() ? "" : home + "/.local/state/kvik/chat_history";
}

}  // namespace

Result<int> run_chat(Generator& generator, const RunOptions& options) {
  const std::string home = environment("HOME");
  const ChatSettings settings = options.settings();
  TRY(check_request(settings.request, generator.card()));
  TerminalConsole console(history_file(home));
  ChatSession session(generator, console,
                      {.settings = settings, .system = valid_utf8(options.system), .home = home});
  session.run();
  if (Interrupts::is_terminated()) return kExitInterrupted;
  return kExitOk;
}

}  // namespace kvik
