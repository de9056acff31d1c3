#include "hub/hf_repository.h"

#include <fmt/format.h>

#include <utility>

#include "base/json/json.h"
#include "base/printable.h"
#include "base/text/percent_encoding.h"
#include "hub/download/file_download.h"
#include "hub/model_name.h"

namespace kvik {
namespace {

constexpr JsonLimits kHubLimits{
    .max_bytes = size_t{16} << 20, .max_values = 400'000, .max_depth = 32};

std::string text_of(const Json& object, std::string_view member) {
  const Json* const value = object.find(member);
  return value ? value->text() : "";
}

std::optional<uint64_t> count_of(const Json& object, std::string_view member) {
  const Json* const value = object.find(member);
  const int64_t* const number = value ? std::get_if<int64_t>(&value->value) : nullptr;
  return number && *number >= 0 ? std::optional(static_cast<uint64_t>(*number)) : std::nullopt;
}

std::optional<RepositoryFile> parse_sibling(const Json& sibling) {
  RepositoryFile file{.path = text_of(sibling, "rfilename"), .git_id = text_of(sibling, "blobId")};
  auto n_bytes = count_of(sibling, "size");
  if (const Json* const lfs = sibling.find("lfs"); lfs && lfs->is(Json::Kind::kObject)) {
    file.sha256 = text_of(*lfs, "sha256");
    if (const auto size = count_of(*lfs, "size")) n_bytes = size;
    if (!is_hex(file.sha256, 64)) return std::nullopt;
  }
  if (!n_bytes || *n_bytes > kMaxFileBytes || !is_safe_path(file.path)) return std::nullopt;
  if (file.sha256.empty() && !is_hex(file.git_id, 40)) return std::nullopt;
  file.n_bytes = *n_bytes;
  return file;
}

}  // namespace

Result<HfRepository> parse_hf_repository(const std::string& json) {
  const auto parsed = parse_json(json, kHubLimits);
  if (!parsed)
    return fail(ErrorCode::kIo, fmt::format("the hub's list of files: {}", parsed.error().message));
  HfRepository repository{.commit = text_of(*parsed, "sha"), .files = {}};
  const Json* const siblings = parsed->find("siblings");
  if (!is_hex(repository.commit, 40) || siblings == nullptr || !siblings->is(Json::Kind::kArray)) {
    return fail(ErrorCode::kIo,
                "the hub's list of files has no 'sha' of 40 digits with 'siblings'");
  }
  for (const Json& sibling : siblings->list()) {
    if (auto file = parse_sibling(sibling)) repository.files.push_back(std::move(*file));
  }
  return repository;
}

Result<HfRepository> find_hf_repository(HttpSession& session, const std::string& repository,
                                        const HubOptions& options, const KeepGoing& keep_going) {
  const std::string url =
      fmt::format("{}/api/models/{}/revision/main?blobs=true", options.hf_endpoint, repository);
  TRY_ASSIGN(
      const HttpBody body,
      http_get(session, {.url = url, .bearer = options.hf_token, .accept = "application/json"},
               kHubLimits.max_bytes, keep_going));
  if (body.reply.status != 200) return std::unexpected(status_error(body.reply, repository));
  return parse_hf_repository(body.bytes);
}

std::string hf_file_url(const HubOptions& options, const std::string& repository,
                        const std::string& commit, const std::string& path) {
  return fmt::format("{}/{}/resolve/{}/{}", options.hf_endpoint, repository, commit,
                     percent_encoded(path, "-_.~/"));
}

}  // namespace kvik
