// Any bytes as the answer of a model, in any of the formats of tool calls: the same parts however
// they are cut, calls whose arguments are JSON objects, and no byte twice. The first byte says
// which format, the second how it is cut.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "service/answer_parts.h"

namespace {

using namespace kvik;
using Parts = std::vector<AnswerPart>;

std::vector<Json> tools() {
  Json::Fields days = {{"type", {std::string("integer")}}};
  Json::Fields deep = {{"type", {std::string("object")}}};
  Json::Fields properties = {{"n", {std::move(days)}}, {"o", {std::move(deep)}}};
  Json::Fields parameters = {{"properties", {std::move(properties)}}};
  return {{Json::Fields{{"name", {std::string("f")}}, {"parameters", {std::move(parameters)}}}}};
}

Parts parts_of(const AnswerSyntax& syntax, std::string_view answer, size_t piece) {
  AnswerSplitter splitter(AnswerBegin::kText, syntax);
  Parts all;
  for (size_t at = 0; at < answer.size(); at += piece) {
    for (AnswerPart& part : splitter.push(answer.substr(at, piece))) append(all, std::move(part));
  }
  for (AnswerPart& part : splitter.push_last("")) append(all, std::move(part));
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  static const auto schemas = std::make_shared<const ToolSchemas>(tools());
  if (n_bytes < 2) return 0;
  const ToolFormat& format = tool_formats()[data[0] % tool_formats().size()];
  AnswerSyntax syntax;
  syntax.calls = {&format};
  syntax.tools = schemas;
  syntax.has_channels = format.has_channels;
  const std::string_view answer(reinterpret_cast<const char*>(data) + 2, n_bytes - 2);
  const Parts whole = parts_of(syntax, answer, n_bytes);
  CHECK(parts_of(syntax, answer, 1 + data[1] % 16) == whole);
  size_t n_text = 0;
  for (const AnswerPart& part : whole) {
    if (part.kind != AnswerPart::Kind::kCall) {
      n_text += part.text.size();
      continue;
    }
    CHECK(!part.name.empty() && part.text.starts_with('{') && !read_json(part.text).empty());
  }
  // Channels are parted by lines.
  CHECK(n_text <= answer.size() + (format.has_channels ? 2 * answer.size() : 0));
  return 0;
}
