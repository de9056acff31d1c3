#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace kvik {

// Computes the SHA-256 of a file while it is written: a thread reads the bytes up to which the file
// is complete. The owner's thread calls all methods.
class PrefixHash {
 public:
  // Borrows the descriptor of a file that will have n_bytes. Errors: kIo if no thread can be
  // started.
  static Result<std::unique_ptr<PrefixHash>> start(int descriptor, uint64_t n_bytes);
  virtual ~PrefixHash() = default;

  // Tells how many bytes from the beginning on are final; never fewer than before.
  virtual void advance(uint64_t n_complete) = 0;
  // Waits until the whole file is hashed and returns the hash in hex. Calls `on_bytes` with the
  // bytes hashed so far from time to time; stops when it returns false. Errors: kIo.
  virtual Result<std::string> finish(const std::function<bool(uint64_t)>& on_bytes) = 0;
};

}  // namespace kvik
