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
// parsing; thread-safe.
class ChatTemplate {
 public:
  // Parses a template. Error: kCorrupt with the line number.
  static Result<ChatTemplate> parse(std::string_view source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Returns the rendered text. `variables`: messages, tools, add_generation_prompt, bos_token and
  // any others that the template reads; if a name is repeated, its last value counts. `now_s`: the
  // local time for strftime_now(), in seconds since 1970.
  //
  // Errors: kInvalidArgument, including errors that the template raises; kExhausted if `limits` is
  // exceeded.
  using Variables = std::vector<std::pair<std::string, jinja::Value>>;
  Result<jinja::Text> render(const Variables& variables, const jinja::Limits& limits,
                             int64_t now_s) const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::unique_ptr<const Parsed> parsed);

  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace kvik
