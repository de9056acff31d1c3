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

// A model's chat template, as Hugging Face's apply_chat_template() renders it. Immutable after
// parsing: any thread.
class ChatTemplate {
 public:
  // Error: kCorrupt, naming the line.
  static Result<ChatTemplate> parse(std::string_view source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `variables`: messages, tools, add_generation_prompt, bos_token and whatever else it may ask
  // for; of one name the last counts. now_s: what strftime_now() takes for the local time, in
  // seconds since 1970. Errors: kInvalidArgument, the template's own among them; kExhausted over
  // `limits`.
  using Variables = std::vector<std::pair<std::string, jinja::Value>>;
  Result<jinja::Text> render(const Variables& variables, const jinja::Limits& limits,
                             int64_t now_s) const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::unique_ptr<const Parsed> parsed);

  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace kvik
