#include "host/draft_head.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "format/draft/assistant_head.h"
#include "format/draft/eagle_folder.h"
#include "format/draft/eagle_head.h"
#include "format/gguf/gguf.h"
#include "format/source_config.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

// Parts of the names of heads that are found beside a model.
constexpr std::string_view kHeadNames[] = {"eagle3", "assistant"};
constexpr std::string_view kGgufEnding = ".gguf";

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Kind of a head, from its folder or the header of its file.
enum class HeadKind : uint8_t { kNone, kEagle, kAssistant };

// Errors: those of open_gguf().
Result<HeadKind> kind_of_head(const std::string& path) {
  using enum HeadKind;
  if (is_folder(path)) {
    return is_eagle_folder(path) ? kEagle : is_assistant_folder(path) ? kAssistant : kNone;
  }
  if (!lower(path).ends_with(kGgufEnding)) return kNone;
  TRY_ASSIGN(const auto source, open_gguf(path));
  return is_eagle_head(*source) ? kEagle : is_assistant(*source) ? kAssistant : kNone;
}

std::string_view name_of(HeadKind kind) {
  return kind == HeadKind::kEagle ? "EAGLE-3 head" : "assistant";
}

Result<std::unique_ptr<ModelSource>> open_head(const std::string& path, HeadKind kind) {
  if (!is_folder(path)) return open_gguf(path);
  return kind == HeadKind::kEagle ? open_eagle_folder(path) : open_assistant_folder(path);
}

struct FoundHead {
  std::string path;
  HeadKind kind;
};

// Adds the heads in a folder whose names begin with `begin`. A file that cannot be opened gets a
// warning.
void add_heads(const fs::path& folder, const std::string& begin, std::vector<FoundHead>& heads) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = lower(entry.path().filename().string());
    const bool is_named = std::ranges::any_of(
        kHeadNames, [&](std::string_view part) { return name.find(part) != std::string::npos; });
    if (!name.starts_with(begin) || !is_named) continue;
    const auto kind = kind_of_head(entry.path().string());
    if (!kind) {
      log::warn("a file beside the model that is named like a draft head is not used: {}",
                kind.error().message);
    } else if (*kind != HeadKind::kNone) {
      heads.push_back({entry.path().string(), *kind});
    }
  }
}

std::vector<FoundHead> heads_beside(const std::string& model) {
  std::vector<FoundHead> heads;
  fs::path path(model);
  if (is_folder(path)) {
    add_heads(path, "", heads);
    if (!path.has_filename()) path = path.parent_path();
    const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (path.has_filename()) add_heads(parent, lower(path.filename().string()), heads);
  } else if (lower(model).ends_with(kGgufEnding)) {
    add_heads(path.has_parent_path() ? path.parent_path() : fs::path("."), "", heads);
  }
  std::ranges::sort(heads, {}, &FoundHead::path);
  return heads;
}

Result<void> attach(const FoundHead& head, const Backend& backend,
                    std::unique_ptr<ModelSource>& source) {
  TRY_ASSIGN(auto opened, open_head(head.path, head.kind));
  const auto join = head.kind == HeadKind::kEagle ? with_eagle_head : with_assistant;
  TRY_ASSIGN(source,
             join(source, std::move(opened),
                  {.can_compute = [&](ElementType type) { return backend.can_compute(type); },
                   .max_head_dim = backend.max_head_dim()}));
  return {};
}

void attach_one_beside(const std::string& model, const Backend& backend,
                       std::unique_ptr<ModelSource>& source) {
  const std::vector<FoundHead> heads = heads_beside(model);
  if (heads.empty()) return;
  if (heads.size() > 1) {
    log::warn(
        "{} draft heads are beside the model, among them {} and {}: none is used; name one "
        "with --draft",
        heads.size(), Printable(heads[0].path), Printable(heads[1].path));
    return;
  }
  const FoundHead& head = heads.front();
  if (const auto done = attach(head, backend, source); !done) {
    log::warn("the {} beside the model is not used: {}", name_of(head.kind), done.error().message);
    return;
  }
  log::info("the {} {} beside the model drafts tokens; --draft none turns it off",
            name_of(head.kind), Printable(head.path));
}

}  // namespace

Result<std::string> add_draft_head(const DraftRequest& request, const Backend& backend,
                                   std::unique_ptr<ModelSource>& source) {
  const auto config = config_of(*source);
  if (!config || config->encoder) return request.draft;
  if (request.draft == kNoDraft) {
    source->leave_out_mtp_head();
    return std::string();
  }
  if (request.draft.empty()) {
    if (request.speculates) attach_one_beside(request.model, backend, source);
    return std::string();
  }
  // A file that cannot be opened is an error of load_draft().
  const HeadKind kind = kind_of_head(request.draft).value_or(HeadKind::kNone);
  if (kind == HeadKind::kNone) {
    source->leave_out_mtp_head();
    return request.draft;
  }
  TRY(attach({request.draft, kind}, backend, source));
  if (request.speculates) {
    log::info("the {} {} drafts tokens", name_of(kind), Printable(request.draft));
  } else {
    log::info("the {} {} is loaded and drafts nothing: --speculate is off", name_of(kind),
              Printable(request.draft));
  }
  return std::string();
}

}  // namespace kvik
