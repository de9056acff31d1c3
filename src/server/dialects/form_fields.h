#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "server/dialects/json_fields.h"
#include "service/structured_output/structured_output.h"

namespace kvik {

// Readers of an answer's constraint in the fields of each dialect; std::nullopt if any text is
// allowed. Errors: kInvalidArgument, kUnsupported, with the field in `param`. Schemas and grammars
// are not compiled here. body: the text of the request, from which schemas are copied unchanged.

// Reads `kvik.whitespace` and `kvik.schema_language`; the functions below include them.
Result<JsonStyle> read_json_style(const JsonFields& fields);

// Completions and chats: `response_format`, vLLM's `structured_outputs` and `guided_json`,
// `guided_regex`, `guided_choice`, `guided_grammar`, llama.cpp's `json_schema` and `grammar`. Two
// constraints at once are rejected. Structural tags are translated into rules of a grammar.
Result<std::optional<StructuredOutput>> read_answer_form(const JsonFields& fields,
                                                         std::string_view body);

// Responses: `text.format`, or one of the fields above.
Result<std::optional<StructuredOutput>> read_text_form(const JsonFields& fields,
                                                       std::string_view body);

// Anthropic's messages: `output_config.format`, and `output_format`, its former name.
Result<std::optional<StructuredOutput>> read_output_form(const JsonFields& fields,
                                                         std::string_view body);

// Ollama: `format`, "json" or a schema.
Result<std::optional<StructuredOutput>> read_format_form(const JsonFields& fields,
                                                         std::string_view body);

}  // namespace kvik
