#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"
#include "format/synthetic/synthetic.h"
#include "model/model.h"

namespace kvik {

// A model with a few thousand random weights, and the backend that computes it.
struct TinyModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
};

struct TinyModelOptions {
  std::string name = "test-llama:f32";  // the part after "synthetic:"
  uint32_t n_threads = 1;
  std::string isa = {};  // empty: the best available
};

inline std::unique_ptr<Backend> make_test_backend(uint32_t n_threads = 1, std::string isa = {}) {
  auto backend = make_cpu_backend({.n_threads = n_threads, .isa = std::move(isa)});
  CHECK(backend.has_value());
  return std::move(*backend);
}

inline TinyModel load_tiny(ModelSource& source, uint32_t n_threads = 1, std::string isa = {}) {
  TinyModel tiny;
  tiny.backend = make_test_backend(n_threads, std::move(isa));
  auto model = Model::load(source, *tiny.backend, nullptr);
  CHECK(model.has_value());
  tiny.model = std::move(*model);
  return tiny;
}

inline TinyModel load_tiny(const TinyModelOptions& options = {}) {
  const auto source = make_synthetic("synthetic:" + options.name);
  CHECK(source.has_value());
  return load_tiny(**source, options.n_threads, options.isa);
}

// Returns n token ids below 256 that resemble text: the list has no shorter period.
inline std::vector<TokenId> some_tokens(uint32_t n, uint32_t seed = 1) {
  std::vector<TokenId> tokens(n);
  uint32_t state = seed * 2654435761u + 12345u;
  for (TokenId& token : tokens) {
    state = state * 1664525u + 1013904223u;
    token = 4 + (state >> 16) % 252;
  }
  return tokens;
}

inline testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) {
    return testing::AssertionFailure() << a.size() << " values against " << b.size();
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) == 0) continue;
    return testing::AssertionFailure() << "value " << i << ": " << a[i] << " against " << b[i];
  }
  return testing::AssertionSuccess();
}

}  // namespace kvik
