#pragma once

#include <cstddef>
#include <string>

namespace kvik {

// The body of an answer that is made piece by piece while it is sent: as one text it could be many
// times what it is made of, and take long to write. One thread at a time; not the network's where
// it is large.
class BodySource {
 public:
  // A piece is at least so long, but for the last; little longer, as far as that can be had.
  static constexpr size_t kPieceBytes = size_t{256} << 10;

  virtual ~BodySource() = default;

  // Appends the next piece. False: that was the last one.
  virtual bool next(std::string& out) = 0;

  // About how long the whole will be.
  virtual size_t weight_bytes() const = 0;
};

}  // namespace kvik
