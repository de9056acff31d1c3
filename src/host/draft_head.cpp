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
#include "format/draft/eagle_folder.h"
#include "format/draft/eagle_head.h"
#include "format/gguf/gguf.h"
#include "format/source_config.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEagleName = "eagle3";
constexpr std::string_view kGgufEnding = ".gguf";

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Returns whether the path is that of an EAGLE-3 head, from its folder or the header of its file.
bool is_head(const std::string& path) {
  if (is_folder(path)) return is_eagle_folder(path);
  if (!lower(path).ends_with(kGgufEnding)) return false;
  const auto source = open_gguf(path);
  return source && is_eagle_head(**source);
}

Result<std::unique_ptr<ModelSource>> open_head(const std::string& path) {
  return is_folder(path) ? open_eagle_folder(path) : open_gguf(path);
}

// Adds the heads in a folder whose names begin with `begin`.
void add_heads(const fs::path& folder, const std::string& begin, std::vector<std::string>& heads) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = lower(entry.path().filename().string());
    if (!name.starts_with(begin) || name.find(kEagleName) == std::string::npos) continue;
    if (is_head(entry.path().string())) heads.push_back(entry.path().string());
  }
}

std::vector<std::string> heads_beside(const std::string& model) {
  std::vector<std::string> heads;
  fs::path path(model);
  if (is_folder(path)) {
    add_heads(path, "", heads);
    if (!path.has_filename()) path = path.parent_path();
    const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (path.has_filename()) add_heads(parent, lower(path.filename().string()), heads);
  } else if (lower(model).ends_with(kGgufEnding)) {
    add_heads(path.has_parent_path() ? path.parent_path() : fs::path("."), "", heads);
  }
  std::ranges::sort(heads);
  return heads;
}

Result<void> attach(const std::string& head, std::unique_ptr<ModelSource>& source) {
  TRY_ASSIGN(auto opened, open_head(head));
  TRY_ASSIGN(auto joined, with_eagle_head(source, std::move(opened)));
  source = std::move(joined);
  return {};
}

void attach_one_beside(const std::string& model, std::unique_ptr<ModelSource>& source) {
  const std::vector<std::string> heads = heads_beside(model);
  if (heads.empty()) return;
  if (heads.size() > 1) {
    log::warn(
        "{} EAGLE-3 heads are beside the model, among them {} and {}: none is used; name one "
        "with --draft",
        heads.size(), Printable(heads[0]), Printable(heads[1]));
    return;
  }
  if (const auto done = attach(heads.front(), source); !done) {
    log::warn("the EAGLE-3 head beside the model is not used: {}", done.error().message);
    return;
  }
  log::info("the EAGLE-3 head {} beside the model drafts tokens; --draft none turns it off",
            Printable(heads.front()));
}

}  // namespace

Result<std::string> add_draft_head(const DraftRequest& request,
                                   std::unique_ptr<ModelSource>& source) {
  const auto config = config_of(*source);
  if (!config || config->encoder) return request.draft;
  if (request.draft == kNoDraft) {
    source->leave_out_mtp_head();
    return std::string();
  }
  if (request.draft.empty()) {
    if (request.speculates) attach_one_beside(request.model, source);
    return std::string();
  }
  if (!is_head(request.draft)) {
    source->leave_out_mtp_head();
    return request.draft;
  }
  TRY(attach(request.draft, source));
  log::info("the EAGLE-3 head {} drafts tokens", Printable(request.draft));
  return std::string();
}

}  // namespace kvik
