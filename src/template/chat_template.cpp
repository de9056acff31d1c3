#include "template/chat_template.h"

#include <algorithm>

#include "template/jinja/interpreter.h"

namespace kvik {

struct ChatTemplate::Parsed {
  jinja::Body body;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  auto parsed = std::make_unique<Parsed>();
  TRY_ASSIGN(parsed->body, jinja::parse_template(source));
  return ChatTemplate(std::move(parsed));
}

Result<jinja::Text> ChatTemplate::render(const Variables& variables, const jinja::Limits& limits,
                                         int64_t now_s) const {
  Variables last_first(variables.rbegin(), variables.rend());
  jinja::Interpreter interpreter(std::move(last_first), limits, now_s);
  return interpreter.render(parsed_->body);
}

}  // namespace kvik
