#include "study/explain/explain.h"

#include <fmt/format.h>

#include <cctype>
#include <memory>
#include <span>
#include <string>

#include "base/file/new_file.h"
#include "base/log.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"
#include "server/operate/explain_json.h"
#include "study/explain/explain_report.h"

namespace kvik {
namespace {

struct ExplainFlags {
  ExplainOptions explain;
  std::string out;  // empty: a name derived from the model
  bool as_json = false;
};

// Returns the default path of the report: "synthetic:tinyllama-1.1b:q4_0" →
// "kvik-explain-synthetic-tinyllama-1.1b-q4_0.html".
std::string default_path(const std::string& model) {
  std::string name = model_id(model).text();
  for (char& c : name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    if (!is_plain) c = '-';
  }
  return fmt::format("kvik-explain-{}.html", name);
}

Result<int> write_report(const ExplainFlags& flags) {
  const std::string path = flags.out.empty() ? default_path(flags.explain.model.model) : flags.out;
  // reports an unwritable path before measuring
  TRY_ASSIGN(NewFile file, NewFile::create(path, 0644));
  TRY_ASSIGN(const Explained explained, explain(flags.explain, experiment_json));
  const std::string html = explain_html(explained.json);
  TRY(file.write(std::as_bytes(std::span(html))));
  TRY(file.commit());
  if (flags.as_json) {
    streams::print_text(explained.json);
    streams::write("\n");
    log::info("wrote {}", path);
  } else {
    streams::print_text(explained.summary);
    streams::print("{}\n", path);
  }
  if (!explained.is_equal) {
    return fail(ErrorCode::kCorrupt, "the cache changed the answer: that is a bug of Kvik");
  }
  return kExitOk;
}

}  // namespace

void add_explain(CommandLine& line) {
  auto options = std::make_shared<ExplainFlags>();
  Flags flags = line.add(
      "explain", "Show an answer with and without the KV cache side by side, as an HTML report",
      [options] { return finish(write_report(*options)); });
  add_model_flags(flags, options->explain.model);
  add_adapter_flag(flags, options->explain.model);
  flags.add(
      "Report",
      {
          Flag("-p,--prompt", &options->explain.prompt,
               "text to continue (default: the beginning of Hamlet's monologue)"),
          {"-n,--max-tokens", as_count(options->explain.max_tokens),
           "tokens to generate (default: as many as take 8 s without the cache, at most 384)"},
          Flag("--out", &options->out, "the report (default: kvik-explain-MODEL.html)")
              .called("FILE"),
          {"--json", &options->as_json, "also print the measurements as a JSON object"},
      });
  flags.examples({
      "kvik explain demo",
      "kvik explain model.gguf -p \"Once upon a time\" --out report.html",
  });
}

}  // namespace kvik
