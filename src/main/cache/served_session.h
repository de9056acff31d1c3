#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "cli/remote/http_client.h"
#include "tensor/kv_type.h"

namespace kvik {

// The last prompt of a session of a running server, with its answer.
struct ServedSession {
  std::string weights_digest;
  KvType kv_type = KvType::kInt8;
  std::vector<TokenId> tokens;
  uint32_t prompt_tokens = 0;
};

// The session that is wanted.
struct SessionQuery {
  std::string id;
  std::string cache_salt = {};  // of its requests
  std::string model = {};       // name on a server of several models; empty: the one that is loaded
};

// Reads GET /kvik/sessions/ID. Errors: kNotFound if the server keeps no tokens of the session for
// this key and salt; kCorrupt for another answer; those of HttpClient.
Result<ServedSession> read_session(const HttpClient& client, const SessionQuery& query);

}  // namespace kvik
