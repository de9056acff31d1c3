#include "host/draft_head.h"

#include <fmt/format.h>

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
#include "format/draft/mtp_file.h"
#include "format/gguf/gguf.h"
#include "format/source_config.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

// Parts of the names of heads that are found beside a model, and the beginning of others.
constexpr std::string_view kEagleName = "eagle3";
constexpr std::string_view kHeadNames[] = {kEagleName, "assistant"};
constexpr std::string_view kMtpBegin = "mtp-";
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
enum class HeadKind : uint8_t { kNone, kEagle, kAssistant, kMtp };

// Errors: those of open_gguf().
Result<HeadKind> kind_of_head(const std::string& path) {
  using enum HeadKind;
  if (is_folder(path)) {
    return is_eagle_folder(path) ? kEagle : is_assistant_folder(path) ? kAssistant : kNone;
  }
  if (!lower(path).ends_with(kGgufEnding)) return kNone;
  TRY_ASSIGN(const auto source, open_gguf(path));
  if (is_eagle_head(*source)) return kEagle;
  return is_assistant(*source) ? kAssistant : is_mtp_file(*source) ? kMtp : kNone;
}

// Returns whether a head beside a model may be the model's: MTP layers of others may lie there.
bool may_be_of(const ModelSource& model, const std::string& path, HeadKind kind) {
  if (kind != HeadKind::kMtp) return kind != HeadKind::kNone;
  const auto source = open_gguf(path);
  return source && lacks_mtp_layers_of(model, **source);
}

std::string_view name_of(HeadKind kind) {
  return kind == HeadKind::kEagle       ? "EAGLE-3 head"
         : kind == HeadKind::kAssistant ? "assistant"
                                        : "MTP head";
}

Result<std::unique_ptr<ModelSource>> open_head(const std::string& path, HeadKind kind) {
  if (!is_folder(path)) return open_gguf(path);
  return kind == HeadKind::kEagle ? open_eagle_folder(path) : open_assistant_folder(path);
}

auto joiner_of(HeadKind kind) {
  return kind == HeadKind::kEagle       ? with_eagle_head
         : kind == HeadKind::kAssistant ? with_assistant
                                        : with_mtp_file;
}

struct FoundHead {
  std::string path;
  HeadKind kind;
};

// A place in which heads of a model are found.
struct Place {
  fs::path folder;
  std::string begin;  // of their names
};

// Adds the heads of a model in a folder. A file that cannot be opened gets a warning, and a folder
// that is named like an EAGLE-3 head and is none.
void add_heads(const Place& place, const ModelSource& model, std::vector<FoundHead>& heads) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(place.folder, ignored)) {
    const std::string name = lower(entry.path().filename().string());
    const bool is_named = std::ranges::any_of(
        kHeadNames, [&](std::string_view part) { return name.find(part) != std::string::npos; });
    if (!name.starts_with(place.begin) || (!is_named && !name.starts_with(kMtpBegin))) continue;
    const auto kind = kind_of_head(entry.path().string());
    if (!kind) {
      log::warn("a file beside the model that is named like a draft head is not used: {}",
                kind.error().message);
    } else if (*kind == HeadKind::kNone && is_folder(entry.path()) && name.contains(kEagleName)) {
      log::warn(
          "the folder {} beside the model is not used: its config.json names no EAGLE-3 head "
          "in 'architectures'",
          Printable(entry.path().string()));
    } else if (may_be_of(model, entry.path().string(), *kind)) {
      heads.push_back({entry.path().string(), *kind});
    }
  }
}

std::vector<FoundHead> heads_beside(const std::string& spec, const ModelSource& model) {
  std::vector<FoundHead> heads;
  fs::path path(spec);
  if (is_folder(path)) {
    add_heads({path, ""}, model, heads);
    if (!path.has_filename()) path = path.parent_path();
    const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (path.has_filename()) {
      add_heads({parent, lower(path.filename().string())}, model, heads);
    }
  } else if (lower(spec).ends_with(kGgufEnding)) {
    add_heads({path.has_parent_path() ? path.parent_path() : fs::path("."), ""}, model, heads);
  }
  std::ranges::sort(heads, {}, &FoundHead::path);
  return heads;
}

Result<void> attach(const FoundHead& head, const Backend& backend,
                    std::unique_ptr<ModelSource>& source) {
  TRY_ASSIGN(auto opened, open_head(head.path, head.kind));
  const auto join = joiner_of(head.kind);
  TRY_ASSIGN(source,
             join(source, std::move(opened),
                  {.can_compute = [&](ElementType type) { return backend.can_compute(type); },
                   .max_head_dim = backend.max_head_dim()}));
  return {};
}

void attach_one_beside(const std::string& model, const Backend& backend,
                       std::unique_ptr<ModelSource>& source) {
  const std::vector<FoundHead> heads = heads_beside(model, *source);
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
    if (is_folder(request.draft) && has_eagle_tensors(request.draft)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("'{}': the tensors are those of an EAGLE-3 head, but config.json "
                              "names none in 'architectures', expected a name with Eagle3",
                              Printable(request.draft)));
    }
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
