#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace kvik {

// The folders in which models are stored, and the servers from which they are downloaded. src/main
// fills it from the environment.
struct HubOptions {
  std::string hf_cache =
      {};  // folder of Hugging Face's cache: models--ORG--REPO/{blobs,refs,snapshots}
  std::string hf_endpoint = "https://huggingface.co";
  std::string hf_token = {};       // sent to hf_endpoint only; empty: none
  std::string ollama_models = {};  // folder of Ollama's models: {blobs,manifests}
  std::string ollama_registry = "https://registry.ollama.ai";
  std::string kvik_models = {};  // folder of files downloaded by URL, short names and locks
  std::string ca_file = {};      // certificates to trust, in PEM; empty: those of the system
  bool is_offline = false;       // opens no connection

  uint32_t n_connections = 4;  // parallel range requests of one file
  // Time without data after which a connection is closed and the rest requested again.
  Duration stall_timeout = std::chrono::seconds(30);
};

}  // namespace kvik
