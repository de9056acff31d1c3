#pragma once

#include <string_view>

namespace kvik {

// A repository that was cloned without Git LFS has a few lines of text in place of each large file.
// They begin so.
inline constexpr std::string_view kLfsPointer = "version https://git-lfs";
inline constexpr std::string_view kIsLfsPointer =
    "a Git LFS pointer, expected the file that it stands for: `git lfs pull` downloads it";

}  // namespace kvik
