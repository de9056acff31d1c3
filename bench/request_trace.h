#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/simulator.h"

namespace kvik {

struct TraceScale {
  uint32_t divide_tokens = 8;   // lengths are divided by this
  uint32_t every = 1;           // of so many sessions, or requests, one is read
  uint32_t n_max = UINT32_MAX;  // conversations that are read
  double gap_s = 0;             // seconds between the beginnings of two sessions
  double speed = 1;             // of arrivals, relative to the recording
};

// Read a recorded trace as conversations with scripts; none if the file cannot be read.
//
// Agents' sessions: a JSON object a line, {"r": [[t, n_prompt, n_answer, n_blocks, parent, shared,
// stop, pause, duration, …], …]}. The prompt shares its first `shared` blocks of 64 tokens with the
// prompt of request `parent`; if these are all of that prompt's blocks, it contains the answer too.
std::vector<Conversation> read_sessions(const std::string& path, const TraceScale& scale);
// Mooncake: {"timestamp": ms, "input_length", "output_length", "hash_ids": blocks of 512 tokens}.
std::vector<Conversation> read_mooncake(const std::string& path, const TraceScale& scale);
// Azure: lines "date time,prompt tokens,answer tokens". No request shares a prefix with another.
std::vector<Conversation> read_azure(const std::string& path, const TraceScale& scale);

}  // namespace kvik
