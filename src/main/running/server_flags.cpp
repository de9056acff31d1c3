#include "main/running/server_flags.h"

#include <algorithm>

namespace kvik {

void ServerFlags::add_to(Flags& flags) {
  flags.add(
      "Server",
      {
          Flag("--url", &url,
               "address of a running server; none: no server is looked for (default: "
               "http://127.0.0.1:8080)")
              .called("URL"),
          Flag("--api-key", &api_key,
               "API key of the server; other users of this machine can read it in the process "
               "list, but not in KVIK_API_KEY")
              .called("KEY"),
      });
}

Result<HttpClient> ServerFlags::client() const {
  TRY_ASSIGN(ServerUrl server, ServerUrl::parse(url.empty() ? kDefaultServerUrl : url));
  const std::string key = first_key();
  if (!std::ranges::all_of(key, [](unsigned char c) { return c > ' ' && c < 127; })) {
    return fail(ErrorCode::kInvalidArgument,
                "the API key (KVIK_API_KEY or --api-key) has a blank or a character that is not "
                "ASCII, which no key of a server has");
  }
  return HttpClient(std::move(server), key);
}

}  // namespace kvik
