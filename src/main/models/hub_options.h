#pragma once

#include "base/result.h"
#include "hub/hub_options.h"

namespace kvik {

// Reads the variables of Hugging Face (HF_HUB_CACHE, HF_HOME, HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH,
// HF_HUB_OFFLINE), of Ollama (OLLAMA_MODELS), of TLS (CURL_CA_BUNDLE, SSL_CERT_FILE), and
// KVIK_DOWNLOADS and KVIK_OLLAMA_REGISTRY. Errors:
// kInvalidArgument, naming the variable.
Result<HubOptions> hub_options();

}  // namespace kvik
