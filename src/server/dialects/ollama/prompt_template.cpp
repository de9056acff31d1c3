#include "server/dialects/ollama/prompt_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/blanks.h"
#include "base/printable.h"
#include "server/dialects/json_fields.h"

namespace kvik {
namespace {

constexpr size_t kMaxTemplateDepth = 64;
// A short template must not make a long prompt of a short request.
constexpr size_t kMaxUses = 4;

// A template that is being rendered, action by action.
class PromptRenderer {
 public:
  explicit PromptRenderer(const PromptValues& values) : values_(values) {}

  Result<std::string> render(std::string_view source) {
    max_bytes_ = source.size() +
                 kMaxUses * (values_.system.size() + values_.prompt.size() + values_.suffix.size());
    while (!has_ended_) {
      const size_t open = source.find("{{");
      const bool trims_before = open != source.npos && source.substr(open).starts_with("{{-");
      TRY(put(source.substr(0, open), trims_before));
      if (open == source.npos) break;
      const size_t close = source.find("}}", open);
      if (close == source.npos) return refuse("template", "template: a {{ has no }}");
      std::string_view action = source.substr(open + 2, close - open - 2);
      if (trims_before) action.remove_prefix(1);
      trims_after_ = action.ends_with('-');
      if (trims_after_) action.remove_suffix(1);
      TRY(act(trimmed(action)));
      source.remove_prefix(close + 2);
    }
    if (!branches_.empty() && !has_ended_)
      return refuse("template", "template: an {{ if }} has no {{ end }}");
    return std::move(out_);
  }

 private:
  // An open {{ if }}.
  struct Branch {
    bool is_condition_true;
    bool is_in_else = false;
  };

  bool is_shown() const {
    for (const Branch& branch : branches_) {
      if (branch.is_condition_true == branch.is_in_else) return false;
    }
    return true;
  }

  Result<void> put(std::string_view text, bool trims_end) {
    if (trims_after_) text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (trims_end) text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
    trims_after_ = false;
    return add(text);
  }

  Result<void> add(std::string_view text) {
    if (!is_shown()) return {};
    if (out_.size() + text.size() > max_bytes_) {
      return refuse("template",
                    fmt::format("template: a value is inserted more than {} times", kMaxUses));
    }
    out_ += text;
    return {};
  }

  std::optional<std::string_view> value_of(std::string_view name) const {
    if (name == ".System") return values_.system;
    if (name == ".Prompt") return values_.prompt;
    if (name == ".Suffix") return values_.suffix;
    if (name == ".Response") return "";
    return std::nullopt;
  }

  Result<void> act(std::string_view action) {
    if (action.starts_with("/*")) return {};
    if (const auto value = value_of(action)) {
      has_ended_ = action == ".Response" && is_shown();
      return add(*value);
    }
    if (action.starts_with("if ")) {
      const auto value = value_of(trimmed(action.substr(3)));
      if (value && branches_.size() < kMaxTemplateDepth) {
        branches_.push_back({.is_condition_true = !value->empty()});
        return {};
      }
    }
    if (action == "else" && !branches_.empty() && !branches_.back().is_in_else) {
      branches_.back().is_in_else = true;
      return {};
    }
    if (action == "end" && !branches_.empty()) {
      branches_.pop_back();
      return {};
    }
    constexpr size_t kShown = 64;
    return refuse("template",
                  fmt::format("template: {{{{ {} }}}} is not supported here, expected .System, "
                              ".Prompt, .Suffix, .Response, if, else or end",
                              printable(action.substr(0, kShown))));
  }

  const PromptValues values_;
  size_t max_bytes_ = 0;
  std::string out_;
  std::vector<Branch> branches_;
  bool trims_after_ = false;
  bool has_ended_ = false;
};

}  // namespace

Result<std::string> render_prompt_template(std::string_view source, const PromptValues& values) {
  return PromptRenderer(values).render(source);
}

}  // namespace kvik
