#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvik {

// The trace that a request is part of (W3C Trace Context).
struct TraceParent {
  std::string trace_id;  // 32 hexadecimal digits
  std::string span_id;   // 16, of the caller
};

// Parses "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"; std::nullopt for invalid text,
// which the specification (w3.org/TR/trace-context, 3.2) requires to be ignored.
std::optional<TraceParent> parse_trace_parent(std::string_view header);

}  // namespace kvik
