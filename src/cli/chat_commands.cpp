#include "cli/chat_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/blanks.h"
#include "base/quantity.h"
#include "base/text/nearest_name.h"
#include "cli/conversation_file.h"

namespace kvik {
namespace {

constexpr std::string_view kKeys = R"(
  """                   begins a message of several lines, """ at a line's end closes it
  \ at a line's end     goes on in the next line, and so does Alt-Enter
  Up, Down, Ctrl-R      what was typed before, also in earlier sessions
  Ctrl-C                stops the answer, or gives up the line
  Ctrl-D                leaves
)";

// Returns the first word and the rest, without the blanks between.
std::pair<std::string_view, std::string_view> split_word(std::string_view text) {
  const size_t end = std::min(text.find_first_of(kBlanks), text.size());
  return {text.substr(0, end), trimmed(text.substr(end))};
}

// Returns what to do instead of a command of other programs; empty for an unknown one.
std::string_view hint_for(std::string_view name) {
  if (name == "/retry" || name == "/regenerate") return "/regen regenerates the last answer";
  if (name == "/undo") {
    return "a message cannot be undone: /regen regenerates the last answer, /clear starts a new "
           "conversation";
  }
  return {};
}

}  // namespace

const std::vector<ChatCommands::Command>& ChatCommands::table() {
  static const std::vector<Command> commands = {
      {"/help", "", "this list", &ChatCommands::help},
      {"/set", "[NAME VALUE]", "temperature, seed, stats …; alone: shows them", &ChatCommands::set},
      {"/show", "", "model, context in use, settings, system prompt", &ChatCommands::show},
      {"/system", "[TEXT|none]", "sets the system prompt; alone: shows it", &ChatCommands::system},
      {"/save", "FILE", "saves the conversation as JSON", &ChatCommands::save},
      {"/load", "FILE", "continues a saved conversation", &ChatCommands::load},
      {"/clear", "", "forgets the conversation, not the system prompt", &ChatCommands::clear},
      {"/regen", "", "regenerates the last answer", &ChatCommands::regenerate},
      {"/stats", "", "time, speed and cached tokens so far", &ChatCommands::stats},
      {"/bye", "", "leaves", &ChatCommands::leave},
  };
  return commands;
}

const ChatCommands::Command* ChatCommands::find(std::string_view name) {
  if (name == "/?") name = "/help";
  if (name == "/exit" || name == "/quit") name = "/bye";
  const auto& commands = table();
  const auto found = std::ranges::find(commands, name, &Command::name);
  return found == commands.end() ? nullptr : &*found;
}

AfterCommand ChatCommands::run(std::string_view line) {
  const auto [name, arguments] = split_word(trimmed(line));
  const Command* command = find(name);
  if (!command) {
    const std::string_view advice = hint_for(name);
    if (!advice.empty()) return refuse(fmt::format("'{}' is not a command; {}.", name, advice));
    std::vector<std::string> names;
    for (const Command& known : table()) names.emplace_back(known.name);
    const std::string question = did_you_mean(name, names);
    if (!question.empty()) return refuse(fmt::format("'{}' is not a command{}", name, question));
    return refuse(fmt::format(
        "'{}' is not a command; /help lists them, and a blank before the slash makes it a message.",
        name));
  }
  if (command->arguments.empty() && !arguments.empty()) {
    return refuse(fmt::format("{} takes no argument, but got '{}'.", name, arguments));
  }
  return (this->*command->handler)(arguments);
}

AfterCommand ChatCommands::help(std::string_view) {
  std::string text;
  for (const Command& command : table()) {
    text += fmt::format("  {:<22}{}\n", fmt::format("{} {}", command.name, command.arguments),
                        command.help);
  }
  print(text + std::string(kKeys));
  return AfterCommand::kRead;
}

AfterCommand ChatCommands::set(std::string_view arguments) {
  if (arguments.empty()) {
    std::string text;
    for (const auto& [name, value] : list(state_.settings)) {
      text += fmt::format("  {:<22}{}\n", name, value);
    }
    print(text);
    return AfterCommand::kRead;
  }
  const auto [name, value] = split_word(arguments);
  auto changed = with(state_.settings, {name, value}, state_.initial, generator_.card());
  if (!changed) return refuse(changed.error().message + ".");
  state_.settings = std::move(*changed);
  for (const auto& [listed, shown] : list(state_.settings)) {
    if (listed == setting_name(name)) say(fmt::format("{} is {}.\n", listed, shown));
  }
  return AfterCommand::kRead;
}

