#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "template/jinja/runtime.h"
#include "template/jinja/value.h"

namespace kvik {

// A model's chat template, rendered like apply_chat_template() of Hugging Face. Immutable after
// parsing and safe to share between threads.
class ChatTemplate {
 public:
  // Error: kCorrupt with the line number.
  static Result<ChatTemplate> parse(std::string_view source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `variables`: messages, tools, add_generation_prompt, bos_token and any others the template
  // reads; the last value of a repeated name counts. `now_s`: the local time that strftime_now()
  // returns, in seconds since 1970.
  //
  // Errors: kInvalidArgument, including errors raised by the template; kExhausted beyond `limits`.
  using Variables = std::vector<std::pair<std::string, jinja::Value>>;
  Result<jinja::Text> render(const Variables& variables, const jinja::Limits& limits,
                             int64_t now_s) const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::unique_ptr<const Parsed> parsed);

  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace kvik
