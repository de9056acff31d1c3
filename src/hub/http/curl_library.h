#pragma once

// Deprecated options are used where older versions of the library have no other.
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>

#include "base/result.h"

namespace kvik {

// The functions of libcurl, which is loaded when it is first needed: a program on a machine without
// it runs, except for downloads. Never unloaded. Any thread.
class CurlLibrary {
 public:
  // Errors: kUnsupported if the library cannot be loaded, naming it and the package that has it.
  static Result<const CurlLibrary*> get();

  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_multi_init) multi_init = nullptr;
  decltype(&curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&curl_multi_perform) multi_perform = nullptr;
  decltype(&curl_multi_poll) multi_poll = nullptr;
  decltype(&curl_multi_info_read) multi_info_read = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  decltype(&curl_url) url = nullptr;
  decltype(&curl_url_cleanup) url_cleanup = nullptr;
  decltype(&curl_url_set) url_set = nullptr;
  decltype(&curl_url_get) url_get = nullptr;
  decltype(&curl_free) free = nullptr;

 private:
  CurlLibrary() = default;
  static Result<CurlLibrary> load();
};

}  // namespace kvik
