// Benchmarks rendering an agent's conversation into its prompt: 500 tool definitions and 2 MB of
// tool results through the chat template of a real model. Also benchmarks the cost per streamed
// token of searching for reasoning and tool calls, by tool format.
//   bench_chat TEMPLATE.jinja… [--benchmark_…]
#include <benchmark/benchmark.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "service/answer_parts.h"
#include "service/chat_format.h"
#include "support/toy_tokenizer.h"

namespace kvik {
namespace {

constexpr size_t kTools = 500, kResults = 100, kResultBytes = 20'000;

Json text(std::string words) { return {std::move(words)}; }

Json tool(size_t number) {
  Json::Fields properties;
  for (const char* name : {"path", "pattern", "options", "limit"}) {
    Json::Fields schema = {
        {"type", text("string")},
        {"description", text("The value that the tool uses, in a few more words.")}};
    properties.push_back({name, {std::move(schema)}});
  }
  Json::Fields parameters = {{"type", text("object")},
                             {"properties", {std::move(properties)}},
                             {"required", {Json::List{text("path")}}}};
  Json::Fields function = {
      {"name", text("tool_" + std::to_string(number))},
      {"description", text("Does what a tool does, and says how it went in a few words.")},
      {"parameters", {std::move(parameters)}}};
  return {Json::Fields{{"type", text("function")}, {"function", {std::move(function)}}}};
}

ChatRequest conversation() {
  ChatRequest request;
  request.messages = {text_message("system", "You work with tools."), text_message("user", "Go.")};
  for (size_t i = 0; i < kTools; ++i) request.tools.push_back(tool(i));
  std::string lines;
  while (lines.size() < kResultBytes) lines += "  const auto line = \"of a <file>\";\n";
  for (size_t i = 0; i < kResults; ++i) {
    const std::string id = "call" + std::to_string(10'000 + i);
    ToolCall call{
        .id = id, .name = "tool_7", .arguments = {Json::Fields{{"path", text("src/a.cpp")}}}};
    request.messages.push_back({.role = "assistant", .parts = {TextPart{}, std::move(call)}});
    Message result = text_message("tool", lines);
    result.tool_call_id = id;
    request.messages.push_back(std::move(result));
  }
  return request;
}

void render(benchmark::State& state, const ChatFormat& format) {
  const ChatRequest request = conversation();
  size_t n_bytes = 0;
  for (auto _ : state) {
    const auto made = format.render(request);
    if (!made) {
      state.SkipWithError(made.error().message.c_str());
      return;
    }
    n_bytes = made->view().size();
  }
  state.counters["bytes"] = static_cast<double>(n_bytes);
}

// One token per iteration, each a word of an answer without tool calls.
void split(benchmark::State& state, const ToolFormat& format) {
  constexpr std::string_view kWords[] = {"The",   " king",  ",",    " my", " lord", "\n",
                                         " said", " `a<b`", " {1}", ".",   "\n\n",  " So"};
  AnswerSplitter splitter(AnswerBegin::kText,
                          {.calls = {&format}, .has_channels = format.has_channels});
  if (format.has_channels) splitter.push("<|channel|>final<|message|>");
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(splitter.push(kWords[i++ % std::size(kWords)]));
}

}  // namespace
}  // namespace kvik

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::unique_ptr<kvik::ToyTokenizer>> tokenizers;
  std::vector<std::unique_ptr<kvik::ChatFormat>> formats;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    tokenizers.push_back(std::make_unique<kvik::ToyTokenizer>(
        std::string(std::istreambuf_iterator<char>(file), {})));
    formats.push_back(std::make_unique<kvik::ChatFormat>(*tokenizers.back()));
    benchmark::RegisterBenchmark(argv[i], [format = formats.back().get()](benchmark::State& state) {
      kvik::render(state, *format);
    })->Unit(benchmark::kMillisecond);
  }
  for (const kvik::ToolFormat& format : kvik::tool_formats()) {
    benchmark::RegisterBenchmark(
        ("split/" + std::string(format.name)).c_str(),
        [&format](benchmark::State& state) { kvik::split(state, format); });
  }
  benchmark::RunSpecifiedBenchmarks();
}
