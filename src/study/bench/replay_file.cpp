#include "study/bench/replay_file.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/blanks.h"

namespace kvik {
namespace {

namespace json = boost::json;

std::optional<std::string_view> text_in(const json::value& value, std::string_view name) {
  const json::object* object = value.if_object();
  if (!object) return std::nullopt;
  const json::value* field = object->if_contains(json::string_view(name.data(), name.size()));
  if (!field || !field->is_string() || field->get_string().empty()) return std::nullopt;
  return std::string_view(field->get_string().data(), field->get_string().size());
}

}  // namespace

Result<std::vector<ReplayTurn>> parse_replay(std::string_view lines, const Tokenizer& tokenizer) {
  std::vector<ReplayTurn> turns;
  for (size_t number = 1; !lines.empty(); ++number) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (trimmed(line).empty()) continue;
    boost::system::error_code failed;
    const json::value value = json::parse(json::string_view(line.data(), line.size()), failed);
    const auto prompt = failed ? std::nullopt : text_in(value, "prompt");
    const auto answer = failed ? std::nullopt : text_in(value, "answer");
    if (!prompt || !answer) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("line {} of the replay is not an object with a string called prompt and "
                      "one called answer",
                      number));
    }
    turns.push_back({tokenizer.tokenize(*prompt, {.add_bos = true, .parse_special = false}),
                     tokenizer.tokenize(*answer, {.add_bos = false, .parse_special = false})});
  }
  if (turns.empty()) return fail(ErrorCode::kCorrupt, "the replay file has no lines");
  return turns;
}

Result<std::vector<ReplayTurn>> read_replay(const std::string& path, const Tokenizer& tokenizer) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return fail(ErrorCode::kIo, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  }
  const std::string lines(std::istreambuf_iterator<char>(file), {});
  auto turns = parse_replay(lines, tokenizer);
  if (!turns) return fail(turns.error().code, fmt::format("{}: {}", path, turns.error().message));
  return turns;
}

}  // namespace kvik
