#pragma once

#include <string>
#include <string_view>

namespace kvik {

// The input of a custom tool, which takes a text, out of the arguments in which models write it:
// {"input": "…"}. Arguments of another shape are the input as they stand.
class CustomInput {
 public:
  // More of the arguments; returns how the input goes on.
  std::string push(std::string_view arguments);

  // No more of them; returns the rest of the input.
  std::string finish();

 private:
  std::string decoded();

  enum class Place { kBefore, kInput, kAfter, kOther } place_ = Place::kBefore;
  std::string held_;  // arguments that are not decoded yet
};

}  // namespace kvik
