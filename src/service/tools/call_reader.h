#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/answer_part.h"
#include "service/tools/tool_format.h"
#include "service/tools/tool_schemas.h"
#include "service/tools/value_reader.h"

namespace kvik {

// Reads the calls behind an opening mark, byte by byte, by the steps of their format. A call is
// handed out when all of it has come: what breaks off or is no call is text, and nobody runs half
// of one. Linear in the text, and the same however it is cut.
class CallReader {
 public:
  // Borrows both. `opening` has been read.
  CallReader(const ToolFormat& format, const ToolSchemas& schemas,
             const ToolFormat::Begin& opening);
  // Where the name came first: harmony's.
  CallReader(const ToolFormat& format, const ToolSchemas& schemas, std::string name);

  // kEnded: this byte was the last of the calls. kBroken: text() is none of them.
  enum class State { kMore, kEnded, kBroken };
  State push(char byte, std::vector<AnswerPart>& calls);

  // What was read and belongs to no call. When broken, the last n_again() bytes of it may begin
  // something else.
  const std::string& text() const { return text_; }
  size_t n_again() const { return n_again_; }

  // Calls were handed out, and nothing but marks and blanks has come behind them.
  bool is_between_calls() const;

 private:
  enum class Outcome { kTaken, kPassed, kBroken };

  const CallStep& step() const { return format_.steps[step_]; }
  void go(uint8_t to) { step_ = to != 0 ? to : static_cast<uint8_t>(step_ + 1); }
  Outcome take(char byte);
  Outcome take_mark(char byte);
  Outcome take_way(char byte);
  Outcome take_word(char byte);
  Outcome take_text();
  Outcome take_value(char byte);
  bool end_value();
  bool take_json_call();
  bool end_word(std::string word);
  void end_parameter();
  State settle(std::vector<AnswerPart>& calls);
  void begin_call();

  const ToolFormat& format_;
  const ToolSchemas& schemas_;
  uint8_t step_ = 0;
  std::string text_;
  size_t n_again_ = 0;
  std::string held_;  // a mark or a word in part
  std::optional<ValueReader> value_;
  bool has_called_ = false;

  // The call in the making.
  std::string name_, id_, arguments_;
  std::vector<std::pair<std::string, std::string>> parameters_;  // names, and values in JSON
  std::optional<std::string> key_;
  CallStep::Style style_ = CallStep::Style::kBySchema;
  bool trims_lines_ = false;
  size_t value_begin_ = 0, value_end_ = 0;  // in text_
};

}  // namespace kvik
