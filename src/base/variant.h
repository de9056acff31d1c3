#pragma once

#include <variant>

namespace kvik {

// A std::variant that can be copied where the system has no memory. libstdc++ 12 takes a variant of
// strings, vectors and trivial types for one that always has a value, so that where its copy
// constructor throws, it destroys a value that was never made. Copy assignment is not affected.
template <class... Types>
class Variant : public std::variant<Types...> {
  using Base = std::variant<Types...>;

 public:
  using Base::Base;
  using Base::operator=;
  Variant() = default;
  Variant(const Variant& other) : Base() { Base::operator=(other); }
  Variant(Variant&&) = default;
  Variant& operator=(const Variant&) = default;
  Variant& operator=(Variant&&) = default;
  ~Variant() = default;
};

}  // namespace kvik
