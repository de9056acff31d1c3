#include "request_trace.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <optional>
#include <utility>

namespace kvik {
namespace {

namespace json = boost::json;

constexpr uint32_t kSessionBlock = 64, kMooncakeBlock = 512;  // tokens

double number(const json::value& value) { return value.is_null() ? 0 : value.to_number<double>(); }

// Makes new tokens, and lengths that fit the scale.
class Reader {
 public:
  explicit Reader(const TraceScale& scale, TokenId first = 0) : scale_(scale), next_(first) {}

  uint32_t scaled(double n_tokens) const {
    return static_cast<uint32_t>(n_tokens / scale_.divide_tokens);
  }
  TokenRun new_tokens(uint32_t n) {
    next_ += n;
    return {next_ - n, n};
  }
  ScriptedTurn turn(double n_answer) {
    ScriptedTurn turn;
    turn.answer = new_tokens(std::max(1u, scaled(n_answer)));
    return turn;
  }
  // Makes the prompt this long: removes tokens at the end, or adds new ones.
  void set_length(std::vector<TokenRun>& prompt, uint32_t n_tokens) {
    uint32_t n = 0;
    for (size_t i = 0; i < prompt.size(); ++i) {
      prompt[i].n = std::min(prompt[i].n, n_tokens - n);
      n += prompt[i].n;
    }
    std::erase_if(prompt, [](const TokenRun& run) { return run.n == 0; });
    if (n < n_tokens) prompt.push_back(new_tokens(n_tokens - n));
  }

 private:
  const TraceScale scale_;
  TokenId next_;
};

// Adds a conversation of one turn.
void append(std::vector<Conversation>& to, double at_s, ScriptedTurn turn) {
  to.emplace_back().begin_s = at_s;
  to.back().script.push_back(std::move(turn));
}

Conversation session_of(const json::value& parsed, Reader& reader) {
  Conversation session;
  double at_s = 0;
  for (const json::value& row : parsed.at("r").as_array()) {
    const auto field = [&](size_t i) { return number(row.at(i)); };
    ScriptedTurn turn = reader.turn(field(2));
    turn.pause_s = session.script.empty() ? 0 : field(7);
    turn.at_s = at_s += turn.pause_s;
    at_s += field(8);
    if (const auto parent = static_cast<int64_t>(field(4)); parent >= 0) {
      const ScriptedTurn& before = session.script[parent];
      turn.prompt = before.prompt;
      if (reader.scaled((field(5) + 1) * kSessionBlock) > before.n_prompt()) {
        turn.prompt.push_back(before.answer);
      } else {
        reader.set_length(turn.prompt, reader.scaled(field(5) * kSessionBlock));
      }
    }
    reader.set_length(turn.prompt, std::max(2u, reader.scaled(field(1))));
    session.script.push_back(std::move(turn));
  }
  return session;
}

}  // namespace

std::vector<Conversation> read_sessions(const std::string& path, const TraceScale& scale) {
  std::ifstream file(path);
  Reader reader(scale);
  std::vector<Conversation> sessions;
  std::string line;
  for (uint32_t i = 0; sessions.size() < scale.n_max && std::getline(file, line); ++i) {
    if (i % scale.every != 0) continue;
    sessions.push_back(session_of(json::parse(line), reader));
    sessions.back().begin_s = scale.gap_s * static_cast<double>(sessions.size() - 1);
  }
  return sessions;
}

std::vector<Conversation> read_mooncake(const std::string& path, const TraceScale& scale) {
  std::ifstream file(path);
  const uint32_t n_block = kMooncakeBlock / scale.divide_tokens;
  Reader reader(scale, 1u << 30);  // tokens of blocks are lower
  std::vector<Conversation> requests;
  std::string line;
  for (uint32_t i = 0; requests.size() < scale.n_max && std::getline(file, line); ++i) {
    if (i % scale.every != 0) continue;
    const json::value row = json::parse(line);
    ScriptedTurn turn = reader.turn(number(row.at("output_length")));
    for (const json::value& id : row.at("hash_ids").as_array()) {
      turn.prompt.push_back({static_cast<TokenId>(number(id)) * n_block, n_block});
    }
    reader.set_length(turn.prompt, std::max(2u, reader.scaled(number(row.at("input_length")))));
    append(requests, number(row.at("timestamp")) / 1e3 / scale.speed, std::move(turn));
  }
  return requests;
}

std::vector<Conversation> read_azure(const std::string& path, const TraceScale& scale) {
  std::ifstream file(path);
  Reader reader(scale);
  std::vector<Conversation> requests;
  std::optional<double> begin_s;
  std::string line;
  for (uint32_t i = 0; requests.size() < scale.n_max && std::getline(file, line); ++i) {
    int hours = 0, minutes = 0;
    double seconds = 0;
    uint32_t n_prompt = 0, n_answer = 0;
    if (std::sscanf(line.c_str(), "%*s %d:%d:%lf,%u,%u", &hours, &minutes, &seconds, &n_prompt,
                    &n_answer) != 5) {
      continue;  // names of the columns
    }
    if (i % scale.every != 0) continue;
    const double at_s = hours * 3600.0 + minutes * 60.0 + seconds;
    begin_s = begin_s.value_or(at_s);
    ScriptedTurn turn = reader.turn(n_answer);
    reader.set_length(turn.prompt, std::max(2u, reader.scaled(n_prompt)));
    append(requests, (at_s - *begin_s) / scale.speed, std::move(turn));
  }
  return requests;
}

}  // namespace kvik
