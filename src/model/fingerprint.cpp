#include "model/fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gnu/libc-version.h>

#include <bit>
#include <concepts>
#include <type_traits>
#include <vector>

// Written by cmake/numerics.cmake.
extern const char* const kvik_numerics_of_sources;

namespace kvik {
namespace {

void add_value(Sha256& sha, const std::string& text) { sha.add_text(text); }
void add_value(Sha256& sha, double number) { sha.add_number(std::bit_cast<uint64_t>(number)); }
void add_value(Sha256& sha, std::integral auto number) {
  sha.add_number(static_cast<uint64_t>(number));
}

template <class Element>
void add_value(Sha256& sha, const std::vector<Element>& values) {
  sha.add_number(values.size());
  for (const auto& value : values) add_value(sha, static_cast<const Element&>(value));
}

}  // namespace

Fingerprint::Fingerprint(const ModelSource& source) {
  sha_.add_number(source.metadata().values().size());
  for (const auto& [key, value] : source.metadata().values()) {
    sha_.add_text(key);
    sha_.add_number(value.index());
    std::visit([this](const auto& typed) { add_value(sha_, typed); }, value);
  }
  sha_.add_number(source.tensors().size());
  for (const TensorInfo& tensor : source.tensors()) {
    sha_.add_text(tensor.name);
    sha_.add_text(name_of(tensor.type));
    add_value(sha_, tensor.shape);
  }
}

void Fingerprint::add_tensors(const Hash128& digest) {
  sha_.add_number(digest.low);
  sha_.add_number(digest.high);
}

std::string Fingerprint::finish() { return to_hex(sha_.finish()); }

std::string numerics(const std::set<std::string_view>& arithmetics) {
  return fmt::format("{}/glibc {}/{}", kvik_numerics_of_sources, gnu_get_libc_version(),
                     fmt::join(arithmetics, "+"));
}

}  // namespace kvik