std::string ChatCommands::describe_context() const {
  const uint32_t n_ctx = generator_.card().n_ctx_max;
  if (state_.conversation.messages().empty()) return fmt::format("empty, holds {} tokens", n_ctx);
  ChatRequest request = state_.prompt();
  request.add_generation_prompt = false;
  const auto n_tokens = generator_.count_tokens(request);
  const size_t n_messages = state_.conversation.n_turns();
  if (!n_tokens) {
    return fmt::format("{}, which the chat template refuses: {}", counted(n_messages, "message"),
                       n_tokens.error().message);
  }
  return fmt::format("{} of {} tokens, {}", *n_tokens, n_ctx, counted(n_messages, "message"));
}

AfterCommand ChatCommands::show(std::string_view) {
  const ModelCard& card = generator_.card();
  std::string text = fmt::format(
      "  {:<22}{}{}\n", "model", card.id,
      card.architecture.text().empty() ? std::string() : fmt::format(" ({})", card.architecture));
  text += fmt::format("  {:<22}{}\n", "context", describe_context());
  for (const auto& [name, value] : list(state_.settings)) {
    text += fmt::format("  {:<22}{}\n", name, value);
  }
  const std::string_view prompt = state_.conversation.system();
  text += fmt::format("  {:<22}{}\n", "system prompt", prompt.empty() ? "none" : prompt);
  print(text);
  return AfterCommand::kRead;
}

AfterCommand ChatCommands::system(std::string_view text) {
  if (text.empty()) {
    const std::string_view prompt = state_.conversation.system();
    if (prompt.empty()) {
      say("There is no system prompt; /system TEXT sets one.\n");
    } else {
      print(fmt::format("{}\n", prompt));
    }
    return AfterCommand::kRead;
  }
  state_.conversation.set_system(text == "none" ? std::string() : std::string(text));
  say(text == "none" ? "There is no system prompt any more.\n" : "The system prompt is set.\n");
  return AfterCommand::kRead;
}

AfterCommand ChatCommands::save(std::string_view path) {
  if (path.empty()) return refuse("/save needs the name of a file.");
  if (state_.conversation.messages().empty()) return refuse("There is nothing to save yet.");
  const auto saved =
      save_conversation(state_.conversation, generator_.card().id.text(), expanded(path));
  if (!saved) return refuse(saved.error().message + ".");
  say(fmt::format("Saved {} to {}{}.\n", counted(state_.conversation.n_turns(), "message"), path,
                  *saved == Saved::kReplaced ? ", in the place of an older conversation" : ""));
  return AfterCommand::kRead;
}

AfterCommand ChatCommands::load(std::string_view path) {
  if (path.empty()) return refuse("/load needs the name of a file.");
  auto loaded = load_conversation(expanded(path));
  if (!loaded) return refuse(loaded.error().message + ".");
  state_.conversation = std::move(*loaded);
  state_.n_regenerated = 0;
  say(fmt::format("Loaded {} from {}{}.\n", counted(state_.conversation.n_turns(), "message"), path,
                  state_.conversation.ends_with("user") ? "; /regen answers the last one" : ""));
  return AfterCommand::kRead;
}

AfterCommand ChatCommands::clear(std::string_view) {
  state_.conversation.clear();
  state_.n_regenerated = 0;
  say("Started a new conversation.\n");
  return AfterCommand::kRead;
}

AfterCommand ChatCommands::regenerate(std::string_view) {
  const Conversation& conversation = state_.conversation;
  if (conversation.ends_with("user") ||
      (conversation.ends_with("assistant") && conversation.n_turns() > 1)) {
    return AfterCommand::kRegenerate;
  }
  return refuse("There is no answer to regenerate.");
}

AfterCommand ChatCommands::stats(std::string_view) {
  print(kvik::describe(state_.totals) + "\n");
  return AfterCommand::kRead;
}

AfterCommand ChatCommands::leave(std::string_view) { return AfterCommand::kLeave; }

void ChatCommands::print(std::string_view text) { console_.write(text, TextStyle::kPlain); }

void ChatCommands::say(std::string_view text) { console_.write(text, TextStyle::kDim); }

AfterCommand ChatCommands::refuse(std::string_view sentence) {
  console_.write(fmt::format("{}\n", sentence), TextStyle::kError);
  return AfterCommand::kRead;
}

std::string ChatCommands::expanded(std::string_view path) const {
  if (path.starts_with("~/") && !home_.empty()) return home_ + std::string(path.substr(1));
  return std::string(path);
}

std::vector<std::string> completions(std::string_view typed) {
  std::vector<std::string> all = {"/help",  "/set ",  "/show",  "/system ", "/save ",
                                  "/load ", "/clear", "/regen", "/stats",   "/bye"};
  for (const std::string& name : setting_names()) all.push_back("/set " + name + " ");
  std::vector<std::string> found;
  for (std::string& line : all) {
    // "/s" should not list every setting.
    const bool is_deeper = line.starts_with("/set ") && line.size() > 5;
    if (line.starts_with(typed) && (!is_deeper || typed.starts_with("/set "))) {
      if (line != typed) found.push_back(std::move(line));
    }
  }
  return found;
}

}  // namespace kvik
