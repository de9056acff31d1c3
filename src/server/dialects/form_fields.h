#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "service/forms/answer_form.h"

namespace kvik {

// The form that an answer must keep to, in the words of each dialect; nullopt where it may be any
// text. Errors: kInvalidArgument, kUnsupported, with the field in `param`. Schemas and grammars
// are not compiled here. body: the text that the fields are of; a schema is kept as it stands
// there.

// `kvik.whitespace` and `kvik.schema_language`; the forms below have them too.
Result<JsonStyle> read_json_style(const JsonFields& fields);

// Of completions and chats: `response_format`, vLLM's `structured_outputs` and `guided_json`,
// `guided_regex`, `guided_choice`, `guided_grammar`, llama.cpp's `json_schema` and `grammar`. Of
// two that are there none is silently left out: they are refused.
Result<std::optional<AnswerForm>> read_answer_form(const JsonFields& fields, std::string_view body);

// For responses: `text.format`, or one of the fields above.
Result<std::optional<AnswerForm>> read_text_form(const JsonFields& fields, std::string_view body);

// Of Anthropic's messages: `output_config.format`, and `output_format`, as it was first called.
Result<std::optional<AnswerForm>> read_output_form(const JsonFields& fields, std::string_view body);

}  // namespace kvik
