#pragma once

#include <variant>

namespace kvik {

// A std::variant whose copy may fail safely for lack of memory. libstdc++ 12 treats a variant of
// strings, vectors and trivial types as never valueless, so that if its copy constructor throws, it
// destroys a value that was never constructed. Copy assignment is not affected.
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
