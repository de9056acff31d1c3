#include "server/chat_call.h"

#include <utility>

#include "server/chat_request.h"
#include "server/json_fields.h"

namespace kvik {

Result<CompletionCall> make_chat_call(const ServiceApi& service,
                                      const boost::json::object& object) {
  TRY_ASSIGN(const ChatRequest chat, read_chat_request(object));
  TRY_ASSIGN(CompletionCall call, read_common_call(object));
  TRY_ASSIGN(ChatPrompt prompt, service.chat_prompt(chat));
  CompletionRequest& request = call.requests.front();
  request.prompt = std::move(prompt.ids);
  request.pins = std::move(prompt.pins);
  if (!JsonFields(object).find("max_tokens")) request.max_tokens.reset();
  call.begins_in_thought = prompt.ends_in_thought;
  return call;
}

}  // namespace kvik
