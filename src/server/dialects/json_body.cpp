#include "server/dialects/json_body.h"

#include <boost/json/serialize.hpp>
#include <memory>

#include "server/http/status.h"

namespace kvik {

namespace json = boost::json;

void JsonBody::text(std::string text) {
  if (!parts_.empty() && parts_.back().n == 0) {
    parts_.back().text += text;
  } else {
    parts_.push_back({.text = std::move(text), .n = 0, .write = nullptr});
  }
}

void JsonBody::once(std::function<void(std::string& out)> write) {
  each(1, [write = std::move(write)](size_t, std::string& out) { write(out); });
}

bool JsonBody::next(std::string& out) {
  while (out.size() < kPieceBytes && n_done_ < parts_.size()) {
    Part& part = parts_[n_done_];
    write(part, out);
    if (n_written_ < part.n) continue;
    part = {};  // and everything it kept alive
    n_written_ = 0;
    ++n_done_;
  }
  return n_done_ < parts_.size();
}

void JsonBody::write(Part& part, std::string& out) {
  out += part.text;
  for (; n_written_ < part.n && out.size() < kPieceBytes; ++n_written_) {
    if (n_written_ > 0) out += ',';
    part.write(n_written_, out);
  }
}

HttpResponse text_response(HttpMemory& memory, std::string_view name, std::string text) {
  ByteShare share(memory.answers);
  // for escaping and the piece
  if (!share.grow(3 * text.size())) return error_response(no_memory());
  auto body = std::make_unique<JsonBody>(text.size(), std::move(share));
  body->once([name = std::string(name), text = std::move(text)](std::string& out) {
    out += json::serialize(json::object{{name, text}});
  });
  return {.status = 200, .body = "", .source = std::move(body)};
}

std::string opened(const json::object& object) {
  std::string text = json::serialize(object);
  text.pop_back();
  return text;
}

std::string closed(const json::object& object) {
  std::string text = json::serialize(object);
  text.front() = ',';
  return object.empty() ? "}" : text;
}

}  // namespace kvik
