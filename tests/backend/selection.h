#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"

// Helpers of the tests of attention to selected tokens.
namespace kvik::testing {

inline std::unique_ptr<Backend> backend_of(std::string_view isa, uint32_t n_threads = 2) {
  auto backend = make_cpu_backend({n_threads, std::string(isa)});
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

// Pages that hold NaN until something is written to them.
class Pages {
 public:
  Pages(Backend& backend, size_t n_pages, size_t n_bytes) {
    for (size_t i = 0; i < n_pages; ++i) {
      buffers_.push_back(backend.memory().allocate(n_bytes));
      std::memset(buffers_.back().data(), 0xff, n_bytes);
      addresses.push_back(buffers_.back().data());
    }
  }
  std::vector<std::byte*> addresses;

 private:
  std::vector<Buffer> buffers_;
};

inline std::vector<uint32_t> range(uint32_t begin, uint32_t end) {
  std::vector<uint32_t> all(end - begin);
  std::iota(all.begin(), all.end(), begin);
  return all;
}

}  // namespace kvik::testing
