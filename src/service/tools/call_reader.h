#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/answer_part.h"
#include "service/tools/element_reader.h"
#include "service/tools/tool_format.h"
#include "service/tools/tool_schemas.h"
#include "service/tools/value_reader.h"

namespace kvik {

// Reads the calls after an opening mark, byte by byte, by the steps of their format. A call is open
// once its name is known and its arguments begin; input that breaks off before that point is text.
// The arguments of an open call are returned as they arrive, always as a prefix of the same JSON
// text. Runs in time linear in the text; the result does not depend on how the text is divided.
class CallReader {
 public:
  // Borrows both. The `opening` mark has already been read.
  CallReader(const ToolFormat& format, const ToolSchemas& schemas, const CallSteps::Begin& opening);
  // For harmony: the header, which has already been read, names the function.
  CallReader(const ToolFormat& format, const ToolSchemas& schemas, std::string header,
             std::string name);

  // kEnded: this byte was the last of the calls. kBroken: text() is not a call.
  enum class State { kMore, kEnded, kBroken };
  State push(char byte, std::vector<AnswerPart>& calls);

  // Appends the part of the open call that has arrived and was not returned yet; nothing if no call
  // is open.
  void emit(std::vector<AnswerPart>& parts);
  bool is_open() const { return is_open_; }
  uint32_t n_whole() const { return n_whole_; }

  // Returns whether the arguments of the open call are complete, although more input is expected:
  // the end of an object that holds them.
  bool has_whole_arguments() const;

  // Returns the input since the last complete call. When broken, its last n_again() bytes may begin
  // another construct and must be read again.
  const std::string& text() const { return text_; }
  size_t n_again() const { return n_again_; }
  // Returns the number of bytes of text() that the name and the returned arguments of the open call
  // stand for.
  size_t n_sent() const { return n_sent_; }

  // Returns whether calls were returned and only marks and blanks have followed them.
  bool is_between_calls() const;

 private:
  enum class Outcome { kTaken, kPassed, kBroken };

  const CallStep& step() const { return format_.reading.steps[step_]; }
  void go(uint8_t to) { step_ = to != 0 ? to : static_cast<uint8_t>(step_ + 1); }
  Outcome take(char byte);
  Outcome take_mark(char byte);
  Outcome take_way(char byte);
  Outcome take_word(char byte);
  Outcome take_text();
  Outcome take_value(char byte);
  Outcome take_elements(char byte);
  bool end_value();
  bool take_json_call();
  bool end_word(std::string word);
  bool end_parameter();
  State settle(std::vector<AnswerPart>& calls);
  void begin_call();
  void open_if_unambiguous();
  void open_json_call();
  const ValueReader::Member* find_member(std::span<const std::string_view> keys) const;
  std::string_view arguments_so_far() const;
  void open_parameter();
  size_t trimmed_end(size_t end) const;
  size_t known_value_end() const;
  void put_text_value(size_t end);
  void put_string(std::string_view text);
  std::string unquoted_value() const;

  const ToolFormat& format_;
  const ToolSchemas& schemas_;
  uint8_t step_ = 0;
  std::string text_;
  size_t n_again_ = 0, n_sent_ = 0;
  std::string held_;  // an incomplete mark or word
  std::optional<ValueReader> value_;
  std::optional<ElementReader> elements_;
  bool has_called_ = false;
  uint32_t n_whole_ = 0;

  // The current call.
  std::string name_, id_;
  std::string arguments_;        // built parameter by parameter, or as a whole
  bool has_parameters_ = false;  // arguments_ is an object that is not closed yet
  bool is_open_ = false;
  bool is_emitted_ = false;     // the part that begins the call was returned
  size_t n_emitted_bytes_ = 0;  // number of bytes of its arguments that were returned
  std::optional<std::string> key_;
  bool is_parameter_open_ = false;          // the parameter's key is in arguments_
  bool is_text_value_ = false;              // its value is a string that is appended as it arrives
  const CallStep* value_step_ = nullptr;    // the step that reads its value
  size_t value_begin_ = 0, value_end_ = 0;  // offsets in text_
  size_t first_quote_end_ = 0;              // offset of the first closing quote; 0: none
};

}  // namespace kvik
