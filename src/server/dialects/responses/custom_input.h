#pragma once

#include <string>
#include <string_view>

namespace kvik {

// Extracts the input of a custom tool, which takes a text, from the arguments that models write:
// {"input": "…"}. Arguments of another form are the input unchanged.
class CustomInput {
 public:
  // Adds arguments; returns the next part of the input.
  std::string push(std::string_view arguments);

  // Ends the arguments; returns the rest of the input.
  std::string finish();

 private:
  std::string decoded();

  enum class Place { kBefore, kInput, kAfter, kOther } place_ = Place::kBefore;
  std::string held_;  // arguments not decoded yet
};

}  // namespace kvik
