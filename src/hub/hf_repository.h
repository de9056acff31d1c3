#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "hub/gguf_variants.h"
#include "hub/http/http_session.h"
#include "hub/hub_options.h"

namespace kvik {

// A revision of a repository on the hub.
struct HfRepository {
  std::string commit;  // 40 hexadecimal digits
  std::vector<RepositoryFile> files;
};

// Parses the answer to GET /api/models/ORG/REPO/revision/main?blobs=true. Files whose names could
// leave a folder, or whose hashes are malformed, are left out. Errors: kIo for anything else that
// is malformed.
Result<HfRepository> parse_hf_repository(const std::string& json);

// Requests the files of the newest revision. Errors: kNotFound, kIo.
Result<HfRepository> find_hf_repository(HttpSession& session, const std::string& repository,
                                        const HubOptions& options, const KeepGoing& keep_going);

// Returns the URL of a file.
std::string hf_file_url(const HubOptions& options, const std::string& repository,
                        const std::string& commit, const std::string& path);

}  // namespace kvik
