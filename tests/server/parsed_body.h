#pragma once

#include <string>
#include <utility>

#include "server/dialects/request_body.h"

namespace kvik {

// A parsed request body whose memory is counted in no ledger.
class ParsedBody {
 public:
  explicit ParsedBody(std::string text) : text_(std::move(text)) {}

  operator const RequestBody&() const { return body_; }

 private:
  std::string text_;
  ByteShare share_;
  JsonBudget budget_{.n_ctx = 1 << 20, .share = share_};
  RequestBody body_ = parse_body(budget_, text_);
};

}  // namespace kvik
