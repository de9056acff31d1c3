#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/body_source.h"
#include "server/http/byte_ledger.h"
#include "server/http/http_message.h"

namespace kvik {

// JSON of an answer, written in pieces: texts, and lists whose elements are written on demand.
// Callers keep the referenced data alive.
class JsonBody final : public BodySource {
 public:
  // Appends element i.
  using Write = std::function<void(size_t i, std::string& out)>;

  // The share covers the data of the answer, and is held until it is sent.
  explicit JsonBody(size_t weight_bytes, ByteShare share = {})
      : weight_bytes_(weight_bytes), share_(std::move(share)) {}

  void text(std::string text);
  // Adds n elements separated by commas.
  void each(size_t n, Write write) {
    parts_.push_back({.text = {}, .n = n, .write = std::move(write)});
  }
  void once(std::function<void(std::string& out)> write);

  bool next(std::string& out) override;
  size_t weight_bytes() const override { return weight_bytes_; }

 private:
  struct Part {
    std::string text;
    size_t n = 0;
    Write write;
  };

  void write(Part& part, std::string& out);

  const size_t weight_bytes_;
  ByteShare share_;
  std::vector<Part> parts_;
  size_t n_done_ = 0;     // parts
  size_t n_written_ = 0;  // elements of the next part
};

// Returns {NAME: text}, or an error if there is no memory.
HttpResponse text_response(HttpMemory& memory, std::string_view name, std::string text);

// Returns the text of an object without its closing brace: "{"a":1".
std::string opened(const boost::json::object& object);
// Returns the rest of it with further fields: ","b":2}".
std::string closed(const boost::json::object& object);

}  // namespace kvik
