#include "hub/http/curl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

namespace kvik {
namespace {

// The second name is that of Debian's variant with GnuTLS.
constexpr const char* kLibraryNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

template <class Function>
bool load_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<CurlLibrary> CurlLibrary::load() {
  std::string reason;
  for (const char* name : kLibraryNames) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const error = ::dlerror();
      if (reason.empty()) reason = error != nullptr ? error : "unknown error";
      continue;
    }
    CurlLibrary c;
    decltype(&curl_global_init) global_init = nullptr;
    const bool has_all =
        load_function(library, "curl_global_init", global_init) &&
        load_function(library, "curl_easy_init", c.easy_init) &&
        load_function(library, "curl_easy_setopt", c.easy_setopt) &&
        load_function(library, "curl_easy_getinfo", c.easy_getinfo) &&
        load_function(library, "curl_easy_cleanup", c.easy_cleanup) &&
        load_function(library, "curl_easy_strerror", c.easy_strerror) &&
        load_function(library, "curl_multi_init", c.multi_init) &&
        load_function(library, "curl_multi_cleanup", c.multi_cleanup) &&
        load_function(library, "curl_multi_add_handle", c.multi_add_handle) &&
        load_function(library, "curl_multi_remove_handle", c.multi_remove_handle) &&
        load_function(library, "curl_multi_perform", c.multi_perform) &&
        load_function(library, "curl_multi_poll", c.multi_poll) &&
        load_function(library, "curl_multi_info_read", c.multi_info_read) &&
        load_function(library, "curl_slist_append", c.slist_append) &&
        load_function(library, "curl_slist_free_all", c.slist_free_all) &&
        load_function(library, "curl_url", c.url) &&
        load_function(library, "curl_url_cleanup", c.url_cleanup) &&
        load_function(library, "curl_url_set", c.url_set) &&
        load_function(library, "curl_url_get", c.url_get) &&
        load_function(library, "curl_free", c.free);
    if (has_all && global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) return c;
    reason = fmt::format("{} is older than 7.66", name);
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("downloads need libcurl ({}): install the package libcurl4 (Debian, "
                          "Ubuntu), libcurl (Fedora) or curl (Arch, Alpine)",
                          reason));
}

Result<const CurlLibrary*> CurlLibrary::get() {
  static const Result<CurlLibrary> library = load();
  if (!library) return std::unexpected(library.error());
  return &*library;
}

}  // namespace kvik
