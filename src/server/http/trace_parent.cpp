#include "server/http/trace_parent.h"

#include <algorithm>

namespace kvik {
namespace {

// Version, trace, span and flags, with their dashes.
constexpr size_t kSize = 2 + 1 + 32 + 1 + 16 + 1 + 2;

// The specification does not allow uppercase digits.
bool is_hex(std::string_view digits) {
  return std::ranges::all_of(
      digits, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view digits) {
  return is_hex(digits) && digits.find_first_not_of('0') != digits.npos;
}

}  // namespace

std::optional<TraceParent> parse_trace_parent(std::string_view header) {
  if (header.size() < kSize) return std::nullopt;
  const std::string_view version = header.substr(0, 2);
  const std::string_view trace = header.substr(3, 32);
  const std::string_view span = header.substr(36, 16);
  const std::string_view flags = header.substr(53, 2);
  if (header[2] != '-' || header[35] != '-' || header[52] != '-') return std::nullopt;
  if (!is_hex(version) || version == "ff" || !is_hex(flags)) return std::nullopt;
  if (!is_id(trace) || !is_id(span)) return std::nullopt;
  // Later versions may add fields after another dash.
  const std::string_view rest = header.substr(kSize);
  if (version == "00" ? !rest.empty() : !rest.empty() && !rest.starts_with('-'))
    return std::nullopt;
  return TraceParent{std::string(trace), std::string(span)};
}

}  // namespace kvik
