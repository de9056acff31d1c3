#pragma once

#include <cstddef>
#include <string>

namespace kvik {

// The body of an answer that is produced in pieces while it is sent: as one text it could be many
// times as large as its source, and take long to write. One thread at a time; not the network
// thread if it is large.
class BodySource {
 public:
  // Minimum size of a piece except for the last; pieces are only slightly larger if possible.
  static constexpr size_t kPieceBytes = size_t{256} << 10;

  virtual ~BodySource() = default;

  // Appends the next piece. Returns false after the last one.
  virtual bool next(std::string& out) = 0;

  // Returns the approximate total size.
  virtual size_t weight_bytes() const = 0;
};

}  // namespace kvik
