#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "base/clock.h"
#include "server/dialects/answer_writer.h"

namespace kvik {

// The properties of an answer of /api/generate or /api/chat.
struct OllamaAnswer {
  enum class Route { kGenerate, kChat };

  Route route = Route::kGenerate;
  std::string model = {};  // the name that the client used
  TimePoint began = {};    // arrival of the request
  bool has_parts = true;   // false: the text of a raw prompt is not split
  // tokens of the prompt, for `context`; std::nullopt: there is none
  std::optional<std::vector<TokenId>> context = {};
};

// Returns the writer: one JSON object, or a stream of them, one per line.
std::unique_ptr<AnswerWriter> make_ollama_writer(AnswerEnvelope envelope, OllamaAnswer answer);

// Returns {"model", "created_at", "message" or "response"}, with an empty text and `done`.
std::string empty_answer_json(const OllamaAnswer& answer, std::string_view done_reason);

// Returns nanoseconds, 0 for a negative duration.
int64_t to_ns(Duration duration);

// Returns the object as a line of a stream.
std::string json_line(const boost::json::object& object);

}  // namespace kvik
