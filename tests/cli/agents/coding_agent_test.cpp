#include "cli/agents/coding_agent.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <string>

namespace kvik {
namespace {

AgentServer server() {
  return {.url = "http://127.0.0.1:9000", .api_key = "", .model = "org/some model", .n_ctx = 40960};
}

TEST(CodingAgents, every_one_gets_url_and_model) {
  for (const CodingAgent& agent : coding_agents()) {
    EXPECT_EQ(find_agent(agent.name), &agent);
    const std::string script = script_of(agent.setup(server()), {});
    EXPECT_NE(script.find("http://127.0.0.1:9000"), std::string::npos) << agent.name;
    EXPECT_NE(script.find("org/some model"), std::string::npos) << agent.name;
    EXPECT_EQ(agent.setup(server()).program, agent.name);
  }
  EXPECT_EQ(find_agent("emacs"), nullptr);
}

TEST(CodingAgents, key_reaches_every_one_and_no_command_line) {
  AgentServer locked = server();
  locked.api_key = "sesame";
  for (const CodingAgent& agent : coding_agents()) {
    const AgentSetup setup = agent.setup(locked);
    std::string given;
    for (const auto& [name, value] : setup.variables) given += value + "\n";
    for (const AgentSetup::File& file : setup.files) given += file.text;
    EXPECT_NE(given.find("sesame"), std::string::npos) << agent.name;
    for (const std::string& word : setup.arguments) {
      EXPECT_EQ(word.find("sesame"), std::string::npos) << agent.name;
    }
  }
}

TEST(CodingAgents, file_of_opencode_is_json_whatever_the_name) {
  AgentServer odd = server();
  odd.model = "a\"b\\c";
  const AgentSetup setup = find_agent("opencode")->setup(odd);
  const auto parsed = boost::json::parse(setup.files.front().text);
  EXPECT_EQ(parsed.at("model").as_string(), "kvik/a\"b\\c");
  const auto& model = parsed.at("provider").at("kvik").at("models").at("a\"b\\c");
  EXPECT_EQ(model.at("limit").at("context").as_int64(), 40960);
}

TEST(CodingAgents, words_of_the_shell_are_quoted_as_needed) {
  EXPECT_EQ(shell_word("http://a:1/v1"), "http://a:1/v1");
  EXPECT_EQ(shell_word("two words"), "'two words'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(CodingAgents, script_has_files_variables_and_command) {
  const AgentSetup setup{.program = "agent",
                         .arguments = {"--mode", "x y"},
                         .asks = {},
                         .variables = {{"A", "1"}},
                         .files = {{.name = "f.json", .text = "{}\n", .variable = "F"}}};
  EXPECT_EQ(script_of(setup, {"-p", "do it"}),
            "folder=$(mktemp -d)\ncat > \"$folder/f.json\" <<'END'\n{}\nEND\n"
            "export F=\"$folder/f.json\"\nexport A=1\nagent --mode 'x y' -p 'do it'\n");
}

}  // namespace
}  // namespace kvik
