#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvik {

// Whose work a request is part of, as W3C Trace Context tells it.
struct TraceParent {
  std::string trace_id;  // 32 hexadecimal digits
  std::string span_id;   // 16, of the caller
};

// "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"; nullopt for what is none: the
// specification (w3.org/TR/trace-context, 3.2) wants it to be ignored.
std::optional<TraceParent> parse_trace_parent(std::string_view header);

}  // namespace kvik
