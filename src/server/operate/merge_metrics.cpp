#include "server/operate/merge_metrics.h"

#include <map>
#include <string_view>
#include <vector>

namespace kvik {
namespace {

constexpr std::string_view kHelp = "# HELP ";
constexpr std::string_view kType = "# TYPE ";

// A metric: its comment lines and its samples, each ended by a line feed.
struct Family {
  std::string comments, samples;
};

// Returns the text up to the next line feed, and removes it from `text`.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// Returns the name in a HELP or TYPE line; empty for other lines.
std::string_view family_of(std::string_view line) {
  for (const std::string_view prefix : {kHelp, kType}) {
    if (!line.starts_with(prefix)) continue;
    line.remove_prefix(prefix.size());
    return line.substr(0, line.find(' '));
  }
  return {};
}

}  // namespace

std::string merge_metrics(std::span<const std::string> pages) {
  std::vector<Family> families;
  std::map<std::string, size_t, std::less<>> indices;
  for (const std::string& page : pages) {
    std::string_view rest = page;
    std::string_view name;     // of the family that the lines belong to
    bool has_comments = true;  // a page before has the comments of this family
    size_t index = 0;
    while (!rest.empty()) {
      const std::string_view line = take_line(rest);
      const std::string_view begun = family_of(line);
      if (!begun.empty() && begun != name) {
        name = begun;
        const auto [found, is_new] = indices.try_emplace(std::string(name), families.size());
        has_comments = !is_new;
        index = found->second;
        if (is_new) families.emplace_back();
      }
      if (name.empty() || line.empty()) continue;
      if (!begun.empty() && has_comments) continue;
      std::string& part = begun.empty() ? families[index].samples : families[index].comments;
      part += line;
      part += '\n';
    }
  }
  std::string merged;
  for (const Family& family : families) merged += family.comments + family.samples;
  return merged;
}

}  // namespace kvik
