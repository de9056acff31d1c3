#include "server/dialects/fill_in_middle.h"

#include <fmt/format.h>

#include <optional>
#include <string>

namespace kvik {
namespace {

// The tokens before the prefix, before the suffix and before the answer.
struct MiddleTokens {
  std::string_view prefix, suffix, middle;
};

constexpr MiddleTokens kMiddleTokens[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},  // Qwen Coder, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},        // StarCoder
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},        // Refact
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},  // DeepSeek Coder
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},                          // Code Llama
};

// Qwen Coder's token before each file of a repository, and CodeGemma's.
constexpr std::string_view kFileTokens[] = {"<|file_sep|>", "<|file_separator|>"};

// Qwen Coder was trained on repositories in the form of its report (Hui et al. 2024): this token
// and a name, then the files, each after its token and name, the one with the gap last. Requests
// state neither the project nor that file; the names are llama.cpp's.
constexpr std::string_view kProjectToken = "<|repo_name|>";
constexpr std::string_view kProject = "myproject\n", kFileWithGap = "filename\n";

// Returns the id of a special token; std::nullopt if the vocabulary does not have it.
std::optional<TokenId> special_id(const ServiceApi& service, std::string_view text) {
  const auto ids = service.tokenize(text, {.add_bos = false, .parse_special = true});
  return ids.size() == 1 ? std::optional(ids.front()) : std::nullopt;
}

// The ids of a row of kMiddleTokens.
struct MiddleIds {
  TokenId prefix, suffix, middle;
};

std::optional<MiddleIds> middle_ids(const ServiceApi& service) {
  for (const MiddleTokens& tokens : kMiddleTokens) {
    const auto prefix = special_id(service, tokens.prefix);
    const auto suffix = special_id(service, tokens.suffix);
    const auto middle = special_id(service, tokens.middle);
    if (prefix && suffix && middle) return MiddleIds{*prefix, *suffix, *middle};
  }
  return std::nullopt;
}

std::optional<TokenId> file_id(const ServiceApi& service) {
  for (const std::string_view text : kFileTokens) {
    if (const auto id = special_id(service, text)) return id;
  }
  return std::nullopt;
}

class PromptText {
 public:
  explicit PromptText(const ServiceApi& service) : service_(service) {
    if (const auto begin = begin_token(service)) ids_.push_back(*begin);
  }
  void add(TokenId id) { ids_.push_back(id); }
  void add(std::string_view text) {
    const auto more = service_.tokenize(text, {.add_bos = false, .parse_special = false});
    ids_.insert(ids_.end(), more.begin(), more.end());
  }
  std::vector<TokenId> take() && { return std::move(ids_); }

 private:
  const ServiceApi& service_;
  std::vector<TokenId> ids_;
};

}  // namespace

std::optional<TokenId> begin_token(const ServiceApi& service) {
  const auto ids = service.tokenize("", {.add_bos = true, .parse_special = false});
  return ids.size() == 1 ? std::optional(ids.front()) : std::nullopt;
}

bool can_fill_in_middle(const ServiceApi& service) { return middle_ids(service).has_value(); }

Result<std::vector<TokenId>> fill_in_middle_prompt(const ServiceApi& service, const MiddleGap& gap,
                                                   std::string_view param) {
  const auto ids = middle_ids(service);
  if (!ids) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} does not support {}: its vocabulary has no fill-in-the-middle "
                            "tokens",
                            service.card().id, param),
                std::string(param));
  }
  PromptText prompt(service);
  const auto before_file = gap.files.empty() ? std::nullopt : file_id(service);
  const auto before_project = before_file ? special_id(service, kProjectToken) : std::nullopt;
  if (before_project) {
    prompt.add(*before_project);
    prompt.add(kProject);
  }
  for (const ContextFile& file : gap.files) {
    if (before_file) prompt.add(*before_file);
    prompt.add(fmt::format("{}\n{}\n", file.name, file.text));
  }
  if (before_project) {
    prompt.add(*before_file);
    prompt.add(kFileWithGap);
  }
  prompt.add(ids->prefix);
  prompt.add(gap.prefix);
  prompt.add(ids->suffix);
  prompt.add(gap.suffix);
  prompt.add(ids->middle);
  prompt.add(gap.begun);
  return std::move(prompt).take();
}

}  // namespace kvik
